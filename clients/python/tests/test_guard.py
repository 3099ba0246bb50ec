"""What guards do beyond the cases that all languages have."""

from __future__ import annotations

import os
import time
import unittest
from typing import Any

from stack import VERIFY_URL, metered_key, new_async_client, new_client

from keytally import AsyncKeptUsage, KeptUsage, OptionError, asgi, keys_of, wsgi


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

    def test_long_headers_take_time_by_their_length_only(self) -> None:
        for text in ("Basic " + "=" * 1_000_000, " " * 1_000_000, "Bearer" + "\t" * 1_000_000, "," * 1_000_000):
            began = time.monotonic()
            keys_of({"authorization": text, "x-api-key": text}.get)
            self.assertLess(time.monotonic() - began, 5)


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
