# Made by `npm run client` from the OpenAPI document; changes here are lost.

DISPLAY_FORMS = {
    "VALID": "Active",
    "EXPIRED": "Expired",
    "DISABLED": "Inactive",
    "DELETED": "Inactive",
    "RATE_LIMITED": "Rate Limited",
    "USAGE_LIMITED": "Usage Limited",
    "INVALID_SCOPES": "Invalid Scopes",
    "INVALID": "Invalid",
}
"""How people read a status; the two limits are temporary blocks."""

REFUSALS = {
    "NO_KEY": (40110, "The API key is missing; send it as Authorization: Bearer, x-api-key or Authorization: Basic."),
    "TWO_KEYS": (40111, "The request holds several API keys; send one, and only one of the two parts of Authorization: Basic."),
    "INVALID": (40112, "Invalid: this is not a valid API key of this service."),
    "EXPIRED": (40113, "Expired: the API key has expired."),
    "DISABLED": (40114, "Inactive: the API key is disabled."),
    "DELETED": (40115, "Inactive: the API key was deleted."),
    "INVALID_SCOPES": (40310, "Invalid Scopes: the API key lacks a scope that this request needs."),
    "IP_NOT_ALLOWED": (40311, "Invalid: the API key may not be used from this address."),
    "RATE_LIMITED": (42910, "Rate Limited: a temporary block, too many requests."),
    "REQUESTS_USED_UP": (42912, "Rate Limited: a temporary block, a limit on requests is used up."),
    "USAGE_LIMITED": (42911, "Usage Limited: a temporary block, credits or a limit on credits do not cover this request."),
    "LIMIT_REACHED": (42913, "Usage Limited: a temporary block, a limit on credits does not cover this request."),
    "COST_ABOVE_LIMIT": (40312, "Usage Limited: this request costs more than all of a limit on credits."),
    "CREDITS_USED_UP": (40210, "Usage Limited: the credits that are left do not cover this request."),
    "SPEND_CAP_REACHED": (40211, "Usage Limited: this request would exceed the spend cap."),
    "NO_BILLING_RECORD": (40313, "Usage Limited: there is no billing record that this request could be debited to."),
    "IDEMPOTENCY_MISMATCH": (40904, "The Idempotency-Key was already used for a different request; use a new one."),
    "AWAY": (50311, "The API key cannot be verified right now; repeat the request in a moment."),
    "FAILED": (50001, "Something went wrong on our side; it was logged with the request id."),
    "MISCONFIGURED": (50002, "The request cannot be checked because of a mistake on our side; it was logged with the request id."),
}
"""The codes and messages of keytally's catalogue of errors for each reason to refuse a request."""
