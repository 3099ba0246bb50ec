"""Usage of requests that passed while keytally was unavailable."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from keytally import types
from keytally._client import AsyncClient, Client
from keytally._fork import begin_in_each_process
from keytally._wire import to_json
from keytally.errors import KeytallyError

Lost = str | KeytallyError
OnLost = Callable[[types.VerifyKeyInput, Lost], None]

# Less than the 60 s of an Idempotency-Key: a repetition that is slow on its way must still find it.
_REPEATABLE_SECONDS = 50.0
# A report takes no longer, its repetitions included: the last of them still leaves within the 60 s.
_REPORT_SECONDS = 9.0
_AWAY = "AWAY"

_logger = logging.getLogger("keytally")


class KeptCall:
    """A verification without an answer. `sent_at` is set if it was sent, so that keytally may have debited it."""

    def __init__(self, input: types.VerifyKeyInput, idempotency_key: str, sent_at: float | None) -> None:
        self.input = input
        self.idempotency_key = idempotency_key
        self.sent_at = sent_at


class _Kept:
    def __init__(self, client: Client | AsyncClient, on_lost: OnLost, at_most: int, pause: float) -> None:
        self._on_lost = on_lost
        self._at_most = at_most
        self._pause = pause
        self._seconds = min(client._settings.verify_timeout, _REPORT_SECONDS)
        begin_in_each_process(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # After a fork, the parent still has its calls, and reports them.
        self._calls: dict[int, KeptCall] = {}
        self.away = False
        """Whether keytally was unavailable when last asked. Until it is back, requests do not wait for it."""

    @property
    def size(self) -> int:
        return len(self._calls)

    def keep(self, input: types.VerifyKeyInput, idempotency_key: str, sent_at: float | None = None) -> bool:
        """Keeps a call; false if there is no room for it. `sent_at` is by `time.monotonic()`."""
        with self._lock:
            self.away = True
            has_room = len(self._calls) < self._at_most
            if has_room:
                call = KeptCall(input, idempotency_key, sent_at)
                self._calls[id(call)] = call
        self._report_later()
        return has_room

    def _report_later(self) -> None:
        raise NotImplementedError

    def _has_to_report(self) -> bool:
        # While keytally is away, requests pass without it: also with nothing to report, somebody must ask whether it is back.
        return self.away or len(self._calls) > 0

    def _waiting(self) -> list[KeptCall]:
        """The calls that can be reported."""
        return [call for call in list(self._calls.values()) if self._can_be_sent(call)]

    def _can_be_sent(self, call: KeptCall) -> bool:
        """Whether a call can be sent now; it is dropped if not. For one that was sent too long ago a second debit cannot be ruled out."""
        if call.sent_at is not None and time.monotonic() - call.sent_at >= _REPEATABLE_SECONDS:
            self._drop(call, "DOUBTFUL")
            return False
        try:
            to_json(call.input).encode()
        except (TypeError, ValueError, RecursionError) as error:
            self._drop(call, KeytallyError(f"the call cannot be sent: {error}", status=0))
            return False
        return True

    def _drop(self, call: KeptCall, why: Lost) -> None:
        with self._lock:
            self._calls.pop(id(call), None)
        if why == "VALID":
            return
        try:
            self._on_lost(call.input, why)
        except Exception:
            _logger.exception("on_lost failed")

    def _note(self, call: KeptCall, outcome: Lost) -> bool:
        """Takes the outcome of a report; false if keytally is still unavailable."""
        self.away = outcome == _AWAY
        if self.away:
            return False
        if not isinstance(outcome, KeytallyError):
            # There is an answer: unless it is VALID, this call was not debited.
            call.sent_at = None
        if outcome != "RATE_LIMITED":
            self._drop(call, outcome)
        return True


class KeptUsage(_Kept):
    """
    Keeps the usage of requests that passed while keytally was unavailable, in memory, and reports it later from a thread.

    `on_lost` is called with usage that nobody was debited for, and the reason: keytally refused the key (its status), keytally
    refused the call (the error; also of one that cannot be sent), or it is no longer known whether the call was debited (`DOUBTFUL`),
    because keytally keeps an Idempotency-Key for 60 s. At most `at_most` calls are kept; beyond that, requests are refused. Between
    two attempts to reach keytally `pause` seconds go by.
    """

    def __init__(self, client: Client, *, on_lost: OnLost, at_most: int = 10_000, pause: float = 1.0) -> None:
        super().__init__(client, on_lost, at_most, pause)
        self._client = client

    def _begin(self) -> None:
        super()._begin()
        self._reporting = threading.Lock()
        self._timer: threading.Timer | None = None

    def flush(self) -> int:
        """Reports the kept usage that keytally accepts, and gives how many calls are left. Call it before the process ends."""
        with self._reporting:
            self._report_all()
        return self.size

    def _report_later(self) -> None:
        with self._lock:
            if self._timer or not self._has_to_report():
                return
            timer = threading.Timer(self._pause, self._report)
            # Kept usage alone does not keep the process running; `flush` reports it at the end.
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:
                # No thread can be started now. The next request that passes tries it again.
                _logger.exception("kept usage cannot be reported now")
                return
            self._timer = timer

    def _report(self) -> None:
        try:
            self.flush()
        except Exception:
            _logger.exception("kept usage could not be reported")
        finally:
            with self._lock:
                self._timer = None
            self._report_later()

    def _report_all(self) -> None:
        calls = self._waiting()
        if not self._has_to_report():
            return
        # Ask for readiness first: once a call was sent and got no answer, it can be repeated for a minute only.
        if not self._client.ready():
            return
        for call in calls:
            # The calls before it took their time.
            if self._can_be_sent(call) and not self._note(call, self._report_call(call)):
                return
        self.away = False

    def _report_call(self, call: KeptCall) -> Lost:
        call.sent_at = call.sent_at or time.monotonic()
        try:
            decision = self._client.verify(call.input, idempotency_key=call.idempotency_key, timeout=self._seconds)
            return decision["status"]
        except KeytallyError as error:
            return _outcome_of(error)


class AsyncKeptUsage(_Kept):
    """The same for an `AsyncClient`: reported by a task of its event loop."""

    def __init__(self, client: AsyncClient, *, on_lost: OnLost, at_most: int = 10_000, pause: float = 1.0) -> None:
        super().__init__(client, on_lost, at_most, pause)
        self._client = client

    def _begin(self) -> None:
        super()._begin()
        self._reporting: asyncio.Lock | None = None
        self._task: asyncio.Task[None] | None = None

    async def flush(self) -> int:
        """Reports the kept usage that keytally accepts, and gives how many calls are left. Call it before the process ends."""
        self._reporting = self._reporting or asyncio.Lock()
        async with self._reporting:
            await self._report_all()
        return self.size

    def _report_later(self) -> None:
        if not self._task and self._has_to_report():
            self._task = asyncio.get_running_loop().create_task(self._report())

    async def _report(self) -> None:
        try:
            await asyncio.sleep(self._pause)
            await self.flush()
        except Exception:
            _logger.exception("kept usage could not be reported")
        finally:
            self._task = None
        self._report_later()

    async def _report_all(self) -> None:
        calls = self._waiting()
        if not self._has_to_report():
            return
        # Ask for readiness first: once a call was sent and got no answer, it can be repeated for a minute only.
        if not await self._client.ready():
            return
        for call in calls:
            # The calls before it took their time.
            if self._can_be_sent(call) and not self._note(call, await self._report_call(call)):
                return
        self.away = False

    async def _report_call(self, call: KeptCall) -> Lost:
        call.sent_at = call.sent_at or time.monotonic()
        try:
            decision = await self._client.verify(
                call.input, idempotency_key=call.idempotency_key, timeout=self._seconds
            )
            return decision["status"]
        except KeytallyError as error:
            return _outcome_of(error)


def _outcome_of(error: KeytallyError) -> Lost:
    # What is not from keytally decides nothing.
    return _AWAY if error.is_away or error.code == 0 else error
