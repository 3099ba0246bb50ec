"""What all guards decide alike."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

from keytally import types
from keytally._background import call_back
from keytally._client import AsyncClient, Client
from keytally._contract import REFUSALS
from keytally._guard_options import Request, RequestT, check_options, idempotency_key_of, verify_input
from keytally._hold import OnFailure, hold_for
from keytally._kept import AsyncKeptUsage, KeptCall, KeptUsage
from keytally._key import keys_of
from keytally._refusal import Answer, Refusal, RefusalBody, answer_to, rate_limit_headers, reason_of
from keytally._wire import CANCEL
from keytally.errors import NOTHING_TAKEN, OVER_QUOTA, TOO_MANY_FAILURES, KeytallyError, OptionError

OnError = Callable[[Exception, RequestT], object]
MakeBody = Callable[[Refusal, RequestT], RefusalBody]

_logger = logging.getLogger("keytally")
_LOG_EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """What a guard decided. That of a request that passed is kept with the request, under `KEYTALLY`."""

    headers: dict[str, str]
    """For the answer."""
    refusal: Answer | None = None
    """The answer itself, if the request is refused."""
    identity: Any = None
    """Whose request it is."""
    hold: Any = None
    """A `Hold`, an `AsyncHold`, or `None`."""


KEYTALLY = "keytally"


class GuardError(Exception):
    """What `on_error` gets; its cause is the error that it tells of."""


class _Refused(Exception):
    def __init__(
        self, reason: str, limited_by: types.LimitedBy | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self.reason = reason
        self.limited_by = limited_by
        self.headers = headers or {}


class Guard(Generic[RequestT]):
    """Decides whether a request may pass. With a `Client` it waits for no event loop."""

    def __init__(
        self,
        client: Client | AsyncClient,
        *,
        open: KeptUsage | AsyncKeptUsage | None = None,
        on_error: OnError[RequestT] | None = None,
        out_of_credits: int | None = None,
        refusal_body: MakeBody[RequestT] | None = None,
        **given: Any,
    ) -> None:
        check_options(given, out_of_credits, has_open=open is not None)
        self._client = client
        self._given = given
        self._open = open
        self._on_error = on_error or _log_each_second()
        self._out_of_credits = out_of_credits
        self._refusal_body = refusal_body
        self._cancels = threading.Semaphore(client._most_cancels)

    async def decide(self, asked: RequestT, request: Request) -> Outcome:
        """Whether a request may pass; `asked` is what functions of the options get."""
        request_id = _request_id_of(request.headers.get("x-request-id"))
        make = self._refusal_body
        try:
            return await self._pass(asked, request, request_id)
        except _Refused as refused:
            answer = answer_to(
                refused.reason,
                request_id,
                time.time(),
                limited_by=refused.limited_by,
                out_of_credits=self._out_of_credits,
                body_of=make and (lambda refusal: make(refusal, asked)),
            )
            return Outcome(refused.headers, answer)

    async def _pass(self, asked: RequestT, request: Request, request_id: str) -> Outcome:
        keys = keys_of(request.headers.get)
        if len(keys) != 1:
            raise _Refused("TWO_KEYS" if keys else "NO_KEY")
        # No key is longer or has other characters, also none that was imported.
        if not re.fullmatch("[!-~]{1,512}", keys[0]):
            raise _Refused("INVALID")
        # What the caller's own function raises is for the framework's error handler.
        values = {name: value(asked) if callable(value) else value for name, value in self._given.items()}
        for name, value in values.items():
            if inspect.isawaitable(value):
                values[name] = await value
        report = partial(self._report, asked, request_id)
        try:
            given_key = idempotency_key_of(values.get("idempotency_key"))
            call = KeptCall(verify_input(keys[0], values, request), given_key)
        except OptionError as error:
            report(error)
            raise _Refused("FAILED") from None
        try:
            if self._open and self._open.away:
                raise KeytallyError("keytally is unavailable, and no more usage can be kept", status=0)
            answer = await self._verify(call, request_id, report)
        except asyncio.CancelledError:
            # keytally may hold credits, or do so soon, and only its answer would tell the id.
            if "hold" in values:
                self._cancel_later(call, report)
            raise
        except Exception as error:
            return self._unanswered(call, error, report)
        headers = rate_limit_headers(answer.get("rateLimit"), time.time())
        if answer["status"] != "VALID":
            raise _Refused(reason_of(answer), answer.get("limitedBy"), headers)
        hold = None
        if "hold" in self._given:
            hold = hold_for(self._client, answer["hold"]["id"] if "hold" in answer else None, report)
        return Outcome(headers, None, answer, hold)

    async def _verify(self, call: KeptCall, request_id: str, report: OnFailure) -> types.Decision:
        asking = call.send(self._client, {"request_id": request_id})
        if not (call.is_repeatable and "hold" in self._given and isinstance(self._client, AsyncClient)):
            return await asking
        task = self._client._background.begin(asking)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # It may not be cancelled at keytally, and only its answer tells the id of what is held.
            self._client._later(self._release(report, task))
            raise

    async def _release(self, report: OnFailure, asking: asyncio.Task[types.Decision]) -> None:
        try:
            answer = await asking
        except Exception as error:
            return report(error)
        if "hold" in answer:
            await hold_for(self._client, answer["hold"]["id"], report)._settle()

    def _unanswered(self, call: KeptCall, cause: Exception, report: Callable[..., None]) -> Outcome:
        code = cause.code if isinstance(cause, KeytallyError) else 0
        if code == REFUSALS["IDEMPOTENCY_MISMATCH"][0]:
            raise _Refused("IDEMPOTENCY_MISMATCH")
        # The end client did nothing wrong, and must not see the status that the error has for this server.
        if not isinstance(cause, KeytallyError) or not cause.is_away or code == TOO_MANY_FAILURES:
            report(cause)
            raise _Refused("FAILED")
        if self._open and code != OVER_QUOTA and self._open.keep(call, was_answered=code != 0):
            return Outcome({}, None, {"status": "UNDECIDED"})
        if call.sent_at is not None:
            self._cancel_later(call, report)
        report(cause)
        raise _Refused("AWAY")

    def _cancel_later(self, call: KeptCall, report: Callable[..., None]) -> None:
        """The end client has left, or is answered that nothing was decided, and shall not pay for it."""
        # A key that the options give is for repeating the request: cancelled, that would be refused.
        if not call.is_repeatable and self._cancels.acquire(blocking=False):
            self._client._later(self._cancel(call, report))

    async def _cancel(self, call: KeptCall, report: Callable[..., None]) -> None:
        try:
            await self._client._operate(CANCEL, {"key": call.input["key"], "idempotencyKey": call.idempotency_key}, {})
        except Exception as error:
            if not (isinstance(error, KeytallyError) and error.code == NOTHING_TAKEN):
                report(error, "not cancelled: ")
        finally:
            self._cancels.release()

    def _report(self, asked: RequestT, request_id: str, cause: Exception, what: str = "") -> None:
        error = GuardError(f"keytally guard, request {request_id}: {what}{_describe(cause)}")
        error.__cause__ = cause
        call_back("on_error", self._on_error, error, asked)


def _outcome_of(request: Any, caller: str) -> Outcome:
    """What a guard knows of a request: of ASGI's scope, WSGI's environ, or a framework's request that has one of them."""
    raw = request
    for name in ("scope", "environ", "raw"):
        if not isinstance(raw, dict):
            raw = getattr(request, name, raw)
    outcome = raw.get(KEYTALLY) if isinstance(raw, dict) else None
    if not isinstance(outcome, Outcome):
        raise RuntimeError(f"{caller}(): no keytally guard ran before this handler")
    return outcome


