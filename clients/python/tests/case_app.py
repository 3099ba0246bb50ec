"""The case apps of this client: ../../helpers/cases.ts says what they must do. python case_app.py middleware|dependency|wsgi"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from flask import Flask, jsonify, request
from flask import Response as FlaskResponse
from werkzeug.serving import WSGIRequestHandler, make_server

from keytally import AsyncClient, AsyncKeptUsage, Client, KeptUsage, KeytallyError, asgi, wsgi
from keytally.fastapi import Guard, handle_refusals

URL = os.environ["VERIFY_URL"]
TOKEN = os.environ["TOKEN"]
SECONDS = int(os.environ["VERIFY_TIMEOUT_MS"]) / 1000
HOLD = {"expiresIn": 600}
COSTS_AT_END = {"at-end": "4", "nothing-at-end": "0.000000", "fail-at-end": "much"}

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


def cost_of(n: str) -> Any:
    return "0" if n == "free" else {"usage": n, "usageName": "requests"}


def guards_of(client: Any, impatient: Any, wrong: Any, kept: Any, n_of: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The client and the options of each guard, by the first part of the path."""
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
        "wrong-cost": (client, {**tell, "cost": lambda _: "much"}),
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


def serve_asgi(*, by_dependency: bool) -> None:
    client = AsyncClient(url=URL, token=TOKEN, verify_timeout=SECONDS)
    impatient = AsyncClient(url=URL, token=TOKEN, verify_timeout=0.5)
    wrong = AsyncClient(url=URL, token="kt_wrong")
    kept = AsyncKeptUsage(client, on_lost=note_lost, at_most=200, pause=0.05)
    app = FastAPI()
    handle_refusals(app)

    def n_of(request: Any) -> str:
        return str((request.query_params if by_dependency else request.query).get("n", "1"))

    guards = guards_of(client, impatient, wrong, kept, n_of)

    @app.get("/errors")
    async def errors() -> Any:
        return told_errors()

    @app.get("/kept")
    async def kept_usage() -> Any:
        return told_usage(kept)

    @app.post("/verify")
    async def verify(request: Request) -> object:
        async def outcome_of(input: Any) -> object:
            try:
                return {"status": (await client.verify(input))["status"]}
            except KeytallyError as error:
                return {"error": {"status": error.status, "code": error.code}}

        return await asyncio.gather(*(outcome_of(one) for one in json.loads(await request.body())))

    async def identity(request: Request) -> Any:
        return asgi.identity_of(request)

    async def hold(request: Request, what: str) -> Response:
        if what == "capture":
            captured = await asgi.capture(request, "3")
            return JSONResponse({"captured": captured["capture"]["usage"] if captured else None})
        if what == "fail":
            raise RuntimeError("failed")
        if what in COSTS_AT_END:
            asgi.capture_at_end(request, lambda: COSTS_AT_END[what])
        if what == "stream-at-end":
            asgi.capture_at_end(request, lambda: "4")
        return StreamingResponse(lines()) if what.startswith("stream") else Response("done")

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
    kept = KeptUsage(client, on_lost=note_lost, at_most=200, pause=0.05)
    app = Flask("case-app")
    app.logger.disabled = True
    guards = guards_of(client, impatient, wrong, kept, lambda request: request.query.get("n", "1"))

    @app.get("/errors")
    def errors() -> Any:
        return told_errors()

    @app.get("/kept")
    def kept_usage() -> Any:
        return told_usage(kept)

    @app.post("/verify")
    def verify() -> Any:
        def outcome_of(input: Any) -> object:
            try:
                return {"status": client.verify(input)["status"]}
            except KeytallyError as error:
                return {"error": {"status": error.status, "code": error.code}}

        with ThreadPoolExecutor(64) as threads:
            return jsonify(list(threads.map(outcome_of, json.loads(request.get_data()))))

    @app.get("/hold/<what>")
    def hold(what: str) -> Any:
        if what == "capture":
            captured = wsgi.capture(request, "3")
            return {"captured": captured["capture"]["usage"] if captured else None}
        if what == "fail":
            raise RuntimeError("failed")
        if what in COSTS_AT_END:
            wsgi.capture_at_end(request, lambda: COSTS_AT_END[what])
        if what == "stream-at-end":
            wsgi.capture_at_end(request, lambda: "4")
        return FlaskResponse(lines()) if what.startswith("stream") else "done"

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
