from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

_Result = TypeVar("_Result")


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
