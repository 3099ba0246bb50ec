from __future__ import annotations

import asyncio
import math
import random
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from copy import copy
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

import httpx
from typing_extensions import Self

from keytally import types
from keytally._background import Background, begin_in_each_process, call_back, completed
from keytally._gather import Attempt, Gatherer, outgoing_of
from keytally._method import AsyncCall, Call
from keytally._operations import Operations
from keytally._options import CallOptions
from keytally._wire import (
    JSON_TYPE,
    OF_VERIFY,
    VERIFY,
    VERIFY_BATCH,
    Answer,
    Outgoing,
    call_headers,
    request_of,
    result_of,
    results_of,
    unanswered,
)
from keytally.errors import KeytallyError

OnRetry = Callable[[KeytallyError], None]
_Result = TypeVar("_Result")
_Http = TypeVar("_Http", httpx.Client, httpx.AsyncClient)

_MOST_CONNECTIONS = 256
# Servers close those that nobody uses after 75 s.
_LIMITS = httpx.Limits(
    max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_CONNECTIONS, keepalive_expiry=60.0
)
_READINESS = Outgoing("GET", "/servingz", {"Accept": JSON_TYPE}, None)
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class ClientCore(Generic[_Http]):
    """What both clients do. Of a `Client` it waits for no event loop."""

    def __init__(
        self,
        *,
        url: str | None,
        token: str | None,
        verify_url: str | None = None,
        timeout: float = 30.0,
        verify_timeout: float = 1.0,
        on_retry: OnRetry | None = None,
        http: _Http | None = None,
    ) -> None:
        self._api = _base_url("url", url)
        self._verify_url = self._api if verify_url is None else _base_url("verify_url", verify_url)
        self._token = _checked_token(token)
        self._timeout = _checked_timeout("timeout", timeout)
        self._verify_timeout = _checked_timeout("verify_timeout", verify_timeout)
        self._on_retry: OnRetry = on_retry or (lambda _: None)
        self._given_http: _Http | None = http
        self._open()

    # Of guards. While keytally is unavailable each is repeated for as long as a call may take.
    _most_cancels: int
    _open: Callable[[], None]
    # Does work in the background. The end of the process, or `aclose`, waits for what is awaited.
    _later: Callable[..., None]
    # Sends a request once.
    _exchange: Callable[[str, Outgoing, float], Coroutine[Any, Any, Answer]]
    # Makes one attempt of a verification.
    _ask: Callable[..., Coroutine[Any, Any, object]]
    _sleep: Callable[[float], Coroutine[Any, Any, None]]

    async def _repeat(self, seconds: float, attempt: Callable[[float], Awaitable[_Result]]) -> _Result:
        """Attempts something with a part of the time that is left, and again while that may help."""
        until = time.monotonic() + _checked_timeout("timeout", seconds)
        answered: KeytallyError | None = None
        may_be_debited = False
        attempts = 0
        while True:
            try:
                # Half of the time left: if this answer is lost, another attempt still has time.
                return await attempt(max(0.001, (until - time.monotonic()) / 2))
            except KeytallyError as cause:
                # The calls of a batch that fails have one error: each tells its own.
                error = copy(cause)
                error.may_be_debited = may_be_debited = may_be_debited or error.may_be_debited
                if not error.is_passing:
                    raise error from cause
                answered = error if error.code else answered
                backoff = min(_FIRST_PAUSE * 2.0**attempts, _LONGEST_PAUSE) * (0.5 + random.random() / 2)
                pause = max(backoff, error.retry_after or 0)
                if time.monotonic() + pause >= until:
                    # The last attempts are short: what keytally itself answered before says more than that they got no answer.
                    last = answered or error
                    last.may_be_debited = may_be_debited
                    raise last from cause
                call_back("on_retry", self._on_retry, error)
            attempts += 1
            await self._sleep(pause)

    async def _verify(self, input: Mapping[str, Any], options: CallOptions) -> types.Decision:
        headers = call_headers(options)

        async def attempt(seconds: float) -> types.Decision:
            return cast(types.Decision, await self._ask(seconds, input, headers))

        return await self._repeat(options.get("timeout", self._verify_timeout), attempt)

    async def _operate(self, operation: str, input: Mapping[str, Any] | None, options: CallOptions) -> object:
        """Sends an operation. One that creates something, and each verification, sends the same key each time."""
        if operation == VERIFY:
            return await self._verify(input or {}, options)
        if operation == VERIFY_BATCH and input:
            keyed = [{"idempotencyKey": str(uuid.uuid4()), **one} for one in input["verifications"]]
            input = {"verifications": keyed}
        request = request_of(operation, input, self._token)
        is_of_verify = operation in OF_VERIFY
        request.headers.update(call_headers(options))
        if request.method != "POST" or is_of_verify:
            del request.headers["Idempotency-Key"]
        base = self._verify_url if is_of_verify else self._api
        timeout = self._verify_timeout if operation == VERIFY_BATCH else self._timeout

        async def attempt(seconds: float) -> object:
            return result_of(request, await self._exchange(base, request, seconds))

        return await self._repeat(options.get("timeout", timeout), attempt)

    async def _ready(self) -> bool:
        try:
            answer = await self._exchange(self._verify_url, _READINESS, self._verify_timeout / 2)
            return isinstance(result_of(_READINESS, answer), dict)
        except KeytallyError as error:
            # keytally itself answered with the error, and not for want of a part of it.
            return error.code != 0 and not error.is_away


