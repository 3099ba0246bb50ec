"""What guards do beyond the cases that all languages have."""

from __future__ import annotations

import asyncio
import math
import os
import time
import unittest
from decimal import Decimal
from typing import Any, cast
from unittest.mock import patch

from fastapi import Request, Response
from stack import (
    VERIFY_URL,
    Asked,
    as_valid,
    eventually,
    hold_up,
    metered_key,
    new_async_client,
    new_client,
    serving,
)

from keytally import AsyncClient, AsyncKeptUsage, KeptUsage, KeytallyError, OptionError, asgi, wsgi
from keytally._hold import AsyncHold, Hold
from keytally._kept import KeptCall
from keytally.fastapi import Guard


async def receive() -> Any:
    return {"type": "http.disconnect"}


class Mistakes(unittest.TestCase):
    def test_a_program_with_a_wrong_option_does_not_start(self) -> None:
        client = new_client()
        kept = KeptUsage(client, on_lost=lambda *_: None)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"cost": 0.25}, r"cost is 0\.25 \(float\); it must be decimal text such as"),
            ({"cost": os.environ.get("NO_SUCH_VARIABLE")}, "cost is None"),
            ({"cost": {"usageName": "tokens"}}, "cost is None"),
            ({"idempotency_key": "orders"}, 'idempotency_key is "orders"; it must be a function of the request'),
            ({"hold": {"expiresIn": 60}, "open": kept}, "hold is there beside open"),
        ]
        for wrong, message in cases:
            with self.assertRaisesRegex(OptionError, message):
                wsgi.KeytallyMiddleware(lambda *_: [], client, **wrong)
        with self.assertRaisesRegex(TypeError, "cots"):
            wsgi.KeytallyMiddleware(lambda *_: [], client, cots="1")  # type: ignore[call-arg]

    def test_a_hold_and_scopes_that_are_none_are_sent_so_and_not_left_out(self) -> None:
        none: Any = None
        with serving(as_valid) as (url, asked), new_client(url) as client:
            guarded = wsgi.KeytallyMiddleware(lambda *_: [], client, hold=none, scopes=lambda _: none)
            guarded({"REQUEST_METHOD": "GET", "HTTP_X_API_KEY": "k"}, lambda *_: None)
            self.assertEqual((asked[0].body["billing"]["hold"], asked[0].body["requestedScopes"]), (None, None))

    def test_a_wrong_idempotency_key_refuses_the_request_before_its_usage_is_kept(self) -> None:
        client = new_client("http://127.0.0.1:1")
        kept = KeptUsage(client, on_lost=lambda *_: None)
        kept.keep(KeptCall({"key": "k"}))
        wrong: list[Any] = ["a b", "a" * 256, "", 1]
        statuses: list[str] = []
        guarded = wsgi.KeytallyMiddleware(
            lambda *_: [], client, open=kept, idempotency_key=lambda _: wrong.pop(), on_error=no_error
        )
        while wrong:
            guarded({"REQUEST_METHOD": "GET", "HTTP_X_API_KEY": "k"}, lambda status, *_: statuses.append(status[:3]))
        self.assertEqual((statuses, kept.size), (["500"] * 4, 1))

    def test_a_handler_without_a_guard_is_told_so(self) -> None:
        for handler in (lambda: wsgi.identity_of({}), lambda: wsgi.capture(object(), "1")):
            with self.assertRaisesRegex(RuntimeError, "no keytally guard ran before this handler"):
                handler()

    def test_without_on_error_one_line_a_second_is_logged(self) -> None:
        client = new_client("http://127.0.0.1:1", verify_timeout=0.01)
        guarded = wsgi.KeytallyMiddleware(lambda *_: [], client)
        environ = {"REQUEST_METHOD": "GET", "HTTP_X_API_KEY": "key_x"}
        with self.assertLogs("keytally", "ERROR") as logs:
            began = time.monotonic()
            for _ in range(20):
                guarded(dict(environ), lambda *_: None)
            took = time.monotonic() - began
        self.assertLessEqual(len(logs.output), 1 + took)
        self.assertRegex(logs.output[0], "keytally guard, request .+: keytally (cannot be reached|did not answer)")


