"""What guards do beyond the cases that all languages have."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import unittest
from collections.abc import Awaitable, Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

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

from keytally import AsyncKeptUsage, KeptUsage, KeytallyError, OptionError, asgi, keys_of, wsgi
from keytally._hold import AsyncHold, Hold
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
            ({"cost": "-1"}, 'cost is "-1"'),
            ({"cost": "\u0661"}, "cost is"),
            ({"cost": "9000000001"}, "cost is"),
            ({"cost": {"usageName": "tokens"}}, "cost is None"),
            ({"hold": {"expiresIn": 0}}, "hold is {'expiresIn': 0}"),
            ({"hold": None}, "hold is None"),
            ({"scopes": None}, "scopes is None"),
            ({"scopes": "documents"}, 'scopes is "documents"; it must be a list such as'),
            ({"route": None}, "route is None"),
            ({"hold": {"expiresIn": 60}, "open": kept}, "hold is there beside open"),
        ]
        for wrong, message in cases:
            with self.assertRaisesRegex(OptionError, message):
                wsgi.KeytallyMiddleware(lambda *_: [], client, **wrong)
        with self.assertRaisesRegex(TypeError, "cots"):
            wsgi.KeytallyMiddleware(lambda *_: [], client, cots="1")  # type: ignore[call-arg]

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

    def test_an_on_error_that_raises_leaves_the_answer_as_it_is(self) -> None:
        def on_error(*_: object) -> None:
            raise RuntimeError("on_error is wrong")

        sent: list[str] = []
        error = {"error": {"code": 40102, "message": "wrong"}}
        with serving(lambda asked: asked.answer(401, error)) as (url, _), new_client(url) as client:
            guarded = wsgi.KeytallyMiddleware(lambda *_: [], client, on_error=on_error)
            with self.assertLogs("keytally", "ERROR") as logs:
                guarded({"REQUEST_METHOD": "GET", "HTTP_X_API_KEY": "k"}, lambda status, _: sent.append(status))
        self.assertEqual((sent[0][:3], [one.getMessage() for one in logs.records]), ("500", ["on_error failed"]))


class Keys(unittest.TestCase):
    def test_a_key_is_found_in_each_of_the_three_ways_and_nowhere_else(self) -> None:
        for headers, keys in [
            ({"authorization": "Bearer  a "}, ["a"]),
            ({"authorization": "BEARER a b"}, ["a b"]),
            ({"authorization": "Bearera"}, []),
            ({"authorization": ""}, []),
            ({"x-api-key": " a , a,, b"}, ["a", "b"]),
            ({"authorization": "Basic YTo="}, ["a"]),
            ({"authorization": "basic YTo"}, ["a"]),
            ({"authorization": "Basic OmI="}, ["b"]),
            ({"authorization": "Basic YTpi"}, ["a", "b"]),
            ({"authorization": "Basic YTo=="}, []),
            ({"authorization": "Basic Y"}, []),
            ({"authorization": "Basic YQ=="}, []),
            ({"authorization": "Digest a"}, []),
        ]:
            self.assertEqual(keys_of(headers.get), keys, headers)


class KeptCalls(unittest.IsolatedAsyncioTestCase):
    async def test_a_call_that_is_too_old_to_be_repeated_is_handed_back_and_not_debited_twice(self) -> None:
        lost: list[object] = []
        kept: Any
        for is_async in (False, True):
            key, used = metered_key()

            def note_lost(_: object, why: object) -> None:
                lost.append(why)

            if is_async:
                kept = AsyncKeptUsage(new_async_client(VERIFY_URL), on_lost=note_lost, pause=60)
            else:
                kept = KeptUsage(new_client(VERIFY_URL), on_lost=note_lost, pause=60)
            kept.keep({"key": key, "billing": {"usage": "1"}}, "a", time.monotonic() - 50.001)
            kept.keep({"key": key, "billing": {"usage": "2"}}, "b")
            left = (await kept.flush()) if is_async else kept.flush()
            self.assertEqual((left, used(), lost.pop(), lost), (0, "2", "DOUBTFUL", []))


WRONG_TOKEN = {"error": {"code": 40102, "message": "wrong token"}}


class Kept(NamedTuple):
    """What keeps usage, what it has lost, and what flushes it."""

    usage: Any
    lost: list[Any]
    flush: Callable[[], Awaitable[int]]
    close: Callable[[], Awaitable[None]]


class Reports(unittest.IsolatedAsyncioTestCase):
    """Of an `AsyncClient`."""

    def make(self, url: str, *, error: Exception | None = None, **options: Any) -> Kept:
        """Keeps usage for a client of that address; `on_lost` raises the error."""
        lost: list[Any] = []
        client = new_async_client(url)
        usage = AsyncKeptUsage(client, on_lost=noting(lost, error), **options)
        return Kept(usage, lost, usage.flush, client.aclose)

    async def eventually(self, what: str, look: Callable[[], object]) -> None:
        await asyncio.to_thread(eventually, what, look)

    async def test_a_callback_that_raises_and_inputs_that_cannot_be_sent_stop_none(self) -> None:
        with serving(as_valid) as (url, asked), self.assertLogs("keytally", "ERROR") as logs:
            kept = self.make(url, pause=60, error=RuntimeError("on_lost is wrong"))
            kept.usage.keep({"key": "old"}, "a", time.monotonic() - 50)
            for key in (Decimal(1), "\ud800"):
                kept.usage.keep({"key": key}, "b")
            kept.usage.keep({"key": "good"}, "c")
            self.assertEqual(await kept.flush(), 0)
            self.assertEqual([one.keys for one in asked if one.path != "/servingz"], [["good"]])
            kinds = [one if isinstance(one, str) else type(one) for one in kept.lost]
            self.assertEqual((kinds, len(logs.output)), (["DOUBTFUL", KeytallyError, KeytallyError], 3))

    async def test_where_something_else_answers_usage_stays_kept(self) -> None:
        with serving(lambda asked: asked.answer(200, {})) as (url, _):
            kept = self.make(url, pause=60)
            kept.usage.keep({"key": "a"}, "a")
            self.assertEqual((await kept.flush(), kept.lost, kept.usage.away), (1, [], True))

    async def test_what_keytally_cannot_decide_now_stays_kept_and_the_others_are_reported(self) -> None:
        for code in (50301, 50306, 42901, 42920, 40905):
            error = {"error": {"code": code, "message": "not now"}}

            def decide(asked: Asked, error: object = error, status: int = code // 100) -> None:
                if asked.path == "/servingz" or asked.keys != ["closed"]:
                    as_valid(asked)
                else:
                    asked.answer(status, error, 60)

            with serving(decide) as (url, asked):
                kept = self.make(url, pause=60)
                for key in ("closed", "open"):
                    kept.usage.keep({"key": key}, key)
                self.assertEqual((await kept.flush(), kept.lost, kept.usage.away), (1, [], False), code)
                sent = [one.keys for one in asked if one.path != "/servingz"]
                self.assertEqual((sent[0], sent[-1]), (["closed"], ["open"]))
                await kept.close()

    async def test_what_keytally_surely_did_not_debit_is_sent_again_however_long_that_takes(self) -> None:
        for code, why in [(42901, []), (42920, []), (50301, []), (50306, []), (50308, []), (50305, ["DOUBTFUL"])]:
            back = threading.Event()
            refused = (code // 100, {"error": {"code": code, "message": "not now"}}, 60)

            def decide(asked: Asked, back: threading.Event = back, refused: tuple[int, Any, int] = refused) -> None:
                if asked.path == "/servingz" or back.is_set():
                    as_valid(asked)
                else:
                    asked.answer(*refused)

            with serving(decide) as (url, asked):
                kept = self.make(url, pause=60)
                for key in "abc":
                    kept.usage.keep({"key": key}, key, was_answered=True)
                await self.report_together(kept.usage, asked)
                self.assertEqual(await kept.flush(), 3)
                back.set()
                self.assertEqual((await self.flush_later(kept), kept.lost), (0, why * 3), code)
                await kept.close()

    async def test_a_refusal_says_nothing_of_an_earlier_attempt_unless_keytally_looked_for_its_debit(self) -> None:
        def decide(asked: Asked) -> None:
            status = asked.body.get("key")
            asked.answer(*((401, WRONG_TOKEN) if status == "wrong token" else (200, {"status": status})))

        refusals = ("EXPIRED", "DISABLED", "DELETED", "INVALID_SCOPES", "INVALID", "wrong token")
        for refusal in (*refusals, "USAGE_LIMITED", "RATE_LIMITED"):
            with serving(decide) as (url, _):
                kept = self.make(url, pause=60)
                kept.usage.keep({"key": refusal}, "a")
                kept.usage.keep({"key": refusal}, "b", time.monotonic())
                await kept.flush()
                lost = [str(one) for one in kept.lost]
                sent_at = [one.sent_at for one in kept.usage._calls.values()]
                looked = {"USAGE_LIMITED": (["USAGE_LIMITED"] * 2, []), "RATE_LIMITED": ([], [None] * 2)}
                self.assertEqual((lost, sent_at), looked.get(refusal, ([refusal, "DOUBTFUL"], [])))
                await kept.close()

    async def test_a_refusal_says_nothing_of_the_attempt_before_it_that_got_no_answer(self) -> None:
        for refusal in ((200, {"status": "DISABLED"}), (401, WRONG_TOKEN)):

            def decide(asked: Asked, refusal: tuple[int, Any] = refusal) -> None:
                if asked.path == "/servingz":
                    asked.answer(200, {})
                elif sum(one.path == asked.path for one in sent) == 1:
                    asked.answer(502, "<h1>Bad Gateway</h1>")
                else:
                    asked.answer(*refusal)

            with serving(decide) as (url, sent):
                kept = self.make(url, pause=60)
                kept.usage.keep({"key": "a"}, "a", was_answered=True)
                self.assertEqual((await kept.flush(), kept.lost), (0, ["DOUBTFUL"]))

    async def flush_later(self, kept: Kept) -> int:
        """Reports as if a minute had passed."""
        later = SimpleNamespace(monotonic=lambda: time.monotonic() + 60)
        with mock.patch("keytally._kept.time", later):
            return await kept.flush()

    async def report_together(self, usage: Any, asked: list[Asked]) -> None:
        await asyncio.gather(*map(usage._report_call, usage._calls.values()))
        self.assertEqual([one.path for one in asked], ["/api/v1/api-key/verify/batch"])

    async def test_one_that_nobody_answers_ends_and_the_calls_after_it_are_not_sent(self) -> None:
        def decide(asked: Asked) -> None:
            if asked.path == "/servingz":
                asked.answer(200, {})
            else:
                asked.answer(502, "<h1>Bad Gateway</h1>", 60)

        with serving(decide) as (url, asked):
            kept = self.make(url, pause=60)
            for key in "ab":
                kept.usage.keep({"key": key}, key, was_answered=True)
            self.assertEqual((kept.usage.away, await kept.flush(), kept.usage.away), (False, 2, True))
            self.assertNotIn(["b"], [one.keys for one in asked if one.path != "/servingz"])


class ReportsOfThreads(Reports):
    """Of a `Client`."""

    def make(self, url: str, *, error: Exception | None = None, **options: Any) -> Kept:
        lost: list[Any] = []
        client = new_client(url)
        usage = KeptUsage(client, on_lost=noting(lost, error), **options)
        return Kept(usage, lost, partial(asyncio.to_thread, usage.flush), partial(asyncio.to_thread, client.close))

    async def report_together(self, usage: Any, asked: list[Asked]) -> None:
        """Which calls of threads leave together is up to the machine."""


def noting(lost: list[Any], error: Exception | None) -> Callable[..., None]:
    def note(_: object, why: object) -> None:
        lost.append(why)
        if error:
            raise error

    return note


def is_back(kept: Any) -> bool:
    return not kept.away


HELD = {"status": "VALID", "hold": {"id": "h-1"}}
HOLD: Any = {"expiresIn": 60}


class Cancelled(unittest.IsolatedAsyncioTestCase):
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
                await asyncio.to_thread(eventually, "the release is on its way", lambda: len(asked) == 2)
                ending.cancel()
                await asyncio.wait([ending])
                asked[1].answer(503, {})
                await asyncio.to_thread(eventually, "it is sent again", lambda: len(asked) == 3)
                self.assertEqual(asked[2].body, {"holdId": "h-1"})
                asked[2].answer(200, {})

    async def test_a_request_that_is_cancelled_before_its_hold_is_known_releases_it(self) -> None:
        told: list[object] = []

        def on_error(error: Exception, _: object) -> None:
            told.append(error)
            raise RuntimeError("on_error is wrong")

        with serving(hold_up) as (url, asked), self.assertLogs("keytally", "ERROR") as logs:
            async with new_async_client(url) as client:
                guarded: Any = asgi.KeytallyMiddleware(no_app, client, cost="1", hold=HOLD, on_error=on_error)
                scope = {"type": "http", "path": "/", "headers": [(b"x-api-key", b"k")]}
                deciding = asyncio.ensure_future(guarded(scope, receive, no_app))
                await asyncio.to_thread(eventually, "keytally is asked", lambda: len(asked) == 1)
                deciding.cancel()
                await asyncio.wait([deciding])
                asked[0].answer(200, HELD)
                await asyncio.to_thread(eventually, "it is released", lambda: len(asked) == 2)
                self.assertEqual((asked[1].path, asked[1].body), ("/api/v1/usage/release", {"holdId": "h-1"}))
                asked[1].answer(404, {"error": {"code": 40401, "message": "no such hold"}})
                await asyncio.to_thread(eventually, "on_error failed", lambda: len(logs.output) == 1)
                self.assertRegex(str(told), "no such hold")


REFUSED = {"error": {"code": 40001, "message": "usage is no decimal number"}}
CAPTURE, RELEASE = "/api/v1/usage/capture", "/api/v1/usage/release"


class HoldsOfTasks(unittest.IsolatedAsyncioTestCase):
    """Of requests that may be cancelled, and of a client that may be closed."""

    async def asked(self, asked: list[Asked], count: int) -> Asked:
        await asyncio.to_thread(eventually, f"{count} requests", lambda: len(asked) == count)
        return asked[-1]

    async def cancel_capture(self, hold: AsyncHold, usage: str, asked: list[Asked]) -> Asked:
        """Begins a capture and cancels its caller, whose request then ends. Gives the capture's first request."""
        capturing = asyncio.ensure_future(hold.capture(usage))
        first = await self.asked(asked, 1)
        capturing.cancel()
        await asyncio.wait([capturing])
        hold.begin_end()
        return first

    async def test_a_capture_whose_caller_is_cancelled_is_sent_all_the_same(self) -> None:
        told: list[Exception] = []
        with serving(hold_up) as (url, asked):
            async with new_async_client(url) as client:
                first = await self.cancel_capture(AsyncHold(client, "h-1", told.append), "3", asked)
                first.answer(503, {})
                second = await self.asked(asked, 2)
                second.answer(200, {})
            self.assertEqual([(one.path, one.body["usage"]) for one in asked], [(CAPTURE, "3")] * 2)
            self.assertEqual(told, [])

    async def test_a_capture_that_is_refused_after_its_caller_was_cancelled_is_told_and_releases(self) -> None:
        told: list[Exception] = []
        with serving(hold_up) as (url, asked):
            async with new_async_client(url) as client:
                first = await self.cancel_capture(AsyncHold(client, "h-1", told.append), "1e-07", asked)
                first.answer(400, REFUSED)
                (await self.asked(asked, 2)).answer(200, {})
            self.assertEqual(([one.path for one in asked], len(told)), ([CAPTURE, RELEASE], 1))

    async def test_the_end_waits_for_a_capture_that_begins_while_it_waits_for_another(self) -> None:
        told: list[Exception] = []

        def decide(asked: Asked) -> None:
            if asked.path == RELEASE:
                asked.answer(200, {})

        with serving(decide) as (url, asked):
            async with new_async_client(url) as client:
                hold = AsyncHold(client, "h-1", told.append)
                refused = asyncio.ensure_future(hold.capture("much"))
                first = await self.asked(asked, 1)
                hold.begin_end()
                made = asyncio.ensure_future(hold.capture("3"))
                second = await self.asked(asked, 2)
                first.answer(400, REFUSED)
                with self.assertRaisesRegex(KeytallyError, "no decimal number"):
                    await refused
                second.answer(200, {})
                await made
                await hold.end()
            self.assertEqual(([one.path for one in asked], told), ([CAPTURE, CAPTURE], []))

    async def test_a_client_that_is_closed_settles_what_is_held_first(self) -> None:
        told: list[Exception] = []
        with serving(hold_up) as (url, asked):
            client = new_async_client(url)
            AsyncHold(client, "h-1", told.append).begin_end()
            first = await self.asked(asked, 1)
            closing = asyncio.ensure_future(client.aclose())
            await asyncio.wait([closing], timeout=0.01)
            first.answer(503, {})
            (await self.asked(asked, 2)).answer(200, {})
            await closing
            self.assertEqual(told, [])


