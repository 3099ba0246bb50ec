"""Middleware for WSGI applications: Flask, Django, Bottle, Pyramid."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from typing_extensions import Unpack

from keytally import types
from keytally._background import completed
from keytally._client import Client
from keytally._guard import KEYTALLY, Guard, capture_at_end as capture_at_end, hold_of, identity_of as identity_of
from keytally._guard_options import GuardOptions, Request as Request
from keytally._hold import Hold
from keytally._kept import KeptUsage
from keytally._refusal import Refusal as Refusal, RefusalBody as RefusalBody, problem_json as problem_json

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class KeytallyMiddleware:
    """
    Checks the API key of each request before the application runs: `app.wsgi_app = KeytallyMiddleware(app.wsgi_app, client, cost="1")`.

    Its options are those of `keytally.asgi.KeytallyMiddleware`; functions get a `Request`, and are not async.
    """

    def __init__(
        self,
        app: App,
        client: Client,
        **options: Unpack[GuardOptions[Request, KeptUsage]],
    ) -> None:
        self._app = app
        self._guard: Guard[Request] = Guard(client, **options)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request = _request_of(environ)
        outcome = completed(self._guard.decide(request, request))
        if outcome.refusal:
            status, headers, body = outcome.refusal
            length = {"Content-Length": str(len(body))}
            all_headers = list({**outcome.headers, **headers, **length}.items())
            start_response(f"{status} {HTTPStatus(status).phrase}", all_headers)
            return [body]

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, *outcome.headers.items()], *more)

        environ[KEYTALLY] = outcome
        hold: Hold | None = outcome.hold
        if not hold:
            return self._app(environ, start)
        try:
            return _Body(self._app(environ, start), hold)
        except BaseException:
            hold.end()
            raise


def capture(request: Any, usage: str) -> types.CaptureHoldResult | None:
    """As `keytally.asgi.capture`; it is not awaited."""
    hold: Hold = hold_of(request, "capture")
    return hold.capture(usage)


class _Body:
    """The body of an answer. Servers close it in any case, also when the end client went away."""

    def __init__(self, body: Iterable[bytes], hold: Hold) -> None:
        self._body = body
        self._hold = hold

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        try:
            close = getattr(self._body, "close", None)
            if close:
                close()
        finally:
            self._hold.end()


def _request_of(environ: Environ) -> Request:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    # WSGI hands bytes over as Latin-1, and decoded: "%2F" is a "/" there.
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1")
    return Request(
        method=environ["REQUEST_METHOD"],
        path=path.decode("utf-8", "replace"),
        raw_path=_sent_path(environ) or quote(path),
        query_string=environ.get("QUERY_STRING", ""),
        headers=headers,
        ip=environ.get("REMOTE_ADDR"),
        raw=environ,
    )


def _sent_path(environ: Environ) -> str | None:
    """The path as it was sent, of servers that tell it: RAW_URI is Gunicorn's, REQUEST_URI that of uWSGI and mod_wsgi."""
    uri = environ.get("RAW_URI") or environ.get("REQUEST_URI") or ""
    # A proxy may be sent a whole address.
    found = re.match(r"(?:https?://[^/?#]*)?(/[^?#]*)", uri)
    return found and found[1]
