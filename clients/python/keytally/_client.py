from __future__ import annotations

import asyncio
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx
from typing_extensions import Required, Self, TypedDict, Unpack

from keytally import types
from keytally._background import Background, completed
from keytally._fork import begin_in_each_process
from keytally._gather import Attempt, Gatherer, outgoing_of
from keytally._operations import AsyncOperations, Operations
from keytally._options import CallOptions
from keytally._wire import (
    JSON_TYPE,
    KEEP_SECONDS,
    MOST_CONNECTIONS,
    OF_VERIFY,
    VERIFY_BATCH,
    Answer,
    Outgoing,
    Retry,
    checked_header,
    request_of,
    result_of,
    unanswered,
)
from keytally.errors import KeytallyError

OnRetry = Callable[[KeytallyError], None]

_LIMITS = httpx.Limits(
    max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_CONNECTIONS, keepalive_expiry=KEEP_SECONDS
)
_READINESS = Outgoing("GET", "/servingz", {"Accept": JSON_TYPE}, None)
_EXPECTED_URL = {
    "url": "verify's address (KEYTALLY_VERIFY_URL) for guards, or the api's (KEYTALLY_API_URL) for everything else",
    "verify_url": "verify's address (KEYTALLY_VERIFY_URL), or leave it out",
}


class ClientOptions(TypedDict, total=False):
    """What clients take; what each option means says `Client`."""

    url: Required[str | None]
    token: Required[str | None]
    verify_url: str | None
    timeout: float
    verify_timeout: float
    on_retry: OnRetry | None


class _Settings:
    """What a client was given, checked. The messages never repeat the token: they end up in logs."""

    def __init__(
        self,
        url: str | None,
        token: str | None,
        verify_url: str | None = None,
        timeout: float = 30.0,
        verify_timeout: float = 1.0,
        on_retry: OnRetry | None = None,
    ) -> None:
        self.api = _base_url("url", url)
        self.verify = self.api if verify_url is None else _base_url("verify_url", verify_url)
        self.token = _checked_token(token)
        self.timeout = timeout
        self.verify_timeout = verify_timeout
        self.on_retry: OnRetry = on_retry or (lambda _: None)

    def retry(self, options: CallOptions, seconds: float) -> Retry:
        return Retry(options.get("timeout", seconds), self.on_retry)

    def attempt(self, input: Mapping[str, Any], options: CallOptions) -> tuple[Mapping[str, Any], str, str | None]:
        """What an attempt takes of a verification."""
        key = checked_header("idempotency_key", options.get("idempotency_key", str(uuid.uuid4())))
        request_id = options.get("request_id")
        return input, key, request_id and checked_header("request_id", request_id)

    def request(self, operation: str, input: Mapping[str, Any] | None, options: CallOptions) -> tuple[str, Outgoing]:
        """The request of an operation, and the address of its server. One that creates something sends the same key each time."""
        request = request_of(operation, input, self.token)
        is_of_verify = operation in OF_VERIFY or operation == VERIFY_BATCH
        if request.method == "POST" and not is_of_verify:
            key = options.get("idempotency_key", str(uuid.uuid4()))
            request.headers["Idempotency-Key"] = checked_header("idempotency_key", key)
        if "request_id" in options:
            request.headers["X-Request-Id"] = checked_header("request_id", options["request_id"])
        return self.verify if is_of_verify else self.api, request


_Result = TypeVar("_Result")