class KeptCalls(unittest.TestCase):
    def test_one_that_is_too_old_or_cannot_be_sent_is_handed_back_by_an_on_lost_that_raises_and_the_rest_is_sent(
        self,
    ) -> None:
        lost: list[Any] = []

        def on_lost(_: object, why: object) -> None:
            lost.append(why if isinstance(why, str) else type(why))
            raise RuntimeError("on_lost is wrong")

        with serving(as_valid) as (url, asked), new_client(url) as client, self.assertLogs("keytally", "ERROR"):
            kept = KeptUsage(client, on_lost=on_lost)
            wrong: list[Any] = [Decimal(1), "\ud800", "good"]
            kept.keep(KeptCall({"key": "old"}, "b", time.monotonic() - 50), was_answered=True)
            for key in wrong:
                kept.keep(KeptCall({"key": key}, "b"), was_answered=True)
            self.assertEqual((kept.flush(60), lost), (0, ["DOUBTFUL", *[KeytallyError] * 2]))
            self.assertEqual([one.keys for one in asked], [["good"]])

    def test_where_no_thread_can_be_started_the_next_one_starts_it(self) -> None:
        with serving(as_valid) as (url, asked), new_client(url) as client:
            kept = KeptUsage(client, on_lost=lambda *_: None)
            with patch("threading.Thread.start", side_effect=RuntimeError("can't start new thread")):
                self.assertTrue(kept.keep(KeptCall({"key": "a"}), was_answered=True))
            self.assertEqual(kept.flush(0.01), 1)
            kept.keep(KeptCall({"key": "b"}), was_answered=True)
            self.assertEqual((kept.flush(60), [one.keys for one in asked]), (0, [["a"], ["b"]]))


HELD = {"status": "VALID", "hold": {"id": "h-1"}}
HOLD: Any = {"expiresIn": 60}


async def newest(asked: list[Asked], count: int) -> Asked:
    """The last of so many requests, once it came."""
    await asyncio.to_thread(eventually, f"{count} requests", lambda: len(asked) == count)
    return asked[-1]


class KeptCallsOfTasks(unittest.IsolatedAsyncioTestCase):
    async def test_they_leave_together_and_those_that_may_be_debited_first(self) -> None:
        with serving(as_valid) as (url, asked):
            async with new_async_client(url) as client:
                kept = AsyncKeptUsage(client, on_lost=lambda *_: None)
                kept.keep(KeptCall({"key": "new"}), was_answered=True)
                kept.keep(KeptCall({"key": "old"}, "b", time.monotonic()), was_answered=True)
                self.assertEqual((await kept.flush(60), [one.keys for one in asked]), (0, [["old", "new"]]))


