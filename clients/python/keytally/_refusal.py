from __future__ import annotations

import math
from typing import Any, NamedTuple

from keytally._contract import REFUSALS
from keytally._wire import to_json

# The rate limit is whole again after a second. Credits need a refill by a person, which takes longer.
_RETRY_SECONDS = 1
_USAGE_RETRY_SECONDS = 60


class Refusal(NamedTuple):
    """The answer to a refused request: an error envelope, with the headers that belong to its status."""

    status: int
    headers: dict[str, str]
    body: bytes


def refusal_of(reason: str, request_id: str) -> Refusal:
    code, message = REFUSALS[reason]
    status = code // 100
    headers = {"Content-Type": "application/json", "X-Request-Id": request_id}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503):
        headers["Retry-After"] = str(_USAGE_RETRY_SECONDS if reason == "USAGE_LIMITED" else _RETRY_SECONDS)
    error = {"code": code, "message": message, "requestId": request_id}
    return Refusal(status, headers, to_json({"error": error}).encode())


def rate_limit_headers(rate_limit: dict[str, Any] | None, now: float) -> dict[str, str]:
    """`RateLimit` of the current IETF draft, and the two older headers (the reset in Unix seconds)."""
    if not rate_limit:
        return {}
    remaining, reset = rate_limit["remaining"], rate_limit["resetAt"] / 1000
    return {
        "RateLimit": f'"key";r={remaining};t={max(0, math.ceil(reset - now))}',
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(math.ceil(reset)),
    }