class Client(ClientCore[httpx.Client], Operations[Call]):
    """
    A client of keytally: each operation is a method that takes its path, query and body as one dictionary. Threads may share it.

    `url` is verify's address for a client that only verifies, as guards do; else the api's, which answers verifications too.
    `verify_url` is verify's address, by default `url`. `token` is an access token; to verify keys, it needs `key:verify` alone.
    A call fails after `timeout` seconds, a verification, which one of your requests waits for, after `verify_timeout`; retries
    included. `on_retry` is called with the error of a failed attempt, before the next attempt. `http` sends the requests. A process
    that forks may share the client with its children, but not an `http` of your own, whose connections would be shared, too.
    """

    def _open(self) -> None:
        # It takes long to make: child processes use it, too.
        self._tls = True if self._given_http else httpx.create_ssl_context()
        begin_in_each_process(self)
        Operations.__init__(self, lambda *call: completed(self._operate(*call)))

    def _begin(self) -> None:
        self._http = self._given_http or httpx.Client(limits=_LIMITS, verify=self._tls)

    def ready(self) -> bool:
        """Whether keytally can verify keys now, if only some; where its readiness has a port of its own, whether verify answers."""
        return completed(self._ready())

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Each has a thread.
    _most_cancels = 32

    def _later(self, work: Coroutine[Any, Any, None], *, is_awaited: bool = True) -> None:
        threading.Thread(target=completed, args=[work], name="keytally", daemon=not is_awaited).start()

    async def _ask(self, seconds: float, *attempt: Any) -> object:
        request = outgoing_of([Attempt(time.monotonic() + seconds, *attempt)], self._token)
        return results_of(request, await self._exchange(self._verify_url, request, seconds), 1)[0]

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop waits

    async def _exchange(self, base: str, request: Outgoing, seconds: float) -> Answer:
        """It reads the answer in parts: a server that sends some now and then holds up nobody."""
        method, path, headers, body = request
        steps = _Steps(time.monotonic() + seconds)
        parts: list[bytes] = []
        try:
            with self._http.stream(
                method, base + path, headers=headers, content=body, extensions={"timeout": steps}
            ) as answer:
                for part in answer.iter_bytes():
                    if time.monotonic() > steps.until:
                        raise httpx.ReadTimeout("the answer did not end in time")
                    parts.append(part)
        except httpx.HTTPError as cause:
            raise unanswered(base, is_late=isinstance(cause, httpx.TimeoutException)) from cause
        return Answer(answer.status_code, answer.headers, b"".join(parts).decode("utf-8", "replace"))