class Cancelled(unittest.IsolatedAsyncioTestCase):
    async def cancel_while_asked(self, client: AsyncClient, asked: list[Asked], **options: Any) -> None:
        """Cancels a request while its key is verified."""
        guarded: Any = asgi.KeytallyMiddleware(no_app, client, cost="1", hold=HOLD, **options)
        scope = {"type": "http", "path": "/", "headers": [(b"x-api-key", b"k")]}
        deciding = asyncio.ensure_future(guarded(scope, receive, no_app))
        await newest(asked, 1)
        deciding.cancel()
        await asyncio.wait([deciding])

    async def test_a_request_that_is_cancelled_at_its_end_settles_its_hold(self) -> None:
        def decide(asked: Asked) -> None:
            if "key" in asked.body:
                asked.answer(200, HELD)

        with serving(decide) as (url, asked):
            async with new_async_client(url) as client:
                guard = Guard(client, cost="1", hold=HOLD)
                scope = {"type": "http", "path": "/", "method": "GET", "headers": [(b"x-api-key", b"k")]}
                passing: Any = guard(Request({**scope, "query_string": b"", "raw_path": b"/"}), Response())
                await anext(passing)
                ending = asyncio.ensure_future(passing.aclose())
                release = await newest(asked, 2)
                ending.cancel()
                await asyncio.wait([ending])
                release.answer(503, {})
                again = await newest(asked, 3)
                self.assertEqual(again.body, {"holdId": "h-1"})
                again.answer(200, {})

    async def test_a_request_that_is_cancelled_before_its_hold_is_known_is_cancelled_at_keytally(self) -> None:
        told: list[object] = []

        def on_error(error: Exception, _: object) -> None:
            told.append(error)
            raise RuntimeError("on_error is wrong")

        with serving(hold_up) as (url, asked), self.assertLogs("keytally", "ERROR") as logs:
            async with new_async_client(url) as client:
                await self.cancel_while_asked(client, asked, on_error=on_error)
                cancel = await newest(asked, 2)
                idempotency_key = asked[0].headers["Idempotency-Key"]
                self.assertEqual(cancel.path, "/api/v1/api-key/verify/cancel")
                self.assertEqual(cancel.body, {"key": "k", "idempotencyKey": idempotency_key})
                cancel.answer(404, {"error": {"code": 40401, "message": "no such key"}})
                await asyncio.to_thread(eventually, "on_error failed", lambda: len(logs.output) == 1)
                self.assertRegex(str(told), "not cancelled: .*no such key")

    async def test_one_under_the_options_idempotency_key_is_decided_and_its_hold_released(self) -> None:
        with serving(hold_up) as (url, asked):
            async with new_async_client(url) as client:
                await self.cancel_while_asked(client, asked, idempotency_key=lambda _: "order-1")
                asked[0].answer(200, HELD)
                release = await newest(asked, 2)
                self.assertEqual((release.path, release.body), (RELEASE, {"holdId": "h-1"}))
                release.answer(200, {})


REFUSED = {"error": {"code": 40001, "message": "usage is no decimal number"}}
CAPTURE, RELEASE = "/api/v1/usage/capture", "/api/v1/usage/release"


class HoldsOfTasks(unittest.IsolatedAsyncioTestCase):
    """Of requests that may be cancelled, and of a client that may be closed."""

    async def cancel_capture(self, hold: AsyncHold, usage: str, asked: list[Asked]) -> Asked:
        """Begins a capture and cancels its caller, whose request then ends. Gives the capture's first request."""
        capturing = asyncio.ensure_future(hold.capture(usage))
        first = await newest(asked, 1)
        capturing.cancel()
        await asyncio.wait([capturing])
        hold.end()
        return first

    async def test_a_capture_whose_caller_is_cancelled_is_sent_all_the_same_and_where_it_is_refused_told_and_released(
        self,
    ) -> None:
        answers: list[tuple[int, object, str, int]] = [(503, {}, CAPTURE, 0), (400, REFUSED, RELEASE, 1)]
        for status, body, next_path, count in answers:
            told: list[Exception] = []
            with serving(hold_up) as (url, asked):
                async with new_async_client(url) as client:
                    first = await self.cancel_capture(AsyncHold(client, "h-1", told.append), "3", asked)
                    first.answer(status, body)
                    (await newest(asked, 2)).answer(200, {})
                self.assertEqual(([one.path for one in asked], len(told)), ([CAPTURE, next_path], count))

    async def test_a_client_that_is_closed_settles_what_is_held_first(self) -> None:
        told: list[Exception] = []
        with serving(hold_up) as (url, asked):
            client = new_async_client(url)
            AsyncHold(client, "h-1", told.append).end()
            first = await newest(asked, 1)
            closing = asyncio.ensure_future(client.aclose())
            await asyncio.wait([closing], timeout=0.01)
            first.answer(503, {})
            (await newest(asked, 2)).answer(200, {})
            await closing
            self.assertEqual(told, [])


