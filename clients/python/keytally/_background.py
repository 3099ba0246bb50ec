from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_tasks: set[asyncio.Task[Any]] = set()


def in_background(work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
    """Runs something to its end, also when whoever waits for it is cancelled and shields it."""
    task = asyncio.get_running_loop().create_task(work)
    # The event loop alone would let go of a task that nobody holds.
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task
