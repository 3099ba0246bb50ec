"""How calls of `verify` leave: alone, or gathered in batches."""

from __future__ import annotations

import asyncio
import math
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from stack import (
    VALID,
    Asked,
    as_valid,
    eventually,
    hold_up,
    new_async_client,
    new_client,
    serving,
)

from keytally import KeytallyError


class Threads(unittest.TestCase):
    def test_calls_that_come_while_one_is_on_its_way_leave_together_and_are_held_up_by_nobody(self) -> None:
        with serving(hold_up) as (url, asked), ThreadPoolExecutor(41) as threads:
            client = new_client(url)
            calls = [threads.submit(client.verify, {"key": "first"})]
            eventually("the first is on its way", lambda: len(asked) == 1)
            began = time.monotonic()
            calls += [threads.submit(client.verify, {"key": f"key {i}"}) for i in range(40)]
            # The server answers nothing, and holds up nobody.
            eventually("they left too", lambda: sum(len(one.keys) for one in asked) == 41)
            took = time.monotonic() - began
            self.assertLessEqual(len(asked) - 1, took * 1000 + 2)
            for one in asked:
                as_valid(one)
            self.assertEqual([call.result() for call in calls], [VALID] * 41)

    def test_a_call_with_little_time_left_makes_no_other_fail(self) -> None:
        is_answering = threading.Event()

        def decide(asked: Asked) -> None:
            if is_answering.is_set():
                as_valid(asked)

        with serving(decide) as (url, asked), ThreadPoolExecutor(32) as threads:
            client = new_client(url)
            calls = [threads.submit(client.verify, {"key": "first"})]
            eventually("the first is on its way", lambda: len(asked) == 1)
            short = threads.submit(client.verify, {"key": "short"}, timeout=0.4)
            calls += [threads.submit(client.verify, {"key": "long"}) for _ in range(30)]
            self.assertIsInstance(short.exception(), KeytallyError)
            is_answering.set()
            for one in asked:
                as_valid(one)
            self.assertEqual([call.result() for call in calls], [VALID] * 31)

    def test_calls_whose_leader_dies_while_it_sends_them_are_sent_again_at_once(self) -> None:
        died: list[object] = []

        def die_once(request: httpx.Request) -> None:
            if request.url.path.endswith("/batch") and not died:
                died.append(request)
                raise KeyboardInterrupt

        def decide(asked: Asked) -> None:
            if asked.keys != ["first"]:
                as_valid(asked)

        with serving(decide) as (url, asked), ThreadPoolExecutor(31) as threads:
            http = httpx.Client(event_hooks={"request": [die_once]})
            client = new_client(url, http=http, verify_timeout=130.0)
            first = threads.submit(client.verify, {"key": "first"})
            eventually("the first is on its way", lambda: len(asked) == 1)
            calls = [threads.submit(client.verify, {"key": f"key {i}"}) for i in range(30)]
            eventually("all have an outcome", lambda: all(call.done() for call in calls))
            as_valid(asked[0])
            first.result()
            self.assertLess(sum(call.exception() is not None for call in calls), 3)


class OneTurn(unittest.IsolatedAsyncioTestCase):
    async def test_more_calls_than_a_batch_takes_or_longer_ones_leave_as_several_batches(self) -> None:
        with serving(as_valid) as (url, asked):
            async with new_async_client(url) as client:
                await asyncio.gather(*(client.verify({"key": f"key {i}"}) for i in range(250)))
                self.assertEqual(sorted(len(one.keys) for one in asked), [50, 100, 100])
                asked.clear()
                scopes: Any = [{"representation": "ü" * 120} for _ in range(30)]
                await asyncio.gather(*(client.verify({"key": "k", "requestedScopes": scopes}) for _ in range(100)))
                self.assertTrue(len(asked) > 1 and all(int(one.headers["Content-Length"]) < 262_144 for one in asked))

    async def test_each_call_of_a_batch_has_its_own_deadline(self) -> None:
        with serving(hold_up) as (url, asked):
            async with new_async_client(url) as client:
                patient = asyncio.ensure_future(client.verify({"key": "b"}))
                with self.assertRaisesRegex(KeytallyError, "in time"):
                    await client.verify({"key": "a"}, timeout=0.06)
                await asyncio.to_thread(eventually, "both left", lambda: len(asked) > 0)
                self.assertEqual(asked[0].keys, ["a", "b"])
                asked[0].answer(200, {"results": [VALID, VALID]})
                self.assertEqual(await patient, VALID)

    async def test_a_call_that_is_cancelled_leaves_the_others_their_answers(self) -> None:
        with serving(hold_up) as (url, asked):
            async with new_async_client(url) as client:
                first, second = (asyncio.ensure_future(client.verify({"key": key})) for key in "ab")
                await asyncio.to_thread(eventually, "they left", lambda: len(asked) == 1)
                first.cancel()
                asked[0].answer(200, {"results": [VALID, VALID]})
                self.assertEqual(await second, VALID)
                self.assertTrue(first.cancelled())

    async def test_an_answer_that_is_no_batch_is_an_error_of_each_call(self) -> None:
        wrong: list[Any] = [
            [VALID],
            [VALID, None],
            [VALID, {"status": 1}],
            [VALID, {"error": 1}],
            [VALID, {"error": {"code": 404}}],
            None,
        ]
        bodies = [*({"results": results} for results in wrong), None, "<h1>Welcome</h1>"]
        with serving(lambda asked: asked.answer(200, bodies[0])) as (url, _):
            async with new_async_client(url) as client:
                while bodies:
                    calls = (client.verify({"key": key}) for key in "ab")
                    outcomes: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
                    self.assertEqual([str(one) for one in outcomes], ["the answer to a batch is not from keytally"] * 2)
                    self.assertEqual((outcomes[0].status, outcomes[0].code), (200, 0))
                    bodies.pop(0)

    async def test_an_input_that_cannot_be_sent_is_an_error_of_its_call_alone(self) -> None:
        with serving(as_valid) as (url, asked):
            async with new_async_client(url) as client:
                keys: list[Any] = ["a", "\ud800", math.nan, "b"]
                calls = (client.verify({"key": key}) for key in keys)
                a, *wrong, b = await asyncio.gather(*calls, return_exceptions=True)
                self.assertEqual((a, b, [type(one) for one in wrong]), (VALID, VALID, [UnicodeEncodeError, ValueError]))
                self.assertEqual([one.keys for one in asked], [["a", "b"]])