class HoldsOfThreads(unittest.IsolatedAsyncioTestCase):
    async def test_the_end_waits_for_a_capture_of_another_thread_and_releases_where_that_is_refused(self) -> None:
        with serving(hold_up) as (url, asked), new_client(url) as client:
            hold = Hold(client, "h-1", lambda _: None)
            with self.assertRaises(ValueError):
                hold.capture(cast(str, math.nan))
            capturing = asyncio.ensure_future(asyncio.to_thread(hold.capture, "much"))
            capture = await newest(asked, 1)
            ending = asyncio.ensure_future(asyncio.to_thread(hold.end))
            capture.answer(400, REFUSED)
            (await newest(asked, 2)).answer(200, {})
            await ending
            with self.assertRaisesRegex(KeytallyError, "no decimal number"):
                await capturing
            self.assertEqual([one.path for one in asked], [CAPTURE, RELEASE])


def no_error(*_: object) -> None:
    pass


async def no_app(*_: object) -> None:
    raise AssertionError("it was cancelled")


class Wsgi(unittest.TestCase):
    def test_the_route_is_the_path_as_it_was_sent_where_the_server_tells_it(self) -> None:
        decoded = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "/v1", "PATH_INFO": "/documents/a/\xc3\xa4 b"}
        sent = "/v1/documents/a%2F%C3%A4%20b"
        cases: list[tuple[dict[str, str], str]] = [
            ({"RAW_URI": f"{sent}?n=1"}, sent),
            ({"REQUEST_URI": f"{sent}?n=/2"}, sent),
            ({"REQUEST_URI": f"http://api.example.com:80{sent}?n=1"}, sent),
            ({"RAW_URI": "//v1/documents"}, "//v1/documents"),
            ({"RAW_URI": "*"}, "/v1/documents/a/%C3%A4%20b"),
            ({}, "/v1/documents/a/%C3%A4%20b"),
        ]
        with serving(as_valid) as (url, asked), new_client(url) as client:
            guarded = wsgi.KeytallyMiddleware(lambda *_: [], client)
            for told, route in cases:
                guarded({**decoded, **told, "HTTP_X_API_KEY": "k"}, lambda *_: None)
                self.assertEqual(asked[-1].body["route"], f"GET {route}")


class Asgi(unittest.IsolatedAsyncioTestCase):
    async def ask(self, scope: dict[str, Any], **options: Any) -> tuple[list[Any], list[Any]]:
        """What the application saw, and what was sent, of a request."""
        passed: list[Any] = []
        sent: list[Any] = []

        async def app(scope: Any, *_: object) -> None:
            passed.append(scope)

        async def send(message: Any) -> None:
            sent.append(message)

        async with new_async_client(VERIFY_URL) as client:
            await asgi.KeytallyMiddleware(app, client, **options)({"path": "/", "headers": [], **scope}, receive, send)
        return passed, sent

    async def test_a_websocket_is_checked_before_it_is_accepted(self) -> None:
        key, _ = metered_key()
        socket = {"type": "websocket"}
        passed, sent = await self.ask({**socket, "headers": [(b"x-api-key", key.encode())]})
        self.assertEqual((asgi.identity_of(passed[0])["status"], sent), ("VALID", []))
        passed, sent = await self.ask(socket)
        self.assertEqual((passed, sent), ([], [{"type": "websocket.close", "code": 1008}]))
        passed, sent = await self.ask({**socket, "extensions": {"websocket.http.response": {}}})
        self.assertEqual(passed, [])
        self.assertEqual((sent[0]["type"], sent[0]["status"]), ("websocket.http.response.start", 401))

    async def test_a_start_of_the_server_passes(self) -> None:
        passed, _ = await self.ask({"type": "lifespan"})
        self.assertEqual(len(passed), 1)

    async def test_functions_may_be_async_and_what_they_raise_is_for_the_framework(self) -> None:
        key, used = metered_key()
        scope = {"type": "http", "method": "GET", "headers": [(b"x-api-key", key.encode())], "query_string": b"n=3"}

        async def cost(request: asgi.Request) -> str:
            return request.query["n"]

        await self.ask(scope, cost=cost)
        self.assertEqual(used(), "3")
        with self.assertRaises(KeyError):
            await self.ask({**scope, "query_string": b""}, cost=cost)
