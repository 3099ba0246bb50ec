"""How verifications leave: alone, or gathered in batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from keytally._background import Background
from keytally._wire import (
    BATCH_PATH,
    JSON_TYPE,
    VERIFY_PATH,
    Answer,
    Outgoing,
    headers_of,
    result_of,
    results_of,
    to_json,
    unanswered,
)
from keytally.errors import KeytallyError

_MOST_CALLS = 100
# A batch has at most 256 KiB, also with idempotency keys that JSON makes longer.
_MOST_BYTES = 200_000
# A verification has at most 16 KiB: what is longer is refused by itself.
_LONGEST = 16_384
_WAIT_SECONDS = 0.001


class Attempt:
    """One attempt of a verification, which waits for its turn and then for an answer."""

    def __init__(self, until: float, input: Mapping[str, Any], idempotency_key: str, request_id: str | None) -> None:
        self.until = until
        """When it is given up, by the monotonic clock."""
        # What cannot be sent, such as half of a surrogate pair, must fail here, and not the batch of others.
        self.json = to_json(input).encode()
        self.may_join = len(self.json) <= _LONGEST and "idempotencyKey" not in input
        self.idempotency_key = idempotency_key
        self.request_id = request_id

    @property
    def bytes_in_batch(self) -> int:
        return len(self.json) + len(self.idempotency_key) + 25


def _request_of(attempts: list[Any], token: str) -> Outgoing:
    headers = headers_of(token, JSON_TYPE, True)
    # Verify need not decide what comes too late for all of them.
    rest_ms = int((max(one.until for one in attempts) - time.monotonic()) * 1000)
    headers["X-Keytally-Timeout-Ms"] = str(min(max(1, rest_ms), 9_999_999))
    if len(attempts) == 1:
        (one,) = attempts
        headers["Idempotency-Key"] = one.idempotency_key
        if one.request_id:
            headers["X-Request-Id"] = one.request_id
        return Outgoing("POST", VERIFY_PATH, headers, one.json)
    verifications = []
    for one in attempts:
        fields = one.json[1:-1]
        key = to_json(one.idempotency_key).encode()
        verifications.append(b'{%b%b"idempotencyKey":%b}' % (fields, b"," if fields else b"", key))
    return Outgoing("POST", BATCH_PATH, headers, b'{"verifications":[%b]}' % b",".join(verifications))


def _count_that_fit(attempts: list[Any]) -> int:
    """How many attempts fit into the first batch."""
    size = 0
    for i, one in enumerate(attempts):
        size += one.bytes_in_batch
        if i == _MOST_CALLS or size > _MOST_BYTES:
            return max(1, i)
    return len(attempts)


class _Call(Attempt):
    def __init__(self, future: asyncio.Future[Any], *attempt: Any) -> None:
        super().__init__(*attempt)
        self.future = future


class AsyncGatherer:
    """
    Sends verifications. Those of one turn of the event loop leave together, and so do those that come while others are on their
    way: they wait for these, but at most a millisecond. One alone leaves at once, by itself.
    """

    def __init__(self, exchange: Callable[[Outgoing], Awaitable[Answer]], token: str, url: str) -> None:
        self._exchange = exchange
        self._token = token
        self._url = url
        self._waiting: list[_Call] = []
        self._is_turn_planned = False
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._background = Background()

    async def ask(self, seconds: float, *attempt: Any) -> Any:
        call = _Call(asyncio.get_running_loop().create_future(), time.monotonic() + seconds, *attempt)
        if not call.may_join:
            self._send([call])
        else:
            self._waiting.append(call)
            if len(self._waiting) >= _MOST_CALLS:
                self._send_waiting()
            else:
                self._plan_turn()
        try:
            return await asyncio.wait_for(call.future, seconds)
        except asyncio.TimeoutError:
            raise unanswered(self._url, is_late=True) from None

    def _plan_turn(self) -> None:
        if self._is_turn_planned or self._timer:
            return
        self._is_turn_planned = True
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_turn_planned = False
        if self._under_way == 0:
            self._send_waiting()
        elif self._waiting and not self._timer:
            self._timer = asyncio.get_running_loop().call_later(_WAIT_SECONDS, self._send_waiting)

    def _send_waiting(self) -> None:
        self._stop_timer()
        calls = [one for one in self._waiting if not one.future.done()]
        self._waiting = []
        while calls:
            count = _count_that_fit(calls)
            self._send(calls[:count])
            calls = calls[count:]

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _send(self, calls: list[_Call]) -> None:
        self._under_way += 1
        task = self._background.begin(self._deliver(calls))

        def end_if_done(_: object) -> None:
            # Nobody waits for the answer any more.
            if all(one.future.done() for one in calls):
                task.cancel()

        for one in calls:
            one.future.add_done_callback(end_if_done)

    async def _deliver(self, calls: list[_Call]) -> None:
        try:
            request = _request_of(calls, self._token)
            answer = await self._exchange(request)
        except Exception as error:
            return self._fail(calls, error)
        finally:
            self._end_request()
        try:
            results = _results_of(request, answer, len(calls))
        except Exception as error:
            return self._fail(calls, error)
        for one, result in zip(calls, results, strict=True):
            if one.future.done():
                continue
            if isinstance(result, KeytallyError):
                one.future.set_exception(result)
            else:
                one.future.set_result(result)
        return None

    def _end_request(self) -> None:
        self._under_way -= 1
        if self._under_way == 0 and self._waiting:
            # Calls that follow from this answer, in this turn, join those that wait.
            self._stop_timer()
            self._plan_turn()

    @staticmethod
    def _fail(calls: list[_Call], error: Exception) -> None:
        for one in calls:
            if not one.future.done():
                one.future.set_exception(error)


class _ThreadCall(Attempt):
    def __init__(self, *attempt: Any) -> None:
        super().__init__(*attempt)
        self.turn = threading.Event()
        """Set when the call has its outcome, or is to send the calls that wait."""
        self.is_leader = False
        self.outcome: Any = None


class Gatherer:
    """
    The same for threads: a call that comes while others are on their way waits for these, but at most a millisecond, and leaves with
    those that came meanwhile. The first that waits sends them all.
    """

    def __init__(self, exchange: Callable[[Outgoing, float], Answer], token: str, url: str) -> None:
        self._exchange = exchange
        self._token = token
        self._url = url
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._waiting: list[_ThreadCall] = []
        self._under_way = 0

    def ask(self, seconds: float, *attempt: Any) -> Any:
        call = _ThreadCall(time.monotonic() + seconds, *attempt)
        try:
            outcome = self._outcome_of(call, seconds)
        except BaseException:
            # Also what ends a thread or a greenlet while it waits: one that is gone leads nobody.
            self._leave(call)
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _outcome_of(self, call: _ThreadCall, seconds: float) -> Any:
        with self._lock:
            is_alone = not call.may_join or (self._under_way == 0 and not self._waiting)
            if is_alone:
                self._begin_request()
            else:
                call.is_leader = not self._waiting
                self._waiting.append(call)
        if is_alone:
            return self._send([call], call.until)[0]
        if call.is_leader:
            self._idle.wait(_WAIT_SECONDS)
        elif not call.turn.wait(seconds):
            raise unanswered(self._url, is_late=True)
        if call.is_leader:
            self._lead(call)
        return call.outcome

    def _lead(self, leader: _ThreadCall) -> None:
        with self._lock:
            calls = self._calls_of(leader)
            sent = set(calls)
            self._waiting = [one for one in self._waiting if one not in sent]
            self._appoint()
            self._begin_request()
        # What the others are told if this thread ends while it sends for them.
        outcomes: list[Any] = [unanswered(self._url, is_late=True)] * len(calls)
        try:
            outcomes = self._send(calls, leader.until)
        finally:
            for one, outcome in zip(calls, outcomes, strict=True):
                one.outcome = outcome
                if one is not leader:
                    one.turn.set()

    def _calls_of(self, leader: _ThreadCall) -> list[_ThreadCall]:
        """The calls that a leader sends. Its deadline becomes theirs: those with far more time are left to the next leader."""
        now = time.monotonic()
        latest = now + 2 * (leader.until - now)
        calls = [one for one in self._waiting if one is leader or one.until <= latest]
        return calls[: _count_that_fit(calls)]

    def _appoint(self) -> None:
        if self._waiting:
            self._waiting[0].is_leader = True
            self._waiting[0].turn.set()

    def _leave(self, call: _ThreadCall) -> None:
        with self._lock:
            if call in self._waiting:
                self._waiting.remove(call)
                if call.is_leader:
                    self._appoint()

    def _begin_request(self) -> None:
        self._under_way += 1
        self._idle.clear()

    def _send(self, calls: list[_ThreadCall], until: float) -> list[Any]:
        try:
            request = _request_of(calls, self._token)
            answer = self._exchange(request, max(0.001, until - time.monotonic()))
        except Exception as error:
            return [error] * len(calls)
        finally:
            with self._lock:
                self._under_way -= 1
                if self._under_way == 0:
                    self._idle.set()
        try:
            return _results_of(request, answer, len(calls))
        except Exception as error:
            return [error] * len(calls)


def _results_of(request: Outgoing, answer: Answer, count: int) -> list[Any]:
    return [result_of(request, answer)] if count == 1 else results_of(request, answer, count)
