"""How calls of `verify` leave: alone, or gathered in batches."""

from __future__ import annotations

import asyncio
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stack import VERIFY_URL, Asked, eventually, metered_key, new_async_client, new_client, serving

from keytally import KeytallyError

VALID = {"status": "VALID"}


def hold_up(_: Asked) -> None:
    """The test answers later."""


def as_valid(asked: Asked) -> None:
    asked.answer(200, {"results": [VALID for _ in asked.keys]} if "verifications" in asked.body else VALID)


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

    def test_a_call_that_waits_for_a_batch_is_given_up_at_its_own_deadline(self) -> None:
        with serving(hold_up) as (url, asked), ThreadPoolExecutor(3) as threads:
            client = new_client(url)
            threads.submit(client.verify, {"key": "first"}, timeout=0.2)
            eventually("the first is on its way", lambda: len(asked) == 1)
            late = [threads.submit(client.verify, {"key": "k"}, timeout=0.2) for _ in range(2)]
            for one in late:
                with self.assertRaisesRegex(KeytallyError, "in time"):
                    one.result()

    def test_a_server_that_knows_no_batches_is_asked_with_single_calls(self) -> None:
        def decide(asked: Asked) -> None:
            if asked.path.endswith("/batch"):
                asked.answer(404, {"error": {"code": 40401, "message": ""}})
            elif asked.body["key"] != "first":
                as_valid(asked)

        with serving(decide) as (url, asked), ThreadPoolExecutor(11) as threads:
            client = new_client(url)
            first = threads.submit(client.verify, {"key": "first"})
            eventually("the first is on its way", lambda: len(asked) == 1)
            counts = []
            for _ in range(2):
                results = list(threads.map(lambda i: client.verify({"key": f"key {i}"}), range(10)))
                self.assertEqual(results, [VALID] * 10)
                counts.append(sum(one.path.endswith("/batch") for one in asked))
            as_valid(asked[0])
            first.result()
            # Once it is known, no batch is sent; a busy machine may start the threads too slowly for one.
            self.assertTrue(counts[0] == 0 or counts[0] == counts[1], counts)

    def test_many_threads_on_one_key_are_debited_once_each(self) -> None:
        key, used = metered_key("1000")
        client = new_client(VERIFY_URL)
        with ThreadPoolExecutor(32) as threads:
            input: Any = {"key": key, "billing": {"usage": "1"}}
            decisions = list(threads.map(lambda _: client.verify(input), range(300)))
        told = {decision["billing"]["usedCredits"] for decision in decisions}
        self.assertEqual((len(told), used()), (300, "300"))


class OneTurn(unittest.IsolatedAsyncioTestCase):
    async def test_calls_of_one_turn_leave_as_one_request_and_one_alone_as_a_single_one(self) -> None:
        with serving(as_valid) as (url, asked):
            async with new_async_client(url) as client:
                await asyncio.gather(*(client.verify({"key": f"key {i}"}) for i in range(64)))
                self.assertEqual([len(one.keys) for one in asked], [64])
                keys = [one["idempotencyKey"] for one in asked[0].body["verifications"]]
                self.assertEqual(len(set(keys)), 64)
                await client.verify({"key": "alone"}, request_id="req-4")
                self.assertEqual((asked[1].path, asked[1].headers["X-Request-Id"]), ("/api/v1/api-key/verify", "req-4"))

    async def test_a_server_that_knows_no_batches_is_asked_for_one_once_a_minute(self) -> None:
        def decide(asked: Asked) -> None:
            if asked.path.endswith("/batch"):
                asked.answer(404, {"error": {"code": 40401, "message": ""}})
            else:
                as_valid(asked)

        with serving(decide) as (url, asked):
            async with new_async_client(url) as client:
                for _ in range(2):
                    answers = await asyncio.gather(*(client.verify({"key": f"key {i}"}) for i in range(10)))
                    self.assertEqual(answers, [VALID] * 10)
                self.assertEqual((len(asked), sum(one.path.endswith("/batch") for one in asked)), (21, 1))

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
        with serving(lambda asked: asked.answer(200, {"results": [VALID]})) as (url, _):
            async with new_async_client(url) as client:
                outcomes = await asyncio.gather(*(client.verify({"key": key}) for key in "ab"), return_exceptions=True)
                self.assertEqual([str(one) for one in outcomes], ["the answer to a batch is not from keytally"] * 2)
