from __future__ import annotations

import base64
import re
from collections.abc import Callable

HeaderOf = Callable[[str], "str | None"]
"""Gives a request's header by its lower-case name."""


def keys_of(header: HeaderOf) -> list[str]:
    """
    The API keys that a request carries; it should be one. A key may come as `Authorization: Bearer`, as `x-api-key`, or in
    `Authorization: Basic` as the user name or the password, with the other one empty. The same key twice counts as one. A header
    that was sent twice arrives as one value with a comma.
    """
    # Strangers write both: no pattern here may backtrack, and each character is read once.
    found = [key.strip() for key in (header("x-api-key") or "").split(",")]
    found += _keys_in_authorization(header("authorization") or "")
    return [key for key in dict.fromkeys(found) if key]


def _keys_in_authorization(authorization: str) -> list[str]:
    scheme, *credentials = authorization.strip().split(None, 1)[:2] or [""]
    if not credentials:
        return []
    if scheme.lower() == "bearer":
        return credentials
    return _user_and_password(credentials[0]) if scheme.lower() == "basic" else []


def _user_and_password(encoded: str) -> list[str]:
    characters = "".join(encoded.split())
    if len(characters) % 4 == 0 and characters.endswith("="):
        characters = characters[:-2] + characters[-2:].rstrip("=")
    if len(characters) % 4 == 1 or not re.fullmatch("[A-Za-z0-9+/]*", characters):
        return []
    text = base64.b64decode(characters + "=" * (-len(characters) % 4)).decode("latin-1")
    user, colon, password = text.partition(":")
    return [user, password] if colon else []