def identity_of(request: Any) -> types.Identity:
    """Whose request it is, for a handler behind a guard. It takes the framework's request, ASGI's scope or WSGI's environ."""
    identity: types.Identity = _outcome_of(request, "identity_of").identity
    return identity


def hold_of(request: Any, caller: str) -> Any:
    hold = _outcome_of(request, caller).hold
    if hold is None:
        raise RuntimeError(f"{caller}(): no keytally guard with a hold ran before this handler")
    return hold


def capture_at_end(request: Any, cost: Callable[[], str]) -> None:
    """
    Captures once the answer has ended, also because the end client went away: for streams, whose cost grows until then. `cost` is
    called then; a cost of 0 releases. Should it fail, or the capture, `on_error` hears of it, and the hold ends by itself.
    """
    hold_of(request, "capture_at_end").cost_at_end = cost


def _describe(cause: Exception) -> str:
    if not isinstance(cause, KeytallyError):
        return str(cause)
    details = "".join(f" ({one['path']} {one['message']})" for one in cause.details)
    return f"{f'keytally answered {cause.code}: ' if cause.code else ''}{cause.message}{details}"


def _log_each_second() -> Callable[[Exception, object], None]:
    """A wrong token fails every request: one line a second says it."""
    next_at = 0.0

    def log(error: Exception, _: object) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + _LOG_EVERY_SECONDS
            _logger.error("%s", error)

    return log


def _request_id_of(given: str | None) -> str:
    return given if given and re.fullmatch("[!-~]{1,128}", given) else str(uuid.uuid4())