class Holds(unittest.IsolatedAsyncioTestCase):
    """Of an `AsyncClient`."""

    async def test_a_capture_that_is_refused_or_cannot_be_sent_leaves_the_hold_to_be_released(self) -> None:
        await self.check_end(400, REFUSED, "1e-07", [CAPTURE, RELEASE])
        await self.check_end(404, {"error": {"code": 40407, "message": "no such hold"}}, "1", [CAPTURE, RELEASE])
        await self.check_end(200, {}, math.nan, [RELEASE])

    async def test_a_capture_that_may_have_been_made_releases_nothing(self) -> None:
        await self.check_end(409, {"error": {"code": 40901, "message": "settled"}}, "1", [CAPTURE])
        await self.check_end(503, {"error": {"code": 50301, "message": "not now"}}, "1", [CAPTURE])
        await self.check_end(404, "<h1>Not found</h1>", "1", [CAPTURE])
        await self.check_end(200, {}, "1", [CAPTURE])

    async def test_a_second_capture_that_is_refused_leaves_the_first_one_as_it_is(self) -> None:
        def decide(asked: Asked) -> None:
            asked.answer(*((400, REFUSED) if asked.body.get("usage") == "much" else (200, {})))

        told: list[Exception] = []
        with serving(decide) as (url, asked):
            await self.capture_and_end(url, ["1", "much"], told.append)
            self.assertEqual(([one.path for one in asked], told), ([CAPTURE, CAPTURE], []))
            await self.capture_and_end(url, ["much", "1"], told.append)
            self.assertEqual(([one.path for one in asked[2:]], told), ([CAPTURE, CAPTURE], []))

    async def check_end(self, status: int, body: object, usage: Any, paths: list[str]) -> None:
        """Checks what is sent of a request whose capture is answered so, until its end."""

        def decide(asked: Asked) -> None:
            asked.answer(*((status, body, 60) if asked.path == CAPTURE else (200, {}, None)))

        told: list[Exception] = []
        with serving(decide) as (url, asked):
            await self.capture_and_end(url, [usage], told.append)
            self.assertEqual(([one.path for one in asked], told), (paths, []))

    async def capture_and_end(self, url: str, usages: list[Any], on_failure: Callable[[Exception], None]) -> None:
        async with new_async_client(url) as client:
            hold = AsyncHold(client, "h-1", on_failure)
            for one in usages:
                with suppress(KeytallyError, ValueError):
                    await hold.capture(one)
            await hold.end()


