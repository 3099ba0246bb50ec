"""Client of keytally: every operation, typed, and guards that protect an API with its keys."""

from keytally._client import AsyncClient as AsyncClient, Client as Client, each as each, each_async as each_async
from keytally._contract import DISPLAY_FORMS as DISPLAY_FORMS
from keytally._guard import GuardError as GuardError
from keytally._guard_options import Cost as Cost, HoldOptions as HoldOptions
from keytally._kept import AsyncKeptUsage as AsyncKeptUsage, KeptUsage as KeptUsage
from keytally._key import keys_of as keys_of
from keytally._options import CallOptions as CallOptions
from keytally.errors import KeytallyError as KeytallyError, OptionError as OptionError
from keytally.types import Decision as Decision, Identity as Identity, WebhookEvent as WebhookEvent
