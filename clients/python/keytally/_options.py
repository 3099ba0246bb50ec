from __future__ import annotations

from typing_extensions import TypedDict


class CallOptions(TypedDict, total=False):
    """What a call takes beside its input."""

    timeout: float
    """Seconds after which the call fails, retries included"""
    idempotency_key: str
    """Give the same key again when you repeat a call yourself; by default each call gets a new one"""
    request_id: str
    """Appears in the answer and in keytally's logs; a verification that left in a batch has the batch's there"""
