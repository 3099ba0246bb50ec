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
from keytally._options import CallOptions
from keytally._tell import tell
from keytally._wire import to_json
from keytally.errors import KeytallyError

Lost = str | KeytallyError
OnLost = Callable[[types.VerifyKeyInput, Lost], None]

# Less than the 60 s of an Idempotency-Key: a repetition that is slow on its way must still find it.
_REPEATABLE_SECONDS = 50.0
# A report takes no longer, its repetitions included: the last of them still leaves within the 60 s.
_REPORT_SECONDS = 9.0
# What becomes of a report beside a status: nobody of keytally answers, or keytally itself cannot decide the call now.
_AWAY = "AWAY"
_UNDECIDED = "UNDECIDED"

_logger = logging.getLogger("keytally")


class KeptCall:
    """A verification without an answer. `sent_at` is set once keytally may have debited it."""

    def __init__(self, input: types.VerifyKeyInput, idempotency_key: str, sent_at: float | None) -> None:
        self.input = input
        self.idempotency_key = idempotency_key
        self.sent_at = sent_at

    @property
    def options(self) -> CallOptions:
        return {"idempotency_key": self.idempotency_key}

    def begin(self) -> float | None:
        """Notes that it is sent, and gives `sent_at` as it was before."""
        before = self.sent_at
        self.sent_at = before or time.monotonic()
        return before


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
        """
        Whether nobody of keytally answered when last asked. Until it is back, requests do not wait for it. An error of keytally
        itself, such as for a part of its keys, does not count: other requests go on asking.
        """

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
        tell("on_lost", self._on_lost, call.input, why)

    def _note(self, call: KeptCall, outcome: Lost) -> bool:
        """Takes the outcome of a report; false if nobody of keytally answers."""
        self.away = outcome == _AWAY
        if outcome in (_AWAY, _UNDECIDED):
            return not self.away
        if outcome == "RATE_LIMITED":
            # It was not debited: it may wait.
            call.sent_at = None
            return True
        # Of all refusals, keytally decides only RATE_LIMITED and USAGE_LIMITED after it has looked for a debit by an earlier attempt.
        is_certain = call.sent_at is None or outcome in ("VALID", "USAGE_LIMITED")
        self._drop(call, outcome if is_certain else "DOUBTFUL")
        return True


class KeptUsage(_Kept):
    """
    Keeps the usage of requests that passed while keytally was unavailable, in memory, and reports it later from a thread.

    `on_lost` is called with usage that nobody was debited for, and the reason: keytally refused the key (its status), keytally
    refused the call (the error; also of one that cannot be sent), or it is not known whether the call was debited (`DOUBTFUL`), because
    keytally keeps an Idempotency-Key for 60 s, and does not look at that of a key which is disabled by now, or the like. At most
    `at_most` calls are kept; beyond that, requests are refused. Between two attempts to reach keytally `pause` seconds go by.
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
        sent_at, retry = call.begin(), self._client._settings.retry_verify({"timeout": self._seconds})
        outcome: Lost
        try:
            outcome = self._client._verify(call.input, call.options, retry)["status"]
        except KeytallyError as error:
            outcome = _outcome_of(error)
        # What keytally surely did not debit may wait for as long as it takes.
        call.sent_at = call.sent_at if retry.may_be_debited else sent_at
        return outcome


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
        sent_at, retry = call.begin(), self._client._settings.retry_verify({"timeout": self._seconds})
        outcome: Lost
        try:
            outcome = (await self._client._verify(call.input, call.options, retry))["status"]
        except KeytallyError as error:
            outcome = _outcome_of(error)
        # What keytally surely did not debit may wait for as long as it takes.
        call.sent_at = call.sent_at if retry.may_be_debited else sent_at
        return outcome


def _outcome_of(error: KeytallyError) -> Lost:
    # What is not from keytally decides nothing.
    if error.code == 0:
        return _AWAY
    return _UNDECIDED if error.is_passing else error
