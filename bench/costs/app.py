"""An API in FastAPI, alone or behind its guard. PORT; VERIFY_URL and TOKEN put the guard before it."""

import os
from typing import Any

import uvicorn
from fastapi import FastAPI, Request

from keytally import AsyncClient
from keytally.asgi import KeytallyMiddleware, identity_of

url = os.environ.get("VERIFY_URL")
app = FastAPI()
serve: Any = app
if url:
    client = AsyncClient(url=url, token=os.environ["TOKEN"], verify_timeout=10.0)
    scopes: Any = [{"representation": "users", "read": True}]
    serve = KeytallyMiddleware(app, client, cost="0.001", scopes=scopes)


@app.get("/{path:path}")
async def answer(request: Request) -> dict[str, str]:
    return {"name": "Ada", "status": identity_of(request)["status"] if "keytally" in request.scope else "OPEN"}


async def dispatch(scope: Any, receive: Any, send: Any) -> None:
    # Outside the guard: how the benchmark sees that the program is ready.
    await (app if scope.get("path") == "/" else serve)(scope, receive, send)


uvicorn.run(dispatch, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning", access_log=False)
