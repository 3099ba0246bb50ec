"""Requests and answers, whichever way they are sent."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from keytally._options import CallOptions
from keytally.errors import Detail, KeytallyError

VERIFY_PATH = "/api/v1/api-key/verify"
BATCH_PATH = f"{VERIFY_PATH}/batch"
VERIFY = f"post {VERIFY_PATH}"
VERIFY_BATCH = f"post {BATCH_PATH}"
CANCEL = f"post {VERIFY_PATH}/cancel"
CAPTURE, RELEASE, EXTEND = (f"post /api/v1/usage/{what}" for what in ("capture", "release", "extend"))
OF_VERIFY = frozenset({VERIFY_BATCH, CANCEL, CAPTURE, RELEASE, EXTEND})
"""
Operations that verify serves, too. Each may be repeated: a hold's id, the Idempotency-Key that is cancelled, or that of each
verification is its key.
"""

JSON_TYPE = "application/json"

# What keytally says with each 429 and 503 of a verification.
_RETRY_AFTER = {429: 1.0, 503: 0.05}


class Outgoing(NamedTuple):
    """A request as it is sent; the address of its server comes before `path`."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None


class Answer(NamedTuple):
    """An answer as it came. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


def to_json(value: object) -> str:
    # NaN is no JSON, whatever Python reads as such: it would fail the batch of others.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def headers_of(token: str, accept: str, has_body: bool) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {token}", "Accept": accept}
    if has_body:
        headers["Content-Type"] = JSON_TYPE
    return headers


def request_of(operation: str, input: Mapping[str, Any] | None, token: str) -> Outgoing:
    """The request of an operation: inputs named in the path's braces go into the path, the rest into the query or the body."""
    verb, path, *other = operation.split(" ")
    accept = other[1] if other else JSON_TYPE
    rest = dict(input or {})

    def fill(match: re.Match[str]) -> str:
        value = rest.pop(match[1], None)
        # "." and ".." would change the path.
        if not isinstance(value, str) or value in ("", ".", ".."):
            raise ValueError(f"{match[1]} is missing or not an id")
        return quote(value, safe="")

    path = re.sub(r"\{(\w+)\}", fill, path)
    method = verb.upper()
    body = None
    if method == "GET":
        query = {name: _query_text(value) for name, value in rest.items() if value is not None}
        path += f"?{urlencode(query)}" if query else ""
    elif rest:
        body = to_json(rest).encode()
    return Outgoing(method, path, headers_of(token, accept, body is not None), body)


def call_headers(options: CallOptions) -> dict[str, str]:
    """The headers that a call has of its own, the same each time that it is sent."""
    headers = {"Idempotency-Key": options.get("idempotency_key", str(uuid.uuid4()))}
    if "request_id" in options:
        headers["X-Request-Id"] = options["request_id"]
    for name, value in headers.items():
        if not re.fullmatch("[!-~]{1,255}", value):
            raise ValueError(f"{name} is {value[:100]!r}; it must be 1 to 255 visible ASCII characters")
    return headers


def result_of(request: Outgoing, answer: Answer) -> Any:
    """What an answer says; raises the error that it is, also where something other than keytally answered."""
    if not 200 <= answer.status <= 299:
        raise _error_of(answer)
    if request.headers["Accept"] != JSON_TYPE:
        return answer.text
    told = _parsed(answer.text)
    if told is None:
        raise _error_of(answer)
    return told


def results_of(request: Outgoing, answer: Answer, count: int) -> list[Any]:
    """
    What so many verifications of a request are answered, in order: each a decision, or the error that it had alone. What has no status
    decides nothing, and must let nobody pass.
    """
    told = result_of(request, answer)
    is_batch = count > 1
    results = (told.get("results") if isinstance(told, dict) else None) if is_batch else [told]
    if not isinstance(results, list) or len(results) != count:
        raise _error_of(answer)
    outcomes: list[Any] = []
    for one in results:
        if is_batch and _error_code(one):
            outcomes.append(_error_in_batch(one["error"], answer))
        elif isinstance(one, dict) and isinstance(one.get("status"), str):
            outcomes.append(one)
        else:
            raise _error_of(answer)
    return outcomes


def unanswered(url: str, *, is_late: bool) -> KeytallyError:
    """The error of a request without an answer."""
    if is_late:
        return KeytallyError("keytally did not answer in time", status=0)
    server = urlsplit(url)
    return KeytallyError(f"keytally cannot be reached at {server.scheme}://{server.netloc}", status=0)


def _error_code(told: Any) -> int:
    """The code of an error of keytally, which begins with its HTTP status; 0 if it is none."""
    error = told.get("error") if isinstance(told, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int and 400 <= code // 100 <= 599 else 0


def _details_of(error: dict[str, Any]) -> list[Detail]:
    # What answers in the place of keytally may have others.
    details = error.get("details")
    return details if isinstance(details, list) and all(map(_is_detail, details)) else []


def _is_detail(one: Any) -> bool:
    return isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("path", "message"))


def _parsed(text: str) -> Any:
    """What JSON says; `None` where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error_of(answer: Answer) -> KeytallyError:
    """The error of an answer that is not a success, or is not from keytally."""
    retry_after = None
    for name, unit in (("retry-after", 1.0), ("retry-after-ms", 0.001)):
        if re.fullmatch(r"[0-9]{1,9}", answer.headers.get(name, "")):
            retry_after = int(answer.headers[name]) * unit
    told = _parsed(answer.text)
    is_ours = _error_code(told) // 100 == answer.status
    foreign = {"message": f"HTTP {answer.status}, but the answer is not from keytally; check the address"}
    return _told_error(told["error"] if is_ours else foreign, answer.status, answer, retry_after)


def _error_in_batch(error: dict[str, Any], answer: Answer) -> KeytallyError:
    status = error["code"] // 100
    return _told_error(error, status, answer, _RETRY_AFTER.get(status))


def _told_error(error: dict[str, Any], status: int, answer: Answer, retry_after: float | None) -> KeytallyError:
    return KeytallyError(
        str(error.get("message")),
        status=status,
        code=error.get("code", 0),
        request_id=answer.headers.get("x-request-id"),
        details=_details_of(error),
        retry_after=retry_after,
    )


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
