from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from keytally import types
from keytally._contract import REFUSALS
from keytally._wire import to_json

_RETRY_SECONDS = 1
# Credits need a refill by a person, which takes longer.
_USAGE_RETRY_SECONDS = 60
# Waiting alone ends none of these: they have 429 only for who asks for it.
_LASTING = {"CREDITS_USED_UP", "SPEND_CAP_REACHED", "NO_BILLING_RECORD", "COST_ABOVE_LIMIT"}


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused, for a body of your own."""

    status: int
    code: int
    """Of keytally's catalogue of errors."""
    reason: str
    """For programs."""
    message: str
    request_id: str
    retry_after: int | None
    """After how many seconds to come again; `None` where that would not help."""
    limited_by: types.LimitedBy | None
    """The limit that refused it."""


class RefusalBody(NamedTuple):
    """A body, and its `Content-Type`."""

    type: str
    body: bytes


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def answer_to(
    reason: str,
    request_id: str,
    now: float,
    *,
    limited_by: types.LimitedBy | None = None,
    out_of_credits: int | None = None,
    body_of: Callable[[Refusal], RefusalBody] | None = None,
) -> Answer:
    """The answer to a refused request, in the envelope of errors or the body that `body_of` makes."""
    name = "USAGE_LIMITED" if out_of_credits and reason in _LASTING else reason
    code, message = REFUSALS[name]
    status = code // 100
    if limited_by:
        message = f"{message} Limit: {limited_by['name']}."
    retry_after = _seconds_until(limited_by, name, now) if status in (429, 503) else None
    refusal = Refusal(status, code, reason, message, request_id, retry_after, limited_by)
    type, body = (body_of or _envelope)(refusal)
    headers = {"Content-Type": type, "X-Request-Id": request_id}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return Answer(status, headers, body)


def _seconds_until(limited_by: types.LimitedBy | None, name: str, now: float) -> int:
    if limited_by and "retryAt" in limited_by:
        return max(1, math.ceil(limited_by["retryAt"] / 1000 - now))
    return _USAGE_RETRY_SECONDS if name == "USAGE_LIMITED" else _RETRY_SECONDS


def _envelope(refusal: Refusal) -> RefusalBody:
    told = {"code": refusal.code, "message": refusal.message, **_told(refusal)}
    return RefusalBody("application/json", to_json({"error": told}).encode())


def problem_json(refusal: Refusal, request: object = None) -> RefusalBody:
    """Problem details (RFC 9457), for the option `refusal_body`."""
    told = {"status": refusal.status, "title": refusal.message, "code": refusal.code, **_told(refusal)}
    return RefusalBody("application/problem+json", to_json(told).encode())


def _told(refusal: Refusal) -> dict[str, Any]:
    told = {"requestId": refusal.request_id, "reason": refusal.reason}
    return {**told, "limit": refusal.limited_by["name"]} if refusal.limited_by else told


def reason_of(decision: types.Decision) -> str:
    """The reason to refuse a request whose key is not valid."""
    status, reason, limited_by = decision["status"], decision.get("reason", ""), decision.get("limitedBy")
    if status == "RATE_LIMITED" and limited_by and limited_by["name"] != "rateLimitPerSecond":
        return "REQUESTS_USED_UP"
    if reason == "LIMIT_REACHED" and limited_by and "retryAt" not in limited_by:
        return "COST_ABOVE_LIMIT"
    return next((name for name in (reason, status) if name in REFUSALS), "FAILED")


def rate_limit_headers(rate_limit: types.DecisionRateLimit | None, now: float) -> dict[str, str]:
    """`RateLimit` and `RateLimit-Policy` of the current IETF draft, and the three older headers (the reset in Unix seconds)."""
    if not rate_limit:
        return {}
    remaining, reset = rate_limit["remaining"], rate_limit["resetAt"] / 1000
    return {
        "RateLimit": f'"key";r={remaining};t={max(0, math.ceil(reset - now))}',
        "RateLimit-Policy": f'"key";q={rate_limit["limit"]};w={rate_limit["windowSeconds"]}',
        "X-RateLimit-Limit": str(rate_limit["limit"]),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(math.ceil(reset)),
    }
