from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from keytally import types
from keytally._background import in_background
from keytally._client import AsyncClient, Client

OnFailure = Callable[[Exception], None]


class _Hold:
    """The hold of a request, until it is captured or released."""

    def __init__(self, id: str | None, on_failure: OnFailure) -> None:
        self.id = id
        """Absent for a key without a billing record, of which nothing is held."""
        self._on_failure = on_failure
        self._is_settled = False
        self.cost_at_end: Callable[[], str] = lambda: "0"

    def _settles(self) -> bool:
        """Whether the caller is the first to settle what is held."""
        is_first = not self._is_settled and self.id is not None
        self._is_settled = True
        return is_first


class Hold(_Hold):
    def __init__(self, client: Client, id: str | None, on_failure: OnFailure) -> None:
        super().__init__(id, on_failure)
        self._client = client

    def capture(self, usage: str) -> types.CaptureHoldResult | None:
        self._is_settled = True
        return None if self.id is None else self._client.holds.capture({"holdId": self.id, "usage": usage})

    def end(self) -> None:
        """Settles what was not captured, once the answer has ended. Should that fail, the hold ends by itself."""
        if not self._settles() or self.id is None:
            return
        try:
            usage = self.cost_at_end()
            if _is_zero(usage):
                self._client.holds.release({"holdId": self.id})
            else:
                self._client.holds.capture({"holdId": self.id, "usage": usage})
        except Exception as error:
            self._on_failure(error)


class AsyncHold(_Hold):
    def __init__(self, client: AsyncClient, id: str | None, on_failure: OnFailure) -> None:
        super().__init__(id, on_failure)
        self._client = client
        self._ending: asyncio.Task[None] | None = None

    async def capture(self, usage: str) -> types.CaptureHoldResult | None:
        self._is_settled = True
        return None if self.id is None else await self._client.holds.capture({"holdId": self.id, "usage": usage})

    def begin_end(self) -> None:
        """Settles what was not captured, once the answer has ended. Should that fail, the hold ends by itself."""
        self._ending = self._ending or in_background(self._settle())

    async def end(self) -> None:
        """The same, and waits for it. One that is cancelled, as with its request, waits no longer, but all is settled."""
        self.begin_end()
        if self._ending:
            await asyncio.shield(self._ending)

    async def _settle(self) -> None:
        if not self._settles() or self.id is None:
            return
        try:
            usage = self.cost_at_end()
            if _is_zero(usage):
                await self._client.holds.release({"holdId": self.id})
            else:
                await self._client.holds.capture({"holdId": self.id, "usage": usage})
        except Exception as error:
            self._on_failure(error)


def _is_zero(usage: Any) -> bool:
    return isinstance(usage, str) and re.fullmatch(r"0+(\.0*)?", usage) is not None
