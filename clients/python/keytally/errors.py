"""What goes wrong with a call."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

_FIRST_REQUEST_STILL_RUNS = 40905
NOTHING_TAKEN = 40451
"""A cancel found nothing that was taken."""
TOO_MANY_FAILURES = 42901
"""What a wrong access token gets after many a 401."""
OVER_QUOTA = 42920
"""A flood of wrong keys can use up the team's quota, and must not let them pass."""
_REDIS_UNAVAILABLE = 50301
_OUTBOX_FULL = 50306
_OVERLOADED = 50308
_DEBITED_NOTHING = frozenset({TOO_MANY_FAILURES, OVER_QUOTA, _REDIS_UNAVAILABLE, _OUTBOX_FULL, _OVERLOADED})
"""Codes of attempts that keytally refused before it could debit anything."""


class Detail(TypedDict):
    path: str
    message: str


class KeytallyError(Exception):
    """The error of a failed call: keytally answered with an error, or did not answer at all (status and code are 0 then)."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: int = 0,
        request_id: str | None = None,
        details: Sequence[Detail] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        """The HTTP status."""
        self.code = code
        """The code from keytally's table of errors; 0 if something other than keytally answered."""
        self.request_id = request_id
        self.details = list(details)
        """For a request that was not valid: which fields were wrong, and why."""
        self.retry_after = retry_after
        """Seconds to wait before a repetition."""
        self.may_be_debited = code == 0 or (self.is_passing and code not in _DEBITED_NOTHING)
        """Whether an attempt of a verification may have been debited, and was not refused before."""

    @property
    def is_away(self) -> bool:
        """Whether nothing was decided, because keytally or a server before it is unavailable or overloaded."""
        return self.status in (0, 408, 429) or self.status >= 500

    @property
    def is_refusal(self) -> bool:
        """Whether keytally refused a request for what it is, and surely did nothing: with 409 it may have done it before."""
        return self.code != 0 and self.status != 409 and not self.is_away

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return self.is_away or self.code == _FIRST_REQUEST_STILL_RUNS


class OptionError(ValueError):
    """An option, or what an option's function gave, is not what it must be."""
