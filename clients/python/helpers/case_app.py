"""The case apps of this client: ../../helpers/cases.ts says what they must do. python case_app.py middleware|dependency|wsgi"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from flask import Flask, Response as FlaskResponse, jsonify, request
from werkzeug.serving import WSGIRequestHandler, make_server

from keytally import AsyncClient, AsyncKeptUsage, Client, KeptUsage, KeytallyError, _kept, asgi, wsgi
from keytally.fastapi import Guard, handle_refusals

# Kept usage is sent again soon.
_kept._PAUSE = 0.05

URL = os.environ["VERIFY_URL"]
TOKEN = os.environ["TOKEN"]
SECONDS = int(os.environ["VERIFY_TIMEOUT_MS"]) / 1000
UNGUARDED = ("/errors", "/kept", "/ready", "/workspace", "/client", "/guard", "/batch", "/verify")
HOLD = {"expiresIn": 600}
COSTS_AT_END = {
    "at-end": "4",
    "nothing-at-end": "0.000000",
    "fail-at-end": "much",
    "empty-at-end": "",
    "stream-at-end": "4",
}
CAPTURES = {"capture": ["3"], "refused": ["much"], "refused-capture": ["much", "3"], "capture-refused": ["3", "much"]}

messages: list[str] = []
lost: list[str] = []


def note_lost(_: object, why: str | KeytallyError) -> None:
    lost.append(str(why.code) if isinstance(why, KeytallyError) else why)


def told_errors() -> dict[str, object]:
    told = messages[:]
    del messages[: len(told)]
    return {"errors": told}


def told_usage(kept: AsyncKeptUsage | KeptUsage) -> dict[str, object]:
    told = sorted(lost) if kept.size == 0 else []
    if kept.size == 0:
        lost.clear()
    return {"size": kept.size, "away": kept.away, "lost": told}


def error_of(error: Exception) -> object:
    """What is answered for a call that failed: null where nothing was sent."""
    return {"error": {"status": error.status, "code": error.code} if isinstance(error, KeytallyError) else None}


def results_of(results: Any) -> list[object]:
    codes = [one["error"]["code"] if "error" in one else None for one in results]
    return [
        {"error": {"status": code // 100, "code": code}} if code else {"status": one["status"]}
        for code, one in zip(codes, results, strict=True)
    ]


def message_of(make: Callable[[], object]) -> object:
    try:
        make()
    except Exception as error:
        return {"error": str(error)}
    return {"error": None}


def make_client(kind: Any, body: bytes) -> object:
    options = {"verify_url" if name == "verifyUrl" else name: value for name, value in json.loads(body).items()}
    return message_of(lambda: kind(**{"url": None, "token": None, **options}))


def make_guard(middleware: Any, client: Any, body: bytes) -> object:
    options = json.loads(body)
    if "outOfCredits" in options:
        options["out_of_credits"] = options.pop("outOfCredits")
    return message_of(lambda: middleware(None, client, **options))


def fail(_: object) -> Any:
    raise RuntimeError("failed")


def cost_of(n: str) -> Any:
    return "0" if n == "free" else {"usage": n, "usageName": "requests"}


def guards_of(
    client: Any, impatient: Any, wrong: Any, kept: Any, query_of: Any
) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The client and the options of each guard, by the first part of the path."""

    def n_of(request: Any) -> str:
        return str(query_of(request).get("n", "1"))

    tell = {"on_error": lambda error, _: messages.append(str(error))}
    documents = {
        "cost": lambda request: cost_of(n_of(request)),
        "scopes": [{"representation": "documents", "read": True}],
        "ip": lambda request: request.headers.get("x-forwarded-for"),
    }
    return {
        "documents": (client, {**tell, **documents}),
        "impatient": (impatient, {**tell, "cost": "1"}),
        "open": (impatient, {**tell, "cost": "1", "open": kept}),
        "wrong-cost": (client, {**tell, "cost": lambda request: query_of(request)["cost"]}),
        "failing-cost": (client, {**tell, "cost": fail}),
        "wrong-token": (wrong, {**tell, "cost": "1"}),
        "once": (
            client,
            {
                **tell,
                "cost": lambda request: cost_of(n_of(request)),
                "idempotency_key": lambda request: request.headers.get("idempotency-key"),
            },
        ),
        "problem": (client, {**tell, "cost": "1", "out_of_credits": 429, "refusal_body": asgi.problem_json}),
        "hold": (client, {**tell, "cost": "10", "hold": HOLD}),
    }


def answers_of(client: Any, kept: Any, client_kind: Any, middleware: Any, call: Any) -> Any:
    """Answers paths without a guard; `call` calls a method of the client, and waits for it as its kind needs."""

    async def outcome_of(input: Any) -> object:
        try:
            return {"status": (await call(client.verify, input))["status"]}
        except KeytallyError as error:
            return error_of(error)

    async def workspace_of(id: str) -> object:
        try:
            return {"status": str(await call(client.workspaces.get, {"id": id}))}
        except Exception as error:
            return error_of(error)

    async def answer(path: str, query: Any, body: bytes) -> object:
        match path:
            case "/errors":
                return told_errors()
            case "/kept":
                return told_usage(kept)
            case "/ready":
                return {"ready": await call(client.ready)}
            case "/workspace":
                return await workspace_of(query["id"])
            case "/client":
                return make_client(client_kind, body)
            case "/guard":
                return make_guard(middleware, client, body)
            case "/batch":
                return results_of((await call(client.verify_batch, {"verifications": json.loads(body)}))["results"])
            case "/verify":
                return await asyncio.gather(*(outcome_of(one) for one in json.loads(body)))
        raise LookupError(path)

    return answer