class ClientCore:
    """What both clients do. Of a `Client` it waits for no event loop."""

    _settings: _Settings
    # Of guards. While keytally is unavailable each is repeated for as long as a call may take.
    _most_cancels: int

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Does work in the background, to its end."""
        raise NotImplementedError

    async def _exchange(self, base: str, request: Outgoing, seconds: float) -> Answer:
        """Sends a request once."""
        raise NotImplementedError

    async def _ask(self, seconds: float, *attempt: Any) -> object:
        """Makes one attempt of a verification."""
        raise NotImplementedError

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def _repeat(self, retry: Retry, attempt: Callable[[float], Awaitable[_Result]]) -> _Result:
        """Attempts something with a part of the time that is left, and again while that may help."""
        while True:
            try:
                return await attempt(retry.attempt_seconds())
            except KeytallyError as error:
                await self._sleep(retry.pause_after(error))

    async def _verify(self, input: types.VerifyKeyInput, options: CallOptions) -> types.Decision:
        attempt = self._settings.attempt(cast("Mapping[str, Any]", input), options)
        retry = self._settings.retry(options, self._settings.verify_timeout)
        return cast(types.Decision, await self._repeat(retry, lambda seconds: self._ask(seconds, *attempt)))

    async def _operate(self, operation: str, input: Mapping[str, Any] | None, options: CallOptions) -> object:
        settings = self._settings
        base, request = settings.request(operation, input, options)
        retry = settings.retry(options, settings.verify_timeout if operation == VERIFY_BATCH else settings.timeout)

        async def attempt(seconds: float) -> object:
            return result_of(request, await self._exchange(base, request, seconds))

        return await self._repeat(retry, attempt)

    async def _ready(self) -> bool:
        try:
            answer = await self._exchange(self._settings.verify, _READINESS, self._settings.verify_timeout / 2)
            return isinstance(result_of(_READINESS, answer), dict)
        except KeytallyError as error:
            # keytally itself answered with the error, and not for want of a part of it.
            return error.code != 0 and not error.is_away


class Client(ClientCore, Operations):
    """
    A client of keytally: each operation is a method that takes its path, query and body as one dictionary. Threads may share it.

    `url` is verify's address for a client that only verifies, as guards do; else the api's, which answers verifications too.
    `verify_url` is verify's address, by default `url`. `token` is an access token; to verify keys, it needs `key:verify` alone.
    A call fails after `timeout` seconds, a verification, which one of your requests waits for, after `verify_timeout`; retries
    included. `on_retry` is called with the error of a failed attempt, before the next attempt. `http` sends the requests. A process
    that forks may share the client with its children, but not an `http` of your own, whose connections would be shared, too.
    """

    def __init__(self, *, http: httpx.Client | None = None, **options: Unpack[ClientOptions]) -> None:
        self._settings = _Settings(**options)
        self._given_http = http
        # It takes long to make: child processes use it, too.
        self._tls = True if http else httpx.create_ssl_context()
        begin_in_each_process(self)
        Operations.__init__(self, lambda *call: completed(self._operate(*call)))

    def _begin(self) -> None:
        self._http = self._given_http or httpx.Client(limits=_LIMITS, verify=self._tls)

    def verify(self, input: types.VerifyKeyInput, **options: Unpack[CallOptions]) -> types.Decision:
        """Verifies an API key and debits its cost: once, even if the request had to be sent several times."""
        return completed(self._verify(input, options))

    def verify_batch(self, input: types.VerifyKeysInput, **options: Unpack[CallOptions]) -> types.VerifyKeysResult:
        """Verifies up to 100 API keys, each by itself. A verification without an `idempotencyKey` gets one."""
        return cast(types.VerifyKeysResult, completed(self._operate(VERIFY_BATCH, _with_keys(input), options)))

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

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        # The process waits for it.
        threading.Thread(target=lambda: completed(work), name="keytally").start()

    async def _ask(self, seconds: float, *attempt: Any) -> object:
        request = outgoing_of([Attempt(time.monotonic() + seconds, *attempt)], self._settings.token)
        return result_of(request, await self._exchange(self._settings.verify, request, seconds))

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - no event loop waits

    async def _exchange(self, base: str, request: Outgoing, seconds: float) -> Answer:
        """It reads the answer in parts: a server that sends some now and then holds up nobody."""
        method, path, headers, body = request
        steps = _Steps(seconds)
        parts: list[bytes] = []
        try:
            with self._http.stream(
                method, base + path, headers=headers, content=body, extensions={"timeout": steps}
            ) as answer:
                for part in answer.iter_bytes():
                    steps.check()
                    parts.append(part)
        except httpx.HTTPError as cause:
            raise unanswered(base, is_late=isinstance(cause, httpx.TimeoutException)) from cause
        return Answer(answer.status_code, answer.headers, b"".join(parts).decode("utf-8", "replace"))


class _Steps(dict[str, float]):
    """
    The timeouts of a request's steps, as httpx takes them; each step has what is left of one deadline when it begins. Headers that come
    byte by byte can last longer: httpx reads all of them in one step, and gives each read its whole time.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(dict.fromkeys(("connect", "read", "write", "pool"), seconds))
        self._until = time.monotonic() + seconds

    def get(self, *_: object) -> Any:
        return max(0.001, self._until - time.monotonic())

    def check(self) -> None:
        if time.monotonic() > self._until:
            raise httpx.ReadTimeout("the answer did not end in time")


