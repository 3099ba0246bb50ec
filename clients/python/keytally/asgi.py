"""Middleware for ASGI applications: FastAPI, Starlette, Django, Quart, Litestar."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from typing_extensions import Unpack

from keytally import types
from keytally._client import AsyncClient
from keytally._guard import KEYTALLY, Guard, capture_at_end as capture_at_end, hold_of, identity_of as identity_of
from keytally._guard_options import GuardOptions, Request as Request
from keytally._hold import AsyncHold
from keytally._kept import AsyncKeptUsage
from keytally._refusal import Answer, Refusal as Refusal, RefusalBody as RefusalBody, problem_json as problem_json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class KeytallyMiddleware:
    """
    Checks the API key of each request before the application runs: `app.add_middleware(KeytallyMiddleware, client=client, cost="1")`.

    `cost` is what a request costs, `{"usage", "usageName"}`, or a function of the request that gives either; by default nothing.
    `hold` holds the cost as the most that the request may cost, for `capture(request, usage)` in the handler; an answer that ends
    without a capture releases it. Not together with `open`. `scopes` must have been granted to the key. `route` is recorded with
    the usage, by default the method and the path. `ip` is the end client's address, for allow lists, by default the server's.
    `idempotency_key` gives the one under which a request is debited, by default or for `None` a new one: requests of an API key with
    the same one are debited once within 60 s, so give it only where a repeated request does no new work.
    `out_of_credits=429` refuses who is out of credits, or has no billing record, with 429 and `Retry-After`; by default with 402 or
    403 without. `refusal_body` makes the body of a refusal, such as `problem_json`; by default `{"error": …}`.
    `open` lets requests pass while keytally is unavailable, and keeps their usage; by default they are refused with 503. `on_error`
    is called when a request is refused with 500 because of a mistake on this side, or with 503; by default it is logged.
    Functions get a `Request`, and may be async.
    """

    def __init__(
        self,
        app: App,
        client: AsyncClient,
        **options: Unpack[GuardOptions[Request, AsyncKeptUsage]],
    ) -> None:
        self._app = app
        self._guard: Guard[Request] = Guard(client, **options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        request = request_of(scope)
        outcome = await self._guard.decide(request, request)
        if outcome.refusal:
            return await _refuse(outcome.refusal, outcome.headers, scope, receive, send)
        scope[KEYTALLY] = outcome
        hold: AsyncHold | None = outcome.hold
        own_headers = _raw(outcome.headers)

        async def send_on(message: Message) -> None:
            if own_headers and message["type"] in ("http.response.start", "websocket.accept"):
                message = {**message, "headers": [*message.get("headers", ()), *own_headers]}
            await send(message)
            if hold and message["type"] == "http.response.body" and not message.get("more_body"):
                # Tasks that the application runs after its answer need not be waited for.
                hold.end()

        try:
            await self._app(scope, receive, send_on)
        finally:
            if hold:
                await hold.end()
        return None


async def capture(request: Any, usage: str) -> types.CaptureHoldResult | None:
    """
    Debits what a request did cost, for a handler behind a guard with `hold`, and releases the rest. Call it before the answer ends:
    then what was not captured is released. Of a key without a billing record nothing is held, and `None` comes back.
    """
    hold: AsyncHold = hold_of(request, "capture")
    return await hold.capture(usage)


def request_of(scope: Scope) -> Request:
    """What a guard's options see of a request."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    raw_path = scope.get("raw_path")
    return Request(
        method=scope.get("method", "GET"),
        path=scope["path"],
        raw_path=raw_path.decode("latin-1").split("?", 1)[0] if raw_path else quote(scope["path"]),
        query_string=scope.get("query_string", b"").decode("latin-1"),
        headers=headers,
        ip=scope["client"][0] if scope.get("client") else None,
        raw=scope,
    )


async def _refuse(refusal: Answer, own_headers: dict[str, str], scope: Scope, receive: Receive, send: Send) -> None:
    status, headers, body = refusal
    prefix = "http.response"
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            # Before it is accepted, servers answer this with 403.
            return await send({"type": "websocket.close", "code": 1008})
        prefix = "websocket.http.response"
    length = {"Content-Length": str(len(body))}
    all_headers = _raw({**own_headers, **headers, **length})
    await send({"type": f"{prefix}.start", "status": status, "headers": all_headers})
    await send({"type": f"{prefix}.body", "body": body})


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