def serve_asgi(*, by_dependency: bool) -> None:
    client = AsyncClient(url=URL, token=TOKEN, verify_timeout=SECONDS)
    impatient = AsyncClient(url=URL, token=TOKEN, verify_timeout=0.5)
    wrong = AsyncClient(url=URL, token="kt_wrong")
    kept = AsyncKeptUsage(client, on_lost=note_lost, at_most=200)
    app = FastAPI()
    handle_refusals(app)

    def query_of(request: Any) -> Any:
        return request.query_params if by_dependency else request.query

    guards = guards_of(client, impatient, wrong, kept, query_of)

    async def call(method: Any, *given: Any) -> Any:
        return await method(*given)

    answer = answers_of(client, kept, AsyncClient, asgi.KeytallyMiddleware, call)

    async def unguarded(request: Request) -> Any:
        return await answer(request.url.path, request.query_params, await request.body())

    for path in UNGUARDED:
        app.api_route(path, methods=["GET", "POST"])(unguarded)

    async def identity(request: Request) -> Any:
        return asgi.identity_of(request)

    async def hold(request: Request, what: str) -> Response:
        captured = None
        for usage in CAPTURES.get(what, ()):
            with suppress(KeytallyError):
                captured = await asgi.capture(request, usage)
        if what == "fail":
            raise RuntimeError("failed")
        if what in COSTS_AT_END:
            asgi.capture_at_end(request, lambda: COSTS_AT_END[what])
        if what.startswith("stream"):
            return StreamingResponse(lines())
        return JSONResponse({"captured": captured["capture"]["usage"] if captured else None})

    async def lines() -> AsyncIterator[str]:
        while True:
            yield "line\n"
            await asyncio.sleep(0.02)

    for name, (own, options) in guards.items():
        router = APIRouter(dependencies=[Depends(Guard(own, **options))] if by_dependency else [])
        if name == "hold":
            router.get("/hold/{what}")(hold)
        else:
            router.get(f"/{name}")(identity)
            router.get(f"/{name}/{{rest:path}}")(identity)
        app.include_router(router)

    guarded = {name: asgi.KeytallyMiddleware(app, own, **options) for name, (own, options) in guards.items()}

    async def dispatch(scope: Any, receive: Any, send: Any) -> None:
        name = scope.get("path", "").split("/")[1:2]
        await (app if by_dependency or not name else guarded.get(name[0], app))(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(dispatch, log_level="critical", lifespan="off")).run(sockets=[listener])


def serve_wsgi() -> None:
    client = Client(url=URL, token=TOKEN, verify_timeout=SECONDS)
    impatient = Client(url=URL, token=TOKEN, verify_timeout=0.5)
    wrong = Client(url=URL, token="kt_wrong")
    kept = KeptUsage(client, on_lost=note_lost, at_most=200)
    app = Flask("case-app")
    app.logger.disabled = True
    guards = guards_of(client, impatient, wrong, kept, lambda request: request.query)

    threads = ThreadPoolExecutor(64)

    async def call(method: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, method, *given)

    answer = answers_of(client, kept, Client, wsgi.KeytallyMiddleware, call)

    def unguarded() -> Any:
        return jsonify(asyncio.run(answer(request.path, request.args, request.get_data())))

    for path in UNGUARDED:
        app.add_url_rule(path, view_func=unguarded, methods=["GET", "POST"])

    @app.get("/hold/<what>")
    def hold(what: str) -> Any:
        captured = None
        for usage in CAPTURES.get(what, ()):
            with suppress(KeytallyError):
                captured = wsgi.capture(request, usage)
        if what == "fail":
            raise RuntimeError("failed")
        if what in COSTS_AT_END:
            wsgi.capture_at_end(request, lambda: COSTS_AT_END[what])
        if what.startswith("stream"):
            return FlaskResponse(lines())
        return {"captured": captured["capture"]["usage"] if captured else None}

    def lines() -> Iterator[str]:
        while True:
            yield "line\n"
            time.sleep(0.02)

    @app.get("/<path:path>")
    def identity(path: str) -> Any:
        return wsgi.identity_of(request)

    plain = app.wsgi_app
    guarded = {name: wsgi.KeytallyMiddleware(plain, own, **options) for name, (own, options) in guards.items()}

    def dispatch(environ: Any, start_response: Any) -> Any:
        return guarded.get(environ["PATH_INFO"].split("/")[1], plain)(environ, start_response)

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    server = make_server("127.0.0.1", 0, dispatch, threaded=True, request_handler=Quiet)
    print(f"listening on {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["wsgi"]:
            serve_wsgi()
        case [mode]:
            serve_asgi(by_dependency=mode == "dependency")
