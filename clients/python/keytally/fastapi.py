"""A dependency for FastAPI. Its functions get FastAPI's own request."""

# FastAPI reads the annotations below as they are: no `from __future__ import annotations` here.
from collections.abc import AsyncIterator

from fastapi import FastAPI, HTTPException, Request, Response
from typing_extensions import Unpack

from keytally import types
from keytally._client import AsyncClient
from keytally._guard import KEYTALLY, Guard as _Guard
from keytally._guard_options import GuardOptions
from keytally._kept import AsyncKeptUsage
from keytally._refusal import Answer, Refusal as Refusal, RefusalBody as RefusalBody, problem_json as problem_json
from keytally.asgi import capture as capture, capture_at_end as capture_at_end, identity_of as identity_of, request_of


class Refused(HTTPException):
    """A request that may not pass. `handle_refusals` answers it as every guard of keytally does."""

    def __init__(self, refusal: Answer, headers: dict[str, str]) -> None:
        super().__init__(refusal.status, headers={**headers, **refusal.headers})
        self.body = refusal.body


def handle_refusals(app: FastAPI) -> None:
    """Lets an application answer requests that a `Guard` refuses. Call it once for each application."""

    async def answer(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return Response(error.body, error.status_code, headers=dict(error.headers or {}))

    app.add_exception_handler(Refused, answer)


class Guard:
    """
    Checks the API key of requests to the operations that depend on it, and gives them whose request it is:
    `identity: Annotated[Identity, Depends(Guard(client, cost="1"))]`.

    Its options are those of `keytally.asgi.KeytallyMiddleware`. What is held is settled when the answer has ended, with FastAPI
    0.118 and newer. A handler that returns a `Response` of its own answers without the headers `RateLimit`, as with every
    dependency: the middleware adds them always.
    """

    def __init__(
        self,
        client: AsyncClient,
        **options: Unpack[GuardOptions[Request, AsyncKeptUsage]],
    ) -> None:
        self._guard: _Guard[Request] = _Guard(client, **options)

    async def __call__(self, request: Request, response: Response) -> AsyncIterator[types.Identity]:
        outcome = await self._guard.decide(request, request_of(request.scope))
        if outcome.refusal:
            raise Refused(outcome.refusal, outcome.headers)
        response.headers.update(outcome.headers)
        request.scope[KEYTALLY] = outcome
        try:
            yield outcome.identity
        finally:
            if outcome.hold:
                await outcome.hold.end()