class AsyncClient(ClientCore, AsyncOperations):
    """The same client for asyncio: each method is awaited. It belongs to the event loop that uses it first."""

    def __init__(self, *, http: httpx.AsyncClient | None = None, **options: Unpack[ClientOptions]) -> None:
        self._settings = _Settings(**options)
        # Each call has its own deadline.
        self._http = http or httpx.AsyncClient(limits=_LIMITS, timeout=None)
        # What guards settle.
        self._background = Background()
        verify = self._settings.verify
        self._gatherer = Gatherer(lambda request: self._send(verify, request), self._settings.token, verify)
        AsyncOperations.__init__(self, self._operate)

    async def verify(self, input: types.VerifyKeyInput, **options: Unpack[CallOptions]) -> types.Decision:
        """Verifies an API key and debits its cost: once, even if the request had to be sent several times."""
        return await self._verify(input, options)

    async def verify_batch(
        self, input: types.VerifyKeysInput, **options: Unpack[CallOptions]
    ) -> types.VerifyKeysResult:
        """Verifies up to 100 API keys, each by itself. A verification without an `idempotencyKey` gets one."""
        return cast(types.VerifyKeysResult, await self._operate(VERIFY_BATCH, _with_keys(input), options))

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

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.begin(work)

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
    cursor: dict[str, Any] = {}
    while True:
        page = call({**(input or {}), **cursor})
        yield from _items(page)
        if "nextCursor" not in page:
            return
        cursor = {"cursor": page["nextCursor"]}


async def each_async(
    call: Callable[..., Awaitable[Any]], input: Mapping[str, Any] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Every item of a list of an `AsyncClient`: `async for key in each_async(client.api_keys.list, {"id": id})`."""
    cursor: dict[str, Any] = {}
    while True:
        page = await call({**(input or {}), **cursor})
        for item in _items(page):
            yield item
        if "nextCursor" not in page:
            return
        cursor = {"cursor": page["nextCursor"]}


def _items(page: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for items in page.values():
        if isinstance(items, list):
            yield from items


def _with_keys(input: types.VerifyKeysInput) -> dict[str, Any]:
    return {"verifications": [{"idempotencyKey": str(uuid.uuid4()), **one} for one in input["verifications"]]}


def _base_url(option: str, value: str | None) -> str:
    if not value:
        raise ValueError(f"{option} is missing; give {_EXPECTED_URL[option]}")
    if "@" in value:
        raise ValueError(f"{option} holds a user name or a password; leave them out, the token is enough")
    if not re.match(r"https?://[^/]", value) or not urlsplit(value).hostname:
        # A token that was given as url by mistake must not end up in a log.
        shown = "a token" if re.fullmatch(r"[A-Za-z]\w*_\w{20,}", value) else f'"{value}"'
        raise ValueError(f"{option} is {shown}; it must start with http:// or https://")
    return value.rstrip("/")


def _checked_token(token: str | None) -> str:
    if not token:
        raise ValueError("token is missing; give an access token, e.g. KEYTALLY_TOKEN")
    if re.fullmatch(r"[!-~]+", token):
        return token
    raise ValueError("token is wrong; it holds a space, a line break or another character that no access token has")