class HoldsOfThreads(Holds):
    """Of a `Client`."""

    async def capture_and_end(self, url: str, usages: list[Any], on_failure: Callable[[Exception], None]) -> None:
        def act() -> None:
            with new_client(url, timeout=30) as client:
                hold = Hold(client, "h-1", on_failure)
                for one in usages:
                    with suppress(KeytallyError, ValueError):
                        hold.capture(one)
                hold.end()

        await asyncio.to_thread(act)

    async def test_a_capture_of_another_thread_that_is_refused_after_the_end_releases(self) -> None:
        with serving(hold_up) as (url, asked), new_client(url) as client:
            hold = Hold(client, "h-1", lambda _: None)
            capturing = asyncio.ensure_future(asyncio.to_thread(hold.capture, "much"))
            await asyncio.to_thread(eventually, "it is captured", lambda: len(asked) == 1)
            hold.end()
            asked[0].answer(400, REFUSED)
            await asyncio.to_thread(eventually, "it is released", lambda: len(asked) == 2)
            asked[1].answer(200, {})
            with self.assertRaisesRegex(KeytallyError, "no decimal number"):
                await capturing
            self.assertEqual([one.path for one in asked], [CAPTURE, RELEASE])


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

    async def test_a_key_header_that_was_sent_twice_is_two_keys(self) -> None:
        headers = [(b"x-api-key", b"a"), (b"X-Api-Key", b"b")]
        passed, sent = await self.ask({"type": "http", "method": "GET", "headers": headers})
        self.assertEqual(passed, [])
        self.assertIn(b"40111", sent[1]["body"])

    async def test_functions_may_be_async_and_what_they_raise_is_for_the_framework(self) -> None:
        key, used = metered_key()
        scope = {"type": "http", "method": "GET", "headers": [(b"x-api-key", key.encode())], "query_string": b"n=3"}

        async def cost(request: asgi.Request) -> str:
            return request.query["n"]

        await self.ask(scope, cost=cost)
        self.assertEqual(used(), "3")
        with self.assertRaises(KeyError):
            await self.ask({**scope, "query_string": b""}, cost=cost)

    async def test_a_name_beyond_ascii_in_a_path_is_recorded_as_it_was_sent_and_a_long_one_is_cut_at_a_slash(
        self,
    ) -> None:
        key, _ = metered_key()
        seen: list[asgi.Request] = []
        headers = [(b"x-api-key", key.encode())]
        path = {"path": "/ä/" + "x" * 2000, "raw_path": b"/%C3%A4/" + b"x" * 2000}
        passed, _ = await self.ask(
            {"type": "http", "method": "GET", "headers": headers, **path}, ip=lambda request: seen.append(request)
        )
        self.assertEqual((len(passed), seen[0].path[:3], seen[0].raw_path[:8]), (1, "/ä/", "/%C3%A4/"))
