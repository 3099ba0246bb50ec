"""What the tests find: a stack whose addresses are in the environment, and a server that answers what a test says."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from keytally import AsyncClient, Client

API_URL = os.environ["API_URL"]
VERIFY_URL = os.environ["VERIFY_URL"]
TOKEN = os.environ["TOKEN"]
WORKSPACE = os.environ["WORKSPACE"]
# A busy machine needs more time.
PATIENT = 20.0


def new_client(url: str = API_URL, **options: Any) -> Client:
    return Client(**{"url": url, "verify_url": None, "token": TOKEN, "verify_timeout": PATIENT, **options})


def new_async_client(url: str = API_URL, **options: Any) -> AsyncClient:
    return AsyncClient(**{"url": url, "verify_url": None, "token": TOKEN, "verify_timeout": PATIENT, **options})


def metered_key(credits: str = "100") -> tuple[str, Callable[[], str]]:
    """A key with a billing record of its own, and what tells the used credits of that."""
    client = new_client()
    meter = str(uuid.uuid4())
    client.billing.create({"workspaceId": WORKSPACE, "externalMeterId": meter, "totalCredits": credits})
    created = client.api_keys.create({"name": "k", "workspaceId": WORKSPACE, "externalMeterId": meter})

    def used() -> str:
        record = client.billing.get({"workspaceId": WORKSPACE, "externalMeterId": meter})
        return record["billing"]["usedCredits"]

    return created["apiKey"]["key"], used


def eventually(what: str, look: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not look():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


class Asked:
    """A request that the server got. It waits until it is answered."""

    def __init__(self, path: str, headers: dict[str, str], body: Any, peer: object) -> None:
        self.path = path
        self.headers = headers
        self.body = body
        self.peer = peer
        """The other end of its connection."""
        self._answered = threading.Event()
        self._answer: tuple[int, Any] = (0, None)
        self.part_seconds = 0.0
        """If it is set, the body is sent byte by byte, with such a pause after each."""

    @property
    def keys(self) -> list[str]:
        return [one["key"] for one in self.body.get("verifications", [self.body])]

    def answer(self, status: int, body: Any) -> None:
        """Answers with JSON, which may be text already."""
        self._answer = (status, body)
        self._answered.set()

    def wait(self) -> tuple[int, Any]:
        self._answered.wait(60)
        return self._answer


VALID = {"status": "VALID"}


def hold_up(_: Asked) -> None:
    """The test answers later."""


def as_valid(asked: Asked) -> None:
    asked.answer(200, {"results": [VALID for _ in asked.keys]} if "verifications" in asked.body else VALID)


@contextmanager
def serving(decide: Callable[[Asked], None]) -> Iterator[tuple[str, list[Asked]]]:
    """A server that hands each request to a test, which answers it then or later."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do({})

        def do_POST(self) -> None:
            self.do(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do(self, body: Any) -> None:
            one = Asked(self.path, dict(self.headers), body, self.client_address)
            asked.append(one)
            decide(one)
            status, answer = one.wait()
            text = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            for part in [text[i : i + 1] for i in range(len(text))] if one.part_seconds else [text]:
                self.wfile.write(part)
                time.sleep(one.part_seconds)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, *_: object) -> None:
            """A client that gave up has closed its connection."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        for one in asked:
            one.answer(500, {})
        server.shutdown()
        server.server_close()
