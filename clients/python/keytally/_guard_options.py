"""The options of a guard, and what they make of a request."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl

from typing_extensions import NotRequired, TypedDict

from keytally import types
from keytally._refusal import Refusal, RefusalBody
from keytally.errors import OptionError

RequestT = TypeVar("RequestT")
KeptT = TypeVar("KeptT")
Value = TypeVar("Value")


@dataclass(eq=False)
class Request:
    """A request as the functions of a guard's options see it."""

    method: str
    path: str
    """The whole path, decoded."""
    raw_path: str
    """The path as it was sent, which is what the usage is recorded under."""
    query_string: str
    headers: Mapping[str, str]
    """By names in lower case. One that was sent more than once is joined, so that it cannot be one key."""
    ip: str | None
    """The address of the other end; behind a proxy that you trust, its server must be told so."""
    raw: Mapping[str, Any]
    """ASGI's scope, or WSGI's environ."""

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters of the query; of one that was sent more than once, the last."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))


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


_NAMES = {"cost", "hold", "scopes", "route", "ip", "idempotency_key"}
_LONGEST_ROUTE = 1024
_MOST_CREDITS = 9_000_000_000


def check_options(given: dict[str, Any], out_of_credits: int | None, *, has_open: bool) -> None:
    """Raises an error where a program would give away what it sells, as with `cots`, which would be free: it does not start."""
    for name in given.keys() - _NAMES:
        raise TypeError(f"{name} is not an option of a guard")
    # One that is there but None, such as an unset environment variable, must not mean "free".
    if not callable(given.get("cost", "0")):
        _cost_of(given.get("cost", "0"))
    key = given.get("idempotency_key")
    if key is not None and not callable(key):
        raise OptionError(f"idempotency_key is {_shown(key)}; it must be a function of the request")
    if "hold" in given and has_open:
        raise OptionError("hold is there beside open, which keeps costs that were not held")
    if out_of_credits not in (None, 429):
        raise OptionError(f"out_of_credits is {_shown(out_of_credits)}; it must be 429, or left out for 402 and 403")


def verify_input(key: str, values: dict[str, Any], request: Request) -> types.VerifyKeyInput:
    """What keytally is asked to verify for a request. Raises an `OptionError` when a function gave a wrong cost."""
    # A None that was given is sent, and refused by keytally: it must not mean "no scope" or "no hold".
    hold = {"hold": values["hold"]} if "hold" in values else {}
    scopes = {"requestedScopes": values["scopes"]} if "scopes" in values else {}
    input = {
        "key": key,
        "billing": {**_cost_of(values.get("cost", "0")), **hold},
        "route": _route_of(values.get("route", f"{request.method} {request.raw_path}")),
        "ip": _address_of(values.get("ip", request.ip)),
        **scopes,
    }
    return cast(types.VerifyKeyInput, input)


def _cost_of(cost: object) -> Cost:
    given = cost if isinstance(cost, dict) else {"usage": cost}
    usage = given.get("usage")
    is_right = isinstance(usage, str) and re.fullmatch(r"[0-9]{1,10}(\.[0-9]{1,6})?", usage)
    if not is_right or float(str(usage)) > _MOST_CREDITS:
        raise OptionError(f'cost is {_shown(usage)}; it must be decimal text such as "1" or "0.25"')
    return cast(Cost, given)


def idempotency_key_of(given: object) -> str | None:
    """The Idempotency-Key that the options give a request; `None`: a new one. Raises an `OptionError` for a wrong one."""
    if given is None or (isinstance(given, str) and re.fullmatch("[!-~]{1,255}", given)):
        return given
    raise OptionError(f"idempotency_key is {_shown(given)}; it must be 1 to 255 visible ASCII characters")


def _route_of(route: str) -> str:
    printable = re.sub("[^ -~]", "?", route)
    if len(printable) <= _LONGEST_ROUTE:
        return printable
    # Cut at a "/": keytally hides a secret that is whole, and could not know half of one.
    return printable[: printable.rfind("/", 0, _LONGEST_ROUTE) + 1 or _LONGEST_ROUTE]


def _address_of(text: str | None) -> str:
    """
    An address that keytally accepts. Where there is none, or a header holds something else, it is 0.0.0.0, which only a list that
    allows every address contains. If it were left out, keytally would check this server's own address.
    """
    with suppress(ValueError):
        # One of an interface alone ("fe80::1%eth0") is none for keytally.
        if text and "%" not in text:
            return str(ipaddress.ip_address(text))
    return "0.0.0.0"


def _shown(value: object) -> str:
    return f'"{value[:100]}"' if isinstance(value, str) else f"{str(value)[:100]} ({type(value).__name__})"
