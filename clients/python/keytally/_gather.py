"""How verifications leave: alone, or gathered in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from keytally._background import Background
from keytally._wire import (
    BATCH_PATH,
    JSON_TYPE,
    VERIFY_PATH,
    Answer,
    Outgoing,
    headers_of,
    results_of,
    to_json,
    unanswered,
)

_MOST_CALLS = 100
# A batch has at most 256 KiB, also with idempotency keys that JSON makes longer.
_MOST_BYTES = 200_000
# A verification has at most 16 KiB: what is longer is refused by itself.
_LONGEST = 16_384
_WAIT_SECONDS = 0.001


class Attempt:
    """One attempt of a verification, which waits for its turn and then for an answer."""

    def __init__(self, until: float, input: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self.until = until
        """When it is given up, by the monotonic clock."""
        # What cannot be sent, such as half of a surrogate pair, must fail here, and not the batch of others.
        self.json = to_json(input).encode()
        self.may_join = len(self.json) <= _LONGEST and "idempotencyKey" not in input
        self.headers = headers
        self.idempotency_key = headers["Idempotency-Key"]
        self.future: asyncio.Future[Any]
        """Its answer, of one that is gathered."""


def outgoing_of(attempts: Sequence[Attempt], token: str) -> Outgoing:
    headers = headers_of(token, JSON_TYPE, True)
    # Verify need not decide what comes too late for all of them.
    rest = max(one.until for one in attempts) - time.monotonic()
    headers["X-Keytally-Timeout-Ms"] = str(max(1, int(min(rest, 9_999) * 1000)))
    if len(attempts) == 1:
        return Outgoing("POST", VERIFY_PATH, {**headers, **attempts[0].headers}, attempts[0].json)
    verifications = []
    for one in attempts:
        fields = one.json[1:-1]
        key = to_json(one.idempotency_key).encode()
        verifications.append(b'{%b%b"idempotencyKey":%b}' % (fields, b"," if fields else b"", key))
    return Outgoing("POST", BATCH_PATH, headers, b'{"verifications":[%b]}' % b",".join(verifications))


class Gatherer:
    """
    Sends verifications. Those of one turn of the event loop leave together, and so do those that come while others are on their
    way: they wait for these, but at most a millisecond. One alone leaves at once, by itself.
    """

    def __init__(self, exchange: Callable[[Outgoing], Awaitable[Answer]], token: str, url: str) -> None:
        self._exchange = exchange
        self._token = token
        self._url = url
        self._waiting: list[Attempt] = []
        self._bytes = 0
        self._under_way = 0
        self._planned: asyncio.Handle | None = None
        self._background = Background()

    async def ask(self, seconds: float, *attempt: Any) -> Any:
        call = Attempt(time.monotonic() + seconds, *attempt)
        call.future = asyncio.get_running_loop().create_future()
        if not call.may_join:
            self._send([call])
        else:
            self._join(call)
        try:
            return await asyncio.wait_for(call.future, seconds)
        except asyncio.TimeoutError:
            raise unanswered(self._url, is_late=True) from None

    def _join(self, call: Attempt) -> None:
        size = len(call.json) + len(call.idempotency_key) + 25
        if len(self._waiting) == _MOST_CALLS or self._bytes + size > _MOST_BYTES:
            self._send_waiting()
        self._waiting.append(call)
        self._bytes += size
        if not self._planned:
            self._planned = asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if self._under_way == 0:
            self._send_waiting()
        else:
            self._planned = asyncio.get_running_loop().call_later(_WAIT_SECONDS, self._send_waiting)

    def _send_waiting(self) -> None:
        if self._planned:
            self._planned.cancel()
        self._planned = None
        calls = [one for one in self._waiting if not one.future.done()]
        self._waiting, self._bytes = [], 0
        if calls:
            self._send(calls)

    def _send(self, calls: list[Attempt]) -> None:
        self._under_way += 1
        task = self._background.begin(self._deliver(calls))

        def end_if_done(_: object) -> None:
            # Nobody waits for the answer any more.
            if all(one.future.done() for one in calls):
                task.cancel()

        for one in calls:
            one.future.add_done_callback(end_if_done)

    async def _deliver(self, calls: list[Attempt]) -> None:
        results: list[Any]
        try:
            request = outgoing_of(calls, self._token)
            try:
                answer = await self._exchange(request)
            finally:
                self._end_request()
            results = results_of(request, answer, len(calls))
        except Exception as error:
            results = [error] * len(calls)
        for one, result in zip(calls, results, strict=True):
            if one.future.done():
                continue
            if isinstance(result, Exception):
                one.future.set_exception(result)
            else:
                one.future.set_result(result)

    def _end_request(self) -> None:
        self._under_way -= 1
        if self._under_way == 0 and self._planned:
            # Calls that follow from this answer, in this turn, join those that wait.
            self._planned.cancel()
            self._planned = asyncio.get_running_loop().call_soon(self._end_turn)
