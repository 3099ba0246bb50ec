from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl


class Request:
    """A request as the functions of a guard's options see it."""

    def __init__(
        self,
        *,
        method: str,
        path: str,
        raw_path: str,
        query_string: str,
        headers: Mapping[str, str],
        ip: str | None,
        raw: Mapping[str, Any],
    ) -> None:
        self.method = method
        self.path = path
        """The whole path, decoded."""
        self.raw_path = raw_path
        """The path as it was sent, which is what the usage is recorded under."""
        self.query_string = query_string
        self.headers = headers
        """By names in lower case. One that was sent more than once is joined, so that it cannot be one key."""
        self.ip = ip
        """The address of the other end; behind a proxy that you trust, its server must be told so."""
        self.raw = raw
        """ASGI's scope, or WSGI's environ."""

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters of the query; of one that was sent more than once, the last."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))
