from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from keytally import types
from keytally._background import completed
from keytally._client import AsyncClient, Client
from keytally._wire import CAPTURE, RELEASE
from keytally.errors import KeytallyError

OnFailure = Callable[[Exception], None]
_Result = TypeVar("_Result")


class _Hold:
    """The hold of a request, until it is captured or released."""

    def __init__(self, client: Client | AsyncClient, id: str | None, on_failure: OnFailure) -> None:
        self._operate = client._operate
        self.id = id
        """Absent for a key without a billing record, of which nothing is held."""
        self._on_failure = on_failure
        self._is_settled = False
        self.cost_at_end: Callable[[], str] = lambda: "0"

    async def _capture(self, usage: str) -> types.CaptureHoldResult | None:
        """
        Of a capture that keytally refused, or that could not be sent, the hold is as it was: captured again, or released at the end.
        """
        if self.id is None:
            return None
        is_refused = False
        try:
            captured = await self._operate(CAPTURE, {"holdId": self.id, "usage": usage}, {})
            return cast(types.CaptureHoldResult, captured)
        except Exception as error:
            is_refused = not isinstance(error, KeytallyError) or error.is_refusal
            raise
        finally:
            self._is_settled = self._is_settled or not is_refused

    async def _settle(self) -> None:
        """Captures the cost at the end, or releases what was not captured. Should that fail, the hold ends by itself."""
        if self._is_settled or self.id is None:
            return
        self._is_settled = True
        try:
            usage = self.cost_at_end()
            if _is_zero(usage):
                await self._operate(RELEASE, {"holdId": self.id}, {})
            else:
                await self._operate(CAPTURE, {"holdId": self.id, "usage": usage}, {})
        except Exception as error:
            self._on_failure(error)


class Hold(_Hold):
    def __init__(self, client: Client, id: str | None, on_failure: OnFailure) -> None:
        super().__init__(client, id, on_failure)
        # keytally may refuse a capture that another thread has under way: until then nothing is released.
        self._lock = threading.RLock()

    def capture(self, usage: str) -> types.CaptureHoldResult | None:
        with self._lock:
            return completed(self._capture(usage))

    def end(self) -> None:
        """Settles what was not captured, once the answer has ended."""
        with self._lock:
            completed(self._settle())


class AsyncHold(_Hold):
    def __init__(self, client: AsyncClient, id: str | None, on_failure: OnFailure) -> None:
        super().__init__(client, id, on_failure)
        self._background = client._background
        self._lock = asyncio.Lock()

    async def capture(self, usage: str) -> types.CaptureHoldResult | None:
        """It is sent, whatever becomes of the caller."""
        capturing = self._background.begin(self._alone(self._capture(usage)))
        try:
            return await asyncio.shield(capturing)
        except asyncio.CancelledError:
            capturing.add_done_callback(self._tell_failure)
            raise

    def _tell_failure(self, capturing: asyncio.Task[types.CaptureHoldResult | None]) -> None:
        error = None if capturing.cancelled() else capturing.exception()
        if isinstance(error, Exception):
            self._on_failure(error)

    def end(self) -> asyncio.Future[None]:
        """Settles what was not captured, once the answer has ended. Who waits for it may be cancelled, as with its request."""
        return asyncio.shield(self._background.begin(self._alone(self._settle())))

    async def _alone(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        # Its caller may be gone, and keytally may refuse it: the end waits for captures under way.
        async with self._lock:
            return await work


def hold_for(client: Client | AsyncClient, id: str | None, on_failure: OnFailure) -> Hold | AsyncHold:
    return AsyncHold(client, id, on_failure) if isinstance(client, AsyncClient) else Hold(client, id, on_failure)


def _is_zero(usage: Any) -> bool:
    return isinstance(usage, str) and re.fullmatch(r"0+(\.0*)?", usage) is not None
