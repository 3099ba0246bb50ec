from __future__ import annotations

import os
import weakref
from typing import Protocol


class _Owner(Protocol):
    def _begin(self) -> None: ...


_owners: weakref.WeakSet[_Owner] = weakref.WeakSet()


def begin_in_each_process(owner: _Owner) -> None:
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