class _Steps(dict[str, float]):
    """
    The timeouts of a request's steps, as httpx takes them; each step has what is left of one deadline when it begins. Headers that come
    byte by byte can last longer: httpx reads all of them in one step, and gives each read its whole time.
    """

    def __init__(self, until: float) -> None:
        super().__init__(dict.fromkeys(("connect", "read", "write", "pool"), 0.0))
        self.until = until

    def get(self, *_: object) -> Any:
        return max(0.001, self.until - time.monotonic())


class AsyncClient(ClientCore[httpx.AsyncClient], Operations[AsyncCall]):
    """The same client for asyncio: each method is awaited. It belongs to the event loop that uses it first."""

    def _open(self) -> None:
        # Each call has its own deadline.
        self._http = self._given_http or httpx.AsyncClient(limits=_LIMITS, timeout=None)
        # What guards settle.
        self._background = Background()
        self._unawaited = Background()
        verify = self._verify_url
        self._gatherer = Gatherer(lambda request: self._send(verify, request), self._token, verify)
        Operations.__init__(self, self._operate)

    async def ready(self) -> bool:
        """Whether keytally can verify keys now, if only some; where its readiness has a port of its own, whether verify answers."""
        return await self._ready()

    async def aclose(self) -> None:
        """Waits until what guards held is settled for every request that is over, and closes the connections."""
        try:
            await self._background.ended()
        finally:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    _most_cancels = 1_000

    def _later(self, work: Coroutine[Any, Any, None], *, is_awaited: bool = True) -> None:
        (self._background if is_awaited else self._unawaited).begin(work)

    async def _ask(self, seconds: float, *attempt: Any) -> object:
        return await self._gatherer.ask(seconds, *attempt)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _exchange(self, base: str, request: Outgoing, seconds: float) -> Answer:
        try:
            return await asyncio.wait_for(self._send(base, request), seconds)
        except asyncio.TimeoutError:
            raise unanswered(base, is_late=True) from None

    async def _send(self, base: str, request: Outgoing) -> Answer:
        method, path, headers, body = request
        try:
            answer = await self._http.request(method, base + path, headers=headers, content=body)
        except httpx.HTTPError as cause:
            raise unanswered(base, is_late=isinstance(cause, httpx.TimeoutException)) from cause
        return Answer(answer.status_code, answer.headers, answer.text)


def each(call: Callable[..., Any], input: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Every item of a list; it fetches each page when it is needed: `for key in each(client.api_keys.list, {"id": id})`."""
    asked: Mapping[str, Any] | None = input or {}
    while asked is not None:
        page = call(asked)
        yield from _items(page)
        asked = _after(page, asked)


async def each_async(
    call: Callable[..., Awaitable[Any]], input: Mapping[str, Any] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Every item of a list of an `AsyncClient`: `async for key in each_async(client.api_keys.list, {"id": id})`."""
    asked: Mapping[str, Any] | None = input or {}
    while asked is not None:
        page = await call(asked)
        for item in _items(page):
            yield item
        asked = _after(page, asked)


def _after(page: Mapping[str, Any], asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What asks for the next page; `None` after the last."""
    return {**asked, "cursor": page["nextCursor"]} if "nextCursor" in page else None


def _items(page: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for items in page.values():
        if isinstance(items, list):
            yield from items


# The messages repeat no value: they end up in logs, and a token may be given as url by mistake.
def _base_url(option: str, value: str | None) -> str:
    if value and re.fullmatch(r"https?://[^/@\s][^@\s]*", value) and urlsplit(value).hostname:
        return value.rstrip("/")
    raise ValueError(
        f"{option} is {'wrong' if value else 'missing'}; give verify's address (KEYTALLY_VERIFY_URL) for guards, or the api's "
        "(KEYTALLY_API_URL) for everything else: http:// or https://, without a user name or a password"
    )


def _checked_token(token: str | None) -> str:
    if token and re.fullmatch(r"[!-~]+", token):
        return token
    is_what = "wrong" if token else "missing"
    raise ValueError(f"token is {is_what}; give an access token, e.g. KEYTALLY_TOKEN, without spaces and line breaks")


def _checked_timeout(option: str, seconds: float) -> float:
    if isinstance(seconds, (int, float)) and 0 < seconds < math.inf:
        return seconds
    raise ValueError(f"{option} is {seconds}; it must be a number of seconds above 0")
