"""How calls of `verify` leave: alone, or gathered in batches."""

from __future__ import annotations

import asyncio
import math
import unittest
from typing import Any

from stack import (
    VALID,
    as_valid,
    eventually,
    hold_up,
    new_async_client,
    new_client,
    serving,
)

from keytally import KeytallyError


class OneTurn(unittest.IsolatedAsyncioTestCase):
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

    async def test_a_timeout_that_is_none_is_named_and_fails_its_call_alone(self) -> None:
        with serving(as_valid) as (url, asked):
            async with new_async_client(url) as client:
                wrong: list[Any] = [math.inf, math.nan, 0, None, "1"]
                calls = [client.verify({"key": "a"}, timeout=seconds) for seconds in [1e308, *wrong]]
                first, *errors = await asyncio.gather(*calls, return_exceptions=True)
                self.assertEqual((first, [one.keys for one in asked]), (VALID, [["a"]]))
                for error in errors:
                    self.assertRegex(repr(error), r"ValueError\(.timeout is \w+; it must be a number of seconds")
        for option in ["timeout", "verify_timeout"]:
            given: dict[str, Any] = {option: math.nan}
            with self.assertRaisesRegex(ValueError, f"{option} is nan"):
                new_client(**given)

    async def test_an_input_that_cannot_be_sent_is_an_error_of_its_call_alone(self) -> None:
        with serving(as_valid) as (url, asked):
            async with new_async_client(url) as client:
                keys: list[Any] = ["a", "\ud800", math.nan, "b"]
                calls = (client.verify({"key": key}) for key in keys)
                a, *wrong, b = await asyncio.gather(*calls, return_exceptions=True)
                self.assertEqual((a, b, [type(one) for one in wrong]), (VALID, VALID, [UnicodeEncodeError, ValueError]))
                self.assertEqual([one.keys for one in asked], [["a", "b"]])
