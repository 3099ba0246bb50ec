"""Work beside a request: in the background, in a child process, and by functions of the guarded program."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

_Result = TypeVar("_Result")
_logger = logging.getLogger("keytally")
_owners: weakref.WeakSet[Any] = weakref.WeakSet()


def completed(work: Coroutine[Any, Any, _Result]) -> _Result:
    """What a coroutine gives that waits for nothing of an event loop. Both clients have the same ones; those of a `Client` block."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(_Result, end.value)
    work.close()
    raise RuntimeError("a function that waits for an event loop was given to a guard for threads")


class Background:
    """Work that runs to its end, also when whoever waits for it is cancelled and shields it."""

    def __init__(self) -> None:
        # The event loop alone would let go of a task that nobody holds.
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def ended(self) -> None:
        """Waits for all of it, also for what begins meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def call_back(name: str, callback: Callable[..., object], *args: Any) -> None:
    """Calls a function of the guarded program. What it raises is logged, and ends nothing."""
    try:
        callback(*args)
    except Exception:
        _logger.exception("%s failed", name)


def begin_in_each_process(owner: Any) -> None:
    """
    Calls `_begin` now, and again in each child process after a fork: threads are gone there, a lock of theirs would stay locked, and
    connections are still the parent's, which would get the answers.
    """
    owner._begin()
    _owners.add(owner)


def _begin_in_child() -> None:
    for owner in list(_owners):
        owner._begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
