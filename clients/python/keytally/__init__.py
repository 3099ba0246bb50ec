"""Client of keytally: every operation, typed, and guards that protect an API with its keys."""

from keytally._client import AsyncClient, Client, each, each_async
from keytally._contract import DISPLAY_FORMS
from keytally._guard import GuardError
from keytally._guard_options import Cost, HoldOptions
from keytally._kept import AsyncKeptUsage, KeptUsage
from keytally._key import keys_of
from keytally._options import CallOptions
from keytally.errors import KeytallyError, OptionError
from keytally.types import Decision, Identity

__all__ = [
    "DISPLAY_FORMS",
    "AsyncClient",
    "AsyncKeptUsage",
    "CallOptions",
    "Client",
    "Cost",
    "Decision",
    "GuardError",
    "HoldOptions",
    "Identity",
    "KeptUsage",
    "KeytallyError",
    "OptionError",
    "each",
    "each_async",
    "keys_of",
]
