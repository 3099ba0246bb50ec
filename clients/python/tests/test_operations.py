from __future__ import annotations

import asyncio
import subprocess
import sys
import unittest
import uuid
from typing import Any

from stack import (
    VALID,
    WORKSPACE,
    Asked,
    as_valid,
    new_async_client,
    new_client,
    serving,
)

from keytally import KeytallyError, each, each_async

# A process that forks after its client has a connection, and ends as its child does.
FORKING = """
import os, sys
from keytally import Client, KeptUsage, _kept

_kept._PAUSE = 3600
client = Client(url=sys.argv[1], token="t", verify_timeout=20)
kept = KeptUsage(client, on_lost=print)
kept.keep(_kept.KeptCall({"key": "kept"}, "a"))
client.verify({"key": "of the parent"})
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
client.verify({"key": "of the child"})
sys.exit(kept.size)
"""


class Operations(unittest.TestCase):
    def test_operations_take_and_answer_what_the_api_does(self) -> None:
        with new_client() as client:
            workspace = client.workspaces.create({"name": "python ✓"})["workspace"]
            id = workspace["id"]
            key = client.api_keys.create({"name": "a b", "workspaceId": workspace["id"], "customerId": "cus"})["apiKey"]
            update = client.api_keys.update({"id": id, "akid": key["id"], "expiresAt": None, "enabled": False})
            self.assertFalse(update["apiKey"]["enabled"])
            self.assertEqual(client.workspaces.get({"id": id})["workspace"]["name"], "python ✓")
            self.assertEqual(client.verify({"key": key["key"]})["status"], "DISABLED")
            client.api_keys.delete({"id": id, "akid": key["id"]})
            self.assertEqual(client.verify({"key": key["key"]})["status"], "DELETED")

    def test_each_fetches_every_page_of_a_list(self) -> None:
        client = new_client()
        id = client.workspaces.create({"name": "pages"})["workspace"]["id"]
        names = [f"key {i}" for i in range(5)]
        for name in names:
            client.api_keys.create({"name": name, "workspaceId": id})
        found = [key["name"] for key in each(client.api_keys.list, {"id": id, "limit": 2})]
        self.assertEqual(sorted(found), names)

        async def find() -> list[str]:
            async with new_async_client() as client:
                return [key["name"] async for key in each_async(client.api_keys.list, {"id": id, "limit": 2})]

        self.assertEqual(sorted(asyncio.run(find())), names)

    def test_csv_is_text(self) -> None:
        client = new_client()
        meter = str(uuid.uuid4())
        bill = client.billing.create({"workspaceId": WORKSPACE, "externalMeterId": meter})["billing"]["id"]
        text = client.usage.csv({"bid": bill, "from": "2026-11-01"})
        self.assertTrue(text.startswith("billingId,day,"), text)

    def test_an_error_has_its_code_details_and_request_id(self) -> None:
        wrong: Any = {"name": "k", "workspaceId": WORKSPACE, "enabeld": True}
        with self.assertRaises(KeytallyError) as caught:
            new_client().api_keys.create(wrong, request_id="req-3")
        error = caught.exception
        self.assertEqual((error.status, error.code, error.request_id, error.is_away), (400, 40001, "req-3", False))
        self.assertIn("enabeld", str(error.details))

    def test_a_child_process_has_connections_and_kept_usage_of_its_own(self) -> None:
        with serving(as_valid) as (url, asked):
            self.assertEqual(subprocess.run([sys.executable, "-c", FORKING, url]).returncode, 0)
            self.assertEqual([one.keys for one in asked], [["of the parent"], ["of the child"]])
            self.assertNotEqual(asked[0].peer, asked[1].peer)

    def test_a_header_that_no_request_may_have_is_refused_at_once(self) -> None:
        with self.assertRaisesRegex(ValueError, "X-Request-Id"):
            new_client().verify({"key": "k"}, request_id="a\nb")


class OtherServers(unittest.IsolatedAsyncioTestCase):
    async def test_an_answer_that_comes_in_parts_must_be_whole_in_time(self) -> None:
        def decide(asked: Asked) -> None:
            # It takes three seconds.
            asked.part_seconds = 0.1
            as_valid(asked)
            asked.answer(200, '{"status": "VALID"}' + " " * 11)

        with serving(decide) as (url, _), new_client(url) as client:
            self.assertEqual(client.verify({"key": "k"}), VALID)
            with self.assertRaisesRegex(KeytallyError, "in time"):
                client.verify({"key": "k"}, timeout=1)
            with self.assertRaisesRegex(KeytallyError, "in time"):
                client.holds.release({"holdId": "h"}, timeout=1)
            async with new_async_client(url) as async_client:
                with self.assertRaisesRegex(KeytallyError, "in time"):
                    await async_client.verify({"key": "k"}, timeout=1)

    async def test_details_that_are_not_as_keytally_writes_them_are_left_out(self) -> None:
        right = [{"path": "key", "message": "is wrong"}]
        cases: list[tuple[Any, Any]] = [(None, []), ("name", []), ([None], []), ([{"path": 1, "message": "m"}], [])]
        answers = [*cases, (right, right)]

        def decide(asked: Asked) -> None:
            asked.answer(400, {"error": {"code": 40001, "message": "m", "details": answers[0][0]}})

        with serving(decide) as (url, _), new_client(url) as client:
            while answers:
                with self.assertRaises(KeytallyError) as raised:
                    client.verify({"key": "k"})
                self.assertEqual(raised.exception.details, answers.pop(0)[1])

    async def test_an_on_retry_that_raises_ends_no_call(self) -> None:
        statuses = [503, 503, 200, 200]

        def on_retry(_: object) -> None:
            raise RuntimeError("on_retry is wrong")

        with serving(lambda asked: asked.answer(statuses.pop(0), VALID)) as (url, _):
            with new_client(url, on_retry=on_retry) as client, self.assertLogs("keytally", "ERROR") as logs:
                self.assertEqual(client.verify({"key": "k"}), VALID)
            self.assertEqual([one.getMessage() for one in logs.records], ["on_retry failed"] * 2)
