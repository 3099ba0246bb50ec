"""Requests and answers, whichever way they are sent."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from keytally._callback import call_back
from keytally.errors import Detail, KeytallyError

VERIFY_PATH = "/api/v1/api-key/verify"
BATCH_PATH = f"{VERIFY_PATH}/batch"
VERIFY_BATCH = f"post {BATCH_PATH}"
CANCEL = f"post {VERIFY_PATH}/cancel"
OF_VERIFY = frozenset({CANCEL, *(f"post /api/v1/usage/{what}" for what in ("capture", "release", "extend"))})
"""Operations that verify serves, too. Each may be repeated: a hold's id, or the Idempotency-Key that is cancelled, is its key."""

JSON_TYPE = "application/json"

# The most connections that a client keeps to a server, and for how long. Servers close idle ones after 75 s.
MOST_CONNECTIONS = 256
KEEP_SECONDS = 60.0

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
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


def checked_header(name: str, value: str) -> str:
    if re.fullmatch(r"[ -~]{1,255}", value):
        return value
    raise ValueError(f"{name} is not text that a header can hold: {value[:100]!r}")


def result_of(request: Outgoing, answer: Answer) -> Any:
    """What an answer says; raises the error that it is, also where something other than keytally answered."""
    if not 200 <= answer.status <= 299:
        raise _error_of(answer)
    if request.headers["Accept"] != JSON_TYPE:
        return answer.text
    try:
        told = json.loads(answer.text)
    except (ValueError, RecursionError):
        raise _foreign(request, answer) from None
    # What decides nothing must let nobody pass.
    is_right = {VERIFY_PATH: _is_decision, BATCH_PATH: _is_batch}.get(request.path, lambda _: True)
    if not is_right(told):
        raise _foreign(request, answer)
    return told


def results_of(request: Outgoing, answer: Answer, count: int) -> list[Any]:
    """The answers of a batch, in order: each a decision, or the error that the verification had alone."""
    results = result_of(request, answer)["results"]
    if len(results) != count:
        raise _foreign(request, answer)
    request_id = answer.headers.get("x-request-id")
    return [_error_in_batch(one["error"], request_id) if _error_code(one) else one for one in results]


def unanswered(url: str, *, is_late: bool) -> KeytallyError:
    """The error of a request without an answer."""
    if is_late:
        return KeytallyError("keytally did not answer in time", status=0)
    server = urlsplit(url)
    return KeytallyError(f"keytally cannot be reached at {server.scheme}://{server.netloc}", status=0)


class Retry:
    """Divides the time of a call into attempts."""

    def __init__(self, seconds: float, on_retry: Callable[[KeytallyError], None]) -> None:
        self._until = time.monotonic() + seconds
        self._on_retry = on_retry
        self._attempts = 0
        self._answer: KeytallyError | None = None
        self._may_be_debited = False

    def attempt_seconds(self) -> float:
        # Half of the time left: if this answer is lost, another attempt still has time.
        return max(0.001, (self._until - time.monotonic()) / 2)

    def pause_after(self, error: KeytallyError) -> float:
        """How many seconds to wait before the next attempt; raises the error where that does not help."""
        self._may_be_debited = self._may_be_debited or error.may_be_debited
        if not error.is_passing:
            raise self._told(error)
        self._answer = error if error.code else self._answer
        backoff = min(_FIRST_PAUSE * 2.0**self._attempts, _LONGEST_PAUSE) * (0.5 + random.random() / 2)
        pause = max(backoff, error.retry_after or 0)
        if time.monotonic() + pause >= self._until:
            # The last attempts are short: what keytally itself answered before says more than that they got no answer.
            raise self._told(self._answer or error)
        self._attempts += 1
        call_back("on_retry", self._on_retry, error)
        return pause

    def _told(self, error: KeytallyError) -> KeytallyError:
        """The calls of a batch that fails have one error: what is known of one call is told by a copy."""
        if error.may_be_debited == self._may_be_debited:
            return error
        told = KeytallyError(
            error.message,
            status=error.status,
            code=error.code,
            request_id=error.request_id,
            details=error.details,
            retry_after=error.retry_after,
        )
        told.may_be_debited = self._may_be_debited
        told.__cause__ = error
        return told


def _is_decision(told: Any) -> bool:
    return isinstance(told, dict) and isinstance(told.get("status"), str)


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


def _is_batch(told: Any) -> bool:
    results = told.get("results") if isinstance(told, dict) else None
    return isinstance(results, list) and all(_error_code(one) or _is_decision(one) for one in results)


def _foreign(request: Outgoing, answer: Answer) -> KeytallyError:
    is_batch = request.path == BATCH_PATH
    message = "the answer to a batch is not from keytally" if is_batch else _foreign_message(answer.status)
    return KeytallyError(message, status=answer.status)


def _foreign_message(status: int) -> str:
    return f"HTTP {status}, but the answer is not from keytally; check the address"


def _error_of(answer: Answer) -> KeytallyError:
    try:
        told = json.loads(answer.text)
    except (ValueError, RecursionError):
        told = None
    retry_after = None
    for name, unit in (("retry-after", 1.0), ("retry-after-ms", 0.001)):
        if re.fullmatch(r"[0-9]{1,9}", answer.headers.get(name, "")):
            retry_after = int(answer.headers[name]) * unit
    fields: dict[str, Any] = {
        "status": answer.status,
        "request_id": answer.headers.get("x-request-id"),
        "retry_after": retry_after,
    }
    code = _error_code(told)
    if code // 100 != answer.status:
        return KeytallyError(_foreign_message(answer.status), **fields)
    error = told["error"]
    return KeytallyError(str(error.get("message")), code=code, details=_details_of(error), **fields)


def _error_in_batch(error: dict[str, Any], request_id: str | None) -> KeytallyError:
    status = error["code"] // 100
    return KeytallyError(
        str(error.get("message")),
        status=status,
        code=error["code"],
        request_id=request_id,
        details=_details_of(error),
        retry_after=_RETRY_AFTER.get(status),
    )


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
