from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger("keytally")


def call_back(name: str, callback: Callable[..., object], *args: Any) -> None:
    """Calls a function of the guarded program. What it raises is logged, and ends nothing."""
    try:
        callback(*args)
    except Exception:
        _logger.exception("%s failed", name)
