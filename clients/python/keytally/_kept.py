"""Usage of requests that passed while keytally was unavailable."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from keytally import types
from keytally._background import begin_in_each_process, call_back, completed
from keytally._client import AsyncClient, Client
from keytally._options import CallOptions
from keytally.errors import KeytallyError

Lost = str | KeytallyError
OnLost = Callable[[types.VerifyKeyInput, Lost], None]
ClientT = TypeVar("ClientT", Client, AsyncClient)

# Less than the 60 s of an Idempotency-Key, after which a call would be debited again: also with the last of its repetitions.
_REPEATABLE_SECONDS = 50.0
# Short, as the next round repeats it: one that gets no answer must not hold up the others until these are in doubt.
_LONGEST_ATTEMPT = 1.0
_PAUSE = 1.0


class KeptCall:
    """A verification without an answer."""

    def __init__(self, input: types.VerifyKeyInput, given_key: str | None = None, sent_at: float | None = None) -> None:
        self.input = input
        self.is_repeatable = given_key is not None
        self.idempotency_key = str(uuid.uuid4()) if given_key is None else given_key
        self.sent_at = sent_at
        """By `time.monotonic()`; it is set once keytally may have debited it."""

    async def send(self, client: Client | AsyncClient, options: CallOptions) -> types.Decision:
        began = time.monotonic()
        try:
            return await client._verify(self.input, {**options, "idempotency_key": self.idempotency_key})
        except KeytallyError as error:
            self.sent_at = self.sent_at or (began if error.may_be_debited else None)
            raise


class _Kept(Generic[ClientT]):
    """What both keep and send. For a `Client` it waits for no event loop."""

    def __init__(self, client: ClientT, *, on_lost: OnLost, at_most: int = 10_000) -> None:
        self._client: ClientT = client
        self._on_lost = on_lost
        self._at_most = at_most
        begin_in_each_process(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # After a fork, the parent still has its calls, and sends them.
        self._calls: list[KeptCall] = []
        self._is_sending = False
        self.away = False
        """Whether nobody of keytally answered when last asked: until it is back, requests do not wait for it."""

    @property
    def size(self) -> int:
        return len(self._calls)

    def keep(self, call: KeptCall, *, was_answered: bool = False) -> bool:
        """Keeps a call; false if there is no room for it. `was_answered`: keytally itself could not decide it, and is not away."""
        with self._lock:
            self.away = self.away or not was_answered
            if len(self._calls) >= self._at_most:
                return False
            self._calls.append(call)
            # Where no thread can be started now, the next request that passes tries it again.
            with suppress(RuntimeError):
                if not self._is_sending:
                    # Not waited for: `flush` is for the end of the process.
                    self._client._later(self._send(), is_awaited=False)
                    self._is_sending = True
        return True

    async def _send(self) -> None:
        """Sends what is kept until nothing is."""
        while True:
            await self._client._sleep(_PAUSE)
            self.away = self.away and not await self._client._ready()
            if not self.away:
                # Those that are in doubt soonest first.
                await self._settle_all(sorted(self._calls, key=lambda call: call.sent_at or math.inf))
            with self._lock:
                self._is_sending = len(self._calls) > 0
                if not self._is_sending:
                    return

    async def _settle_all(self, calls: list[KeptCall]) -> None:
        for call in calls:
            await self._settle(call)

    async def _settle(self, call: KeptCall) -> None:
        outcome = await self._outcome_of(call)
        if outcome is None:
            return
        if outcome != "VALID":
            call_back("on_lost", self._on_lost, call.input, outcome)
        with self._lock:
            self._calls.remove(call)

    async def _outcome_of(self, call: KeptCall) -> Lost | None:
        """Sends a call; gives `None` where it is not decided now."""
        if call.sent_at is not None and time.monotonic() - call.sent_at >= _REPEATABLE_SECONDS:
            return "DOUBTFUL"
        if self.away:
            return None
        outcome: Lost
        try:
            outcome = (await call.send(self._client, {"timeout": _LONGEST_ATTEMPT}))["status"]
        except KeytallyError as error:
            outcome = error
            self.away = self.away or error.code == 0
            if error.code == 0 or error.is_passing:
                return None
        except Exception as error:
            return KeytallyError(f"the call cannot be sent: {error}", status=0)
        if outcome == "RATE_LIMITED":
            call.sent_at = None
            return None
        # Before these three alone keytally looks for what an earlier attempt debited.
        return outcome if call.sent_at is None or outcome in ("VALID", "USAGE_LIMITED") else "DOUBTFUL"

    async def _flush(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while self._calls and time.monotonic() < until:
            await self._client._sleep(0.01)
        return self.size


class KeptUsage(_Kept[Client]):
    """
    Keeps, in memory, the usage of requests that passed while keytally was unavailable, and sends it again until it is decided.

    `on_lost` is called with usage that passed and is sent no more, and why: the status or the error with which keytally refused it, or
    `DOUBTFUL` where an earlier attempt may have been debited, and keytally can no longer tell. At most `at_most` calls are kept; beyond
    that, requests are refused.
    """

    def flush(self, timeout: float = 10.0) -> int:
        """Waits until the kept calls are decided, at most for so long, and gives how many are left. Call it before the process ends."""
        return completed(self._flush(timeout))


class AsyncKeptUsage(_Kept[AsyncClient]):
    """The same for an `AsyncClient`: sent by a task of its event loop."""

    async def _settle_all(self, calls: list[KeptCall]) -> None:
        await asyncio.gather(*map(self._settle, calls))

    async def flush(self, timeout: float = 10.0) -> int:
        """Waits until the kept calls are decided, at most for so long, and gives how many are left. Call it before the process ends."""
        return await self._flush(timeout)
