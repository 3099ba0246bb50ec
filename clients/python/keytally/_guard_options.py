"""The options of a guard, and what they make of a request."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from typing_extensions import NotRequired, TypedDict

from keytally import types
from keytally._refusal import Refusal, RefusalBody
from keytally._request import Request
from keytally.errors import OptionError

RequestT = TypeVar("RequestT")
KeptT = TypeVar("KeptT")
Value = TypeVar("Value")


class Cost(TypedDict):
    """What a request costs, as decimal text, and the name under which its usage is counted."""

    usage: str
    usageName: NotRequired[str]


class HoldOptions(TypedDict):
    """For how many seconds the cost is held, and what becomes of it where nobody captures it in time."""

    expiresIn: int
    onExpiry: NotRequired[Literal["release", "charge"]]


# What an option is for every request, or a function that gives it.
Given: TypeAlias = Value | Callable[[RequestT], Value | Awaitable[Value]]


class GuardOptions(TypedDict, Generic[RequestT, KeptT], total=False):
    """What each means says `keytally.asgi.KeytallyMiddleware`. A function for threads must not wait for an event loop."""

    cost: Given[str | Cost, RequestT]
    hold: Given[HoldOptions, RequestT]
    scopes: Given[Sequence[types.WantedScope], RequestT]
    route: Given[str, RequestT]
    ip: Given[str | None, RequestT]
    idempotency_key: Callable[[RequestT], str | Awaitable[str | None] | None]
    out_of_credits: Literal[429] | None
    refusal_body: Callable[[Refusal, RequestT], RefusalBody] | None
    open: KeptT | None
    on_error: Callable[[Exception, RequestT], object] | None


_LONGEST_ROUTE = 1024
_MOST_CREDITS = 9_000_000_000
_MOST_SECONDS = 86_400


def check_options(given: dict[str, Any], out_of_credits: int | None, *, has_open: bool) -> None:
    """Raises an error where an option does not exist, or is wrong and not a function: a program with one does not start."""
    for name, value in given.items():
        if name not in _checks:
            raise TypeError(f"{name} is not an option of a guard")
        # One that is there but None, such as an unset environment variable, must not mean "free" or "no scope".
        if not callable(value):
            _checks[name](value)
    if "hold" in given and has_open:
        raise OptionError("hold is there beside open, which keeps costs that were not held")
    if out_of_credits not in (None, 429):
        raise OptionError(f"out_of_credits is {_shown(out_of_credits)}; it must be 429, or left out for 402 and 403")


def verify_input(key: str, values: dict[str, Any], request: Request) -> types.VerifyKeyInput:
    """What keytally is asked to verify for a request. Raises an `OptionError` when a function gave something wrong."""
    billing: dict[str, Any] = {**_cost_of(values.get("cost", "0"))}
    if "hold" in values:
        billing["hold"] = _hold_of(values["hold"])
    input: dict[str, Any] = {
        "key": key,
        "billing": billing,
        "route": _route_of(values.get("route", f"{request.method} {request.raw_path}")),
        "ip": _address_of(values.get("ip", request.ip)),
    }
    if "scopes" in values:
        input["requestedScopes"] = _scopes_of(values["scopes"])
    return cast(types.VerifyKeyInput, input)


def _cost_of(cost: object) -> Cost:
    given = cost if isinstance(cost, dict) else {"usage": cost}
    usage = given.get("usage")
    is_right = isinstance(usage, str) and re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", usage)
    if not is_right or float(str(usage)) > _MOST_CREDITS:
        raise OptionError(f'cost is {_shown(usage)}; it must be decimal text such as "1" or "0.25"')
    return cast(Cost, given)


def _hold_of(hold: object) -> HoldOptions:
    seconds = hold.get("expiresIn") if isinstance(hold, dict) else hold
    if isinstance(hold, dict) and type(seconds) is int and 1 <= seconds <= _MOST_SECONDS:
        return cast(HoldOptions, hold)
    expected = f'{{"expiresIn": seconds}}, a whole number from 1 to {_MOST_SECONDS}'
    raise OptionError(f"hold is {_shown(hold)}; it must be {expected}")


def _scopes_of(scopes: object) -> list[types.WantedScope]:
    if isinstance(scopes, (list, tuple)):
        return list(scopes)
    example = '[{"representation": "documents", "read": True}]'
    raise OptionError(f"scopes is {_shown(scopes)}; it must be a list such as {example}")


def _must_be_function(given: object) -> None:
    raise OptionError(f"idempotency_key is {_shown(given)}; it must be a function of the request")


def idempotency_key_of(given: object) -> str:
    """The Idempotency-Key of a request. Raises an `OptionError` when the function gave something wrong."""
    if given is None:
        return str(uuid.uuid4())
    if isinstance(given, str) and re.fullmatch("[!-~]{1,255}", given):
        return given
    raise OptionError(f"idempotency_key is {_shown(given)}; it must be 1 to 255 visible ASCII characters")


def _route_of(route: object) -> str:
    if not isinstance(route, str):
        raise OptionError(f"route is {_shown(route)}; it must be text")
    printable = re.sub("[^ -~]", "?", route)
    if len(printable) <= _LONGEST_ROUTE:
        return printable
    # Cut at a "/": keytally hides a secret that is whole, and could not know half of one.
    return printable[: printable.rfind("/", 0, _LONGEST_ROUTE) + 1 or _LONGEST_ROUTE]


def _address_of(text: object) -> str:
    """
    An address that keytally accepts. Where there is none, or a header holds something else, it is 0.0.0.0, which only a list that
    allows every address contains. If it were left out, keytally would check this server's own address.
    """
    if not isinstance(text, str) or "%" in text:
        return "0.0.0.0"
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return "0.0.0.0"
    return text


def _shown(value: object) -> str:
    return f'"{value[:100]}"' if isinstance(value, str) else f"{str(value)[:100]} ({type(value).__name__})"


_checks: dict[str, Callable[[object], object]] = {
    "cost": _cost_of,
    "hold": _hold_of,
    "scopes": _scopes_of,
    "route": _route_of,
    "ip": lambda _: None,
    "idempotency_key": _must_be_function,
}
