"""Usage of requests that passed while keytally was unavailable."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from keytally import types
from keytally._background import completed
from keytally._callback import call_back
from keytally._client import AsyncClient, Client
from keytally._fork import begin_in_each_process
from keytally.errors import KeytallyError

Lost = str | KeytallyError
OnLost = Callable[[types.VerifyKeyInput, Lost], None]
ClientT = TypeVar("ClientT", Client, AsyncClient)

# Less than the 60 s of an Idempotency-Key, after which a call would be debited again: also with the last of its repetitions.
_REPEATABLE_SECONDS = 50.0
_LONGEST_ATTEMPT = 9.0


class _KeptCall:
    """A verification without an answer. `sent_at`, by `time.monotonic()`, is set once keytally may have debited it."""

    def __init__(self, input: types.VerifyKeyInput, idempotency_key: str, sent_at: float | None) -> None:
        self.input = input
        self.idempotency_key = idempotency_key
        self.sent_at = sent_at


class _Kept(Generic[ClientT]):
    """What both keep and send. For a `Client` it waits for no event loop."""

    def __init__(self, client: ClientT, *, on_lost: OnLost, at_most: int = 10_000, pause: float = 1.0) -> None:
        self._client: ClientT = client
        self._on_lost = on_lost
        self._at_most = at_most
        self._pause = pause
        begin_in_each_process(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # After a fork, the parent still has its calls, and sends them.
        self._calls: set[_KeptCall] = set()
        self._is_planned = False
        self.away = False
        """Whether nobody of keytally answered when last asked: until it is back, requests do not wait for it."""

    @property
    def size(self) -> int:
        return len(self._calls)

    def keep(
        self,
        input: types.VerifyKeyInput,
        idempotency_key: str,
        sent_at: float | None = None,
        *,
        was_answered: bool = False,
    ) -> bool:
        """
        Keeps a call; false if there is no room for it. `sent_at` is by `time.monotonic()`. `was_answered`: keytally itself could not
        decide it, and is not away.
        """
        with self._lock:
            self.away = self.away or not was_answered
            has_room = len(self._calls) < self._at_most
            if has_room:
                self._calls.add(_KeptCall(input, idempotency_key, sent_at))
        self._plan()
        return has_room

    def _plan(self) -> None:
        with self._lock:
            # While keytally is away, requests pass without it: also without calls, somebody must ask whether it is back.
            if self._is_planned or not (self._calls or self.away):
                return
            # Where no thread can be started now, the next request that passes tries it again.
            with suppress(RuntimeError):
                self._send_later()
                self._is_planned = True

    def _send_later(self) -> None:
        raise NotImplementedError

    def _end_plan(self) -> None:
        with self._lock:
            self._is_planned = False
        self._plan()

    async def _send_all(self) -> None:
        # First, since a call that was sent may be sent again for a minute only.
        is_ready = await self._client._ready()
        self.away = self.away and not is_ready
        for call in list(self._calls):
            outcome: Lost | None = None
            if call.sent_at is not None and time.monotonic() - call.sent_at >= _REPEATABLE_SECONDS:
                outcome = "DOUBTFUL"
            elif is_ready and not self.away:
                outcome = await self._outcome_of(call)
            if outcome is not None:
                with self._lock:
                    self._calls.discard(call)
                if outcome != "VALID":
                    call_back("on_lost", self._on_lost, call.input, outcome)

    async def _outcome_of(self, call: _KeptCall) -> Lost | None:
        """Sends a call; gives `None` where it is not decided now."""
        settings, sent_at = self._client._settings, time.monotonic()
        retry = settings.retry_verify({"timeout": min(settings.verify_timeout, _LONGEST_ATTEMPT)})
        outcome: Lost
        try:
            decision = await self._client._verify(call.input, {"idempotency_key": call.idempotency_key}, retry)
            outcome = decision["status"]
        except KeytallyError as error:
            outcome = error
        except (TypeError, ValueError, RecursionError) as error:
            return KeytallyError(f"the call cannot be sent: {error}", status=0)
        if retry.may_be_debited and call.sent_at is None:
            call.sent_at = sent_at
        if isinstance(outcome, KeytallyError) and (outcome.code == 0 or outcome.is_passing):
            self.away = self.away or outcome.code == 0
            return None
        if outcome == "RATE_LIMITED":
            call.sent_at = None
            return None
        # Before these three alone keytally looks for what an earlier attempt debited.
        return outcome if call.sent_at is None or outcome in ("VALID", "USAGE_LIMITED") else "DOUBTFUL"


class KeptUsage(_Kept[Client]):
    """
    Keeps, in memory, the usage of requests that passed while keytally was unavailable, and sends it again until it is decided.

    `on_lost` is called with usage that passed and is sent no more, and why: the status or the error with which keytally refused it, or
    `DOUBTFUL` where an earlier attempt may have been debited, and keytally can no longer tell. At most `at_most` calls are kept; beyond
    that, requests are refused. Between two attempts to reach keytally `pause` seconds go by.
    """

    def _begin(self) -> None:
        super()._begin()
        self._sending = threading.Lock()

    def flush(self) -> int:
        """Sends the kept calls again, and gives how many are left. Call it before the process ends."""
        with self._sending:
            completed(self._send_all())
        return self.size

    def _send_later(self) -> None:
        timer = threading.Timer(self._pause, self._send_now)
        # In the background: `flush` is for the end of the process.
        timer.daemon = True
        timer.start()

    def _send_now(self) -> None:
        try:
            self.flush()
        finally:
            self._end_plan()


class AsyncKeptUsage(_Kept[AsyncClient]):
    """The same for an `AsyncClient`: sent by a task of its event loop."""

    def _begin(self) -> None:
        super()._begin()
        self._sending = asyncio.Lock()

    async def flush(self) -> int:
        """Sends the kept calls again, and gives how many are left. Call it before the process ends."""
        async with self._sending:
            await self._send_all()
        return self.size

    def _send_later(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._send_now())

    async def _send_now(self) -> None:
        try:
            await asyncio.sleep(self._pause)
            await self.flush()
        finally:
            self._end_plan()
