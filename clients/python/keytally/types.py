"""What operations take and answer. The names of fields are those of the API."""

# Made by `npm run client` from the OpenAPI document; changes here are lost.
from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict


WantedScope = TypedDict(
    "WantedScope",
    {
        # What the scope stands for, unique in its workspace
        "representation": "str",
        # May create
        "create": NotRequired["bool"],
        # May read
        "read": NotRequired["bool"],
        # May update
        "update": NotRequired["bool"],
        # May delete
        "del": NotRequired["bool"],
        "id": NotRequired["str"],
    },
)


class Limit(TypedDict):
    name: str
    """Name, unique among the limits of its place"""
    unit: Literal["requests", "credits"]
    """What it counts"""
    limit: int | str
    """Most of it in the window: of requests a whole number from 1 to 9000000000, of credits decimal text above 0"""
    per: str
    """Its window: second, minute and hour, or 2 to 59 seconds or minutes and 2 to 23 hours (`5 minutes`), slide; day, week (from Monday), month and year are those of the calendar, and 2 to 31 days (`10 days`) are counted from 1970-01-01"""
    timezone: NotRequired[str]
    """The zone of the calendar, by its IANA name; without one UTC"""
    usageName: NotRequired[str]
    """Counts only calls under this name; at most 256 bytes in UTF-8"""
    shadow: NotRequired[bool]
    """Whether it only watches: it is counted and told, and refuses nothing"""


class CreateKeyInput(TypedDict):
    name: str
    """Name that people see, not blank and without invisible characters"""
    workspaceId: str
    """Id of the workspace"""
    scopes: NotRequired[list[WantedScope]]
    """What the key may do; each representation at most once"""
    enabled: NotRequired[bool]
    customerId: NotRequired[str]
    """Your own id of the customer"""
    prefix: NotRequired[str]
    """What keys start with"""
    expiresAt: NotRequired[int | None]
    """When it expires, in Unix milliseconds; in the future"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    rateLimitPerSecond: NotRequired[int]
    """Verifications per second"""
    limits: NotRequired[list[Limit]]
    """Limits over windows"""
    allowedIPs: NotRequired[list[str]]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""


GrantedScope = TypedDict(
    "GrantedScope",
    {
        # What the scope stands for, unique in its workspace
        "representation": "str",
        "create": "bool",
        "read": "bool",
        "update": "bool",
        "del": "bool",
        "id": NotRequired["str"],
    },
)


class ApiKeyWithSecret(TypedDict):
    id: str
    """Id of the API key"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    maskedKey: str
    """The key without its middle part"""
    prefix: str
    """What keys start with"""
    expiresAt: NotRequired[int]
    """When it expires; absent: never, in Unix milliseconds"""
    scopes: list[GrantedScope]
    enabled: bool
    """Whether it may be used"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    billingId: NotRequired[str]
    """Id of the billing record of its meter, once one exists"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    rateLimitPerSecond: NotRequired[int]
    """Verifications per second"""
    limits: NotRequired[list[Limit]]
    """Limits over windows"""
    allowedIPs: NotRequired[list[str]]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    deleted: bool
    """Whether it was deleted; only an import of its secret can bring it back"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When it last changed, RFC 3339 in UTC"""
    lastUsedAt: NotRequired[str]
    """When it last verified as VALID; at most a minute behind, RFC 3339 in UTC"""
    key: str
    """The key itself; only this answer contains it"""


class CreateKeyResult(TypedDict):
    apiKey: ApiKeyWithSecret


class ImportKeysInputKeysHash(TypedDict):
    algorithm: Literal["sha256"]
    encoding: Literal["hex", "base64"]
    """Base64 with `+/` or `-_`, with or without `=`"""
    value: str
    """The SHA-256 of the secret"""


class ImportKeysInputKeysBillingSchedule(TypedDict):
    credits: str
    """Credits granted for each period, above 0: decimal text, at most six decimals, at most 9000000000"""
    every: Literal["day", "week", "month", "year"]
    """How long a period is"""
    timezone: NotRequired[str]
    """Name of a time zone (IANA), in whose local time periods are counted"""
    anchorAt: NotRequired[int]
    """When a period begins, from which the others are counted; default now, in Unix milliseconds"""


class ImportKeysInputKeysBilling(TypedDict):
    """makes the billing record of externalMeterId where there is none, and grants it credits, once: in the step that makes the key. Needs billing:write"""
    allowOverages: NotRequired[bool]
    """Whether a record that is made for it lets use go on beyond its credits"""
    credits: NotRequired[str]
    """Credits granted at once: decimal text, at most six decimals, at most 9000000000"""
    expiresAt: NotRequired[int]
    """When these end; absent: never, in Unix milliseconds"""
    schedule: NotRequired[ImportKeysInputKeysBillingSchedule]


class ImportKeysInputKeys(TypedDict):
    key: NotRequired[str]
    """The secret itself, 8 to 512 printable characters without blanks; it is hashed and forgotten"""
    hash: NotRequired[ImportKeysInputKeysHash]
    allowWeak: NotRequired[bool]
    """Whether a text with fewer than 64 random bits, which could be guessed, is taken all the same"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    workspaceId: str
    """Id of the workspace"""
    scopes: NotRequired[list[WantedScope]]
    """What the key may do; each representation at most once"""
    enabled: NotRequired[bool]
    customerId: NotRequired[str]
    """Your own id of the customer"""
    prefix: NotRequired[str]
    """What keys start with"""
    expiresAt: NotRequired[int | None]
    """When it expires, in Unix milliseconds; in the future"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    rateLimitPerSecond: NotRequired[int]
    """Verifications per second"""
    limits: NotRequired[list[Limit]]
    """Limits over windows"""
    allowedIPs: NotRequired[list[str]]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    billing: NotRequired[ImportKeysInputKeysBilling]
    """Makes the billing record of externalMeterId where there is none, and grants it credits, once: in the step that makes the key. Needs billing:write"""
    restore: NotRequired[bool]
    """Whether a deleted key of this secret comes back, with the fields of this item that PATCH can change, and with its first meter if it has none"""


class ImportKeysInput(TypedDict):
    keys: list[ImportKeysInputKeys]


class ApiKey(TypedDict):
    id: str
    """Id of the API key"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    maskedKey: str
    """The key without its middle part"""
    prefix: str
    """What keys start with"""
    expiresAt: NotRequired[int]
    """When it expires; absent: never, in Unix milliseconds"""
    scopes: list[GrantedScope]
    enabled: bool
    """Whether it may be used"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    billingId: NotRequired[str]
    """Id of the billing record of its meter, once one exists"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    rateLimitPerSecond: NotRequired[int]
    """Verifications per second"""
    limits: NotRequired[list[Limit]]
    """Limits over windows"""
    allowedIPs: NotRequired[list[str]]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    deleted: bool
    """Whether it was deleted; only an import of its secret can bring it back"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When it last changed, RFC 3339 in UTC"""
    lastUsedAt: NotRequired[str]
    """When it last verified as VALID; at most a minute behind, RFC 3339 in UTC"""


class ImportResultErrorDetails(TypedDict):
    path: str
    """A JSON pointer into the item"""
    message: str


class ImportResultError(TypedDict):
    code: int
    """As in answers that refuse a whole request"""
    message: str
    details: NotRequired[list[ImportResultErrorDetails]]


class ImportResult(TypedDict):
    result: NotRequired[Literal["imported", "existing", "restored"]]
    """Imported by this call; or the secret was a key of this workspace before, which stays as it is; or it was deleted, and this call brought it back"""
    apiKey: NotRequired[ApiKey]
    error: NotRequired[ImportResultError]


class ImportKeysResult(TypedDict):
    results: list[ImportResult]
    """What became of each item, by its place"""


class ListKeysInput(TypedDict):
    id: str
    """Id of the workspace"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""
    search: NotRequired[str]
    """Only keys with this text in their name, customerId or masked key, in any case"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    enabled: NotRequired[bool]
    """Only keys that are enabled, or only those that are not"""
    deleted: NotRequired[bool]
    """Only keys that were deleted, or only those that were not"""


class ListKeysResult(TypedDict):
    apiKeys: list[ApiKey]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetKeyInput(TypedDict):
    id: str
    """Id of the workspace"""
    akid: str
    """Id of the API key"""


class GetKeyResult(TypedDict):
    apiKey: ApiKey


class UpdateKeyInput(TypedDict):
    id: str
    """Id of the workspace"""
    akid: str
    """Id of the API key"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    enabled: NotRequired[bool]
    expiresAt: NotRequired[int | None]
    """When it expires, in Unix milliseconds; in the future"""
    scopes: NotRequired[list[WantedScope] | None]
    """What the key may do; each representation at most once"""
    metadata: NotRequired[dict[str, Any] | None]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    rateLimitPerSecond: NotRequired[int | None]
    """Verifications per second"""
    limits: NotRequired[list[Limit] | None]
    """Limits over windows"""
    allowedIPs: NotRequired[list[str] | None]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    externalMeterId: NotRequired[str]
    """The meter of a key that has none; a key keeps its meter"""


class UpdateKeyResult(TypedDict):
    apiKey: ApiKey


class RotateKeyInput(TypedDict):
    id: str
    """Id of the workspace"""
    akid: str
    """Id of the API key"""
    graceSeconds: NotRequired[int]
    """For how long at most the 10 latest earlier secrets stay valid beside the new one, with the same limits and credits; 0: not at all"""


class RotateKeyResult(TypedDict):
    apiKey: ApiKeyWithSecret


class DeleteKeyInput(TypedDict):
    id: str
    """Id of the workspace"""
    akid: str
    """Id of the API key"""


class DeleteKeyResult(TypedDict):
    apiKey: ApiKey


class ReportLeakedSecretsInput(TypedDict):
    text: str
    """Where secrets may stand: part of a log, a commit, a message; it is neither stored nor logged"""


class ReportLeakedSecretsResultKeys(TypedDict):
    id: str
    """Id of the API key"""
    workspaceId: str
    """Id of the workspace"""
    maskedKey: str
    """The secret without its middle part"""
    result: Literal["disabled", "was_disabled", "replaced", "deleted"]
    """Disabled by this call, disabled before, or of no use: replaced by a rotation whose grace is over, or deleted"""


class ReportLeakedSecretsResultAccessTokens(TypedDict):
    id: str
    """Id of the access token"""
    maskedToken: str
    """The secret without its middle part"""
    result: Literal["revoked", "was_revoked", "reported"]
    """Revoked by this call, revoked before, or reported alone, because your token lacks the permission to revoke it"""


class ReportLeakedSecretsResultLinkTokens(TypedDict):
    id: str
    """Id of the link token"""
    maskedToken: str
    """The secret without its middle part"""
    result: Literal["revoked", "was_revoked", "reported"]
    """Revoked by this call, revoked before, or reported alone, because your token lacks the permission to revoke it"""


class ReportLeakedSecretsResult(TypedDict):
    keys: list[ReportLeakedSecretsResultKeys]
    accessTokens: list[ReportLeakedSecretsResultAccessTokens]
    linkTokens: list[ReportLeakedSecretsResultLinkTokens]
    notFound: list[str]
    """Secrets with a right checksum that are not of your team, or not within your reach, or of no server at all"""


class AlertWhen(TypedDict):
    usedPercent: NotRequired[int]
    """Percent of totalCredits less expiredCredits; with `limit`, of what that limit allows"""
    available: NotRequired[str]
    """Credits that are left, or fewer; holds are not looked at: decimal text, at most six decimals, at most 9000000000"""
    limit: NotRequired[str]
    """Name of a limit of the record for a day, a week or a month"""


class Alert(TypedDict):
    name: str
    """Its name, unique among them"""
    when: AlertWhen


class CreateWorkspaceInput(TypedDict):
    name: str
    """Name that people see, not blank and without invisible characters"""
    defaultKeyPrefix: NotRequired[str | None]
    """What keys start with"""
    defaultAllowedIPs: NotRequired[list[str] | None]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    defaultRateLimitPerSecond: NotRequired[int | None]
    """Verifications per second"""
    defaultLimits: NotRequired[list[Limit] | None]
    """Limits over windows"""
    defaultExpiration: NotRequired[int | None]
    """Lifetime of a new key in seconds"""
    defaultAlerts: NotRequired[list[Alert] | None]
    """What is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent`"""
    keepClientAddresses: NotRequired[bool]
    """Whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients"""
    timezone: NotRequired[str]
    """Name of the time zone (IANA) in whose days and calendar months statements are made; of a new workspace default UTC"""


class Workspace(TypedDict):
    id: str
    """Id of the workspace"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    teamId: str
    """Id of the team"""
    defaultKeyPrefix: NotRequired[str]
    """What keys start with"""
    defaultAllowedIPs: list[str]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    defaultRateLimitPerSecond: NotRequired[int]
    """Verifications per second"""
    defaultLimits: NotRequired[list[Limit]]
    """Limits over windows"""
    defaultExpiration: NotRequired[int]
    """Lifetime of a new key in seconds"""
    defaultAlerts: NotRequired[list[Alert]]
    """What is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent`"""
    keepClientAddresses: bool
    """Whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients"""
    timezone: str
    """Name of the time zone (IANA) in whose days and calendar months statements are made"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When it last changed, RFC 3339 in UTC"""


class CreateWorkspaceResult(TypedDict):
    workspace: Workspace


class ListWorkspacesInput(TypedDict):
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class ListWorkspacesResult(TypedDict):
    workspaces: list[Workspace]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetWorkspaceInput(TypedDict):
    id: str
    """Id of the workspace"""


class GetWorkspaceResult(TypedDict):
    workspace: Workspace


class UpdateWorkspaceInput(TypedDict):
    id: str
    """Id of the workspace"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    defaultKeyPrefix: NotRequired[str | None]
    """What keys start with"""
    defaultAllowedIPs: NotRequired[list[str] | None]
    """IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all"""
    defaultRateLimitPerSecond: NotRequired[int | None]
    """Verifications per second"""
    defaultLimits: NotRequired[list[Limit] | None]
    """Limits over windows"""
    defaultExpiration: NotRequired[int | None]
    """Lifetime of a new key in seconds"""
    defaultAlerts: NotRequired[list[Alert] | None]
    """What is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent`"""
    keepClientAddresses: NotRequired[bool]
    """Whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients"""
    timezone: NotRequired[str]
    """Name of the time zone (IANA) in whose days and calendar months statements are made; of a new workspace default UTC"""


class UpdateWorkspaceResult(TypedDict):
    workspace: Workspace


class DeleteWorkspaceInput(TypedDict):
    id: str
    """Id of the workspace"""


class DeleteWorkspaceResult(TypedDict):
    workspace: Workspace


class GetWorkspaceProofInput(TypedDict):
    id: str
    """Id of the workspace"""


class DifferentRecord(TypedDict):
    billingId: str
    """Id of the billing record"""
    externalMeterId: str
    """The record's external meter"""
    status: Literal["MISSING", "TOO_MUCH"]
    """Whether the books contain less than was used, or more"""
    difference: str
    """Used credits missing in the books, or else in the daily usage; negative: too much: decimal text, at most six decimals, at most 9000000000 either way"""
    heldDifference: str
    """Reserved credits missing in the books; negative: too much: decimal text, at most six decimals, at most 9000000000 either way"""
    since: str
    """Since when it differs so, RFC 3339 in UTC"""


class WorkspaceProof(TypedDict):
    provedAt: NotRequired[str]
    """When the last comparison of all records began; absent before the first one, RFC 3339 in UTC"""
    differentRecords: int
    """Records that differ"""
    undecidedRecords: int
    """Records whose events were still on their way to the books"""
    different: list[DifferentRecord]
    """The first 100 records that differ"""


class GetWorkspaceProofResult(TypedDict):
    proof: WorkspaceProof


class CloseMonthInput(TypedDict):
    id: str
    """Id of the workspace"""
    month: str
    """The month to close, YYYY-MM"""
    acceptDifferences: NotRequired[bool]
    """Also store lines of records whose books differ; they say what differs"""


class MonthClosingWaitsFor(TypedDict):
    pending: int
    """Records of which events are on their way"""
    different: int
    """Records whose books differ"""
    billingIds: list[str]
    """The first of them"""


MonthClosing = TypedDict(
    "MonthClosing",
    {
        # Id of the workspace
        "workspaceId": "str",
        # The month, YYYY-MM
        "month": "str",
        # The time zone in which it was closed
        "timezone": "str",
        # First day, in the time zone, YYYY-MM-DD in UTC
        "from": "str",
        # Last day, in the time zone, YYYY-MM-DD in UTC
        "to": "str",
        # Lines of records are being stored; or all are, and nothing of the month changes any more
        "status": "Literal[\"CLOSING\", \"CLOSED\"]",
        # How many records have a line
        "records": NotRequired["int"],
        "waitsFor": NotRequired["MonthClosingWaitsFor"],
        # When it was closed, RFC 3339 in UTC
        "closedAt": NotRequired["str"],
    },
)


class CloseMonthResult(TypedDict):
    closing: MonthClosing


class CreateScopeInput(TypedDict):
    id: str
    """Id of the workspace"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    representation: str
    """What the scope stands for, unique in its workspace"""
    description: NotRequired[str | None]
    """What the scope is for"""


class Scope(TypedDict):
    id: str
    """Id of the scope"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    representation: str
    """What the scope stands for, unique in its workspace"""
    description: str | None
    """What the scope is for"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When it last changed, RFC 3339 in UTC"""


class CreateScopeResult(TypedDict):
    scope: Scope


class ListScopesInput(TypedDict):
    id: str
    """Id of the workspace"""


class ListScopesResult(TypedDict):
    scopes: list[Scope]


class GetScopeInput(TypedDict):
    id: str
    """Id of the workspace"""
    sid: str
    """Id of the scope"""


class GetScopeResult(TypedDict):
    scope: Scope


class UpdateScopeInput(TypedDict):
    id: str
    """Id of the workspace"""
    sid: str
    """Id of the scope"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    representation: NotRequired[str]
    """What the scope stands for, unique in its workspace"""
    description: NotRequired[str | None]
    """What the scope is for"""


class UpdateScopeResult(TypedDict):
    scope: Scope


class DeleteScopeInput(TypedDict):
    id: str
    """Id of the workspace"""
    sid: str
    """Id of the scope"""


class DeleteScopeResult(TypedDict):
    scope: Scope


class CreateBillingInput(TypedDict):
    workspaceId: str
    """Id of the workspace"""
    externalMeterId: str
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    totalCredits: NotRequired[str]
    """Initial credits: decimal text, at most six decimals, at most 9000000000"""
    allowOverages: NotRequired[bool]
    """Whether use may go on beyond totalCredits"""
    spendCap: NotRequired[str]
    """Most that may be used: decimal text, at most six decimals, at most 9000000000"""
    limits: NotRequired[list[Limit]]
    """Limits over windows"""
    alerts: NotRequired[list[Alert] | None]
    """What is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent`"""


class BillingRecord(TypedDict):
    id: str
    """Id of the billing record"""
    workspaceId: str
    """Id of the workspace"""
    externalMeterId: str
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    totalCredits: str
    """Credits bought, ever: decimal text, at most six decimals, at most 9000000000"""
    usedCredits: str
    """Credits used, ever: decimal text, at most six decimals, at most 9000000000"""
    availableCredits: str
    """What is left: total less used, held and expired; below 0 where more was used: decimal text, at most six decimals, at most 9000000000 either way"""
    heldCredits: str
    """Credits that holds have reserved: decimal text, at most six decimals, at most 9000000000"""
    expiredCredits: str
    """Credits that were left when their grants ended: decimal text, at most six decimals, at most 9000000000"""
    allowOverages: bool
    """Whether use may go on beyond totalCredits"""
    spendCap: NotRequired[str]
    """Most that may be used: decimal text, at most six decimals, at most 9000000000"""
    limits: NotRequired[list[Limit]]
    """Limits over windows"""
    alerts: NotRequired[list[Alert]]
    """Its own alerts; absent: its workspace's, and in the answer of a verification"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When its settings last changed, RFC 3339 in UTC"""


class Warning(TypedDict):
    path: str
    """A JSON pointer into the body, or the name of a parameter"""
    message: str
    """What is wrong there, or what would be right"""


class CreateBillingResult(TypedDict):
    billing: BillingRecord
    warnings: NotRequired[list[Warning]]
    """Alerts that are never told: they name no limit of the record for a day, a week or a month; absent without any"""


class ListBillingsInput(TypedDict):
    id: str
    """Id of the workspace"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    customerId: NotRequired[str]
    """Only records that keys of this customer draw on, or drew on until they were deleted"""
    availableBelow: NotRequired[str]
    """Only records with less than this available: decimal text, at most six decimals, at most 9000000000"""


class ListBillingsResult(TypedDict):
    billings: list[BillingRecord]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetBillingOfMeterInput(TypedDict):
    workspaceId: str
    """Id of the workspace"""
    externalMeterId: str
    """Your own id of the meter; it ties keys to the billing record of the same meter"""


class GetBillingOfMeterResult(TypedDict):
    billing: BillingRecord


class GetBillingInput(TypedDict):
    bid: str
    """Id of the billing record"""


class GetBillingResult(TypedDict):
    billing: BillingRecord


class RefillBillingInput(TypedDict):
    workspaceId: str
    """Id of the workspace"""
    externalMeterId: str
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    refill: str | float
    """Credits to add, as decimal text or as a JSON number; above 0, at most six decimals, at most 9000000000"""


class RefillBillingResult(TypedDict):
    billing: BillingRecord


class UpdateBillingInput(TypedDict):
    bid: str
    """Id of the billing record"""
    allowOverages: NotRequired[bool]
    """Whether use may go on beyond totalCredits"""
    spendCap: NotRequired[str | None]
    """Most that may be used; null for no cap: decimal text, at most six decimals, at most 9000000000"""
    limits: NotRequired[list[Limit] | None]
    """Limits over windows"""
    alerts: NotRequired[list[Alert] | None]
    """What is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent`"""


class UpdateBillingResult(TypedDict):
    billing: BillingRecord
    warnings: NotRequired[list[Warning]]
    """Alerts that are never told: they name no limit of the record for a day, a week or a month; absent without any"""


class ListLedgerInput(TypedDict):
    bid: str
    """Id of the billing record"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class LedgerRow(TypedDict):
    id: str
    """Id of the ledger row"""
    billingId: str
    """Id of the billing record"""
    amount: str
    """Credits added: decimal text, at most six decimals, at most 9000000000"""
    totalCredits: str
    """TotalCredits after the refill: decimal text, at most six decimals, at most 9000000000"""
    tokenId: str
    """Id of the access token that made the refill"""
    requestId: str
    """X-Request-Id of the request"""
    createdAt: str
    """When the credits were added, RFC 3339 in UTC"""


class ListLedgerResult(TypedDict):
    ledger: list[LedgerRow]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class ListAlertsInput(TypedDict):
    bid: str
    """Id of the billing record"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class AlertToldWhen(TypedDict):
    usedPercent: NotRequired[int]
    """Percent of totalCredits less expiredCredits; with `limit`, of what that limit allows"""
    available: NotRequired[str]
    """Credits that are left, or fewer; holds are not looked at: decimal text, at most six decimals, at most 9000000000"""
    limit: NotRequired[str]
    """Name of a limit of the record for a day, a week or a month"""


class AlertTold(TypedDict):
    id: str
    """Its own id"""
    name: str
    """Its name, unique among them"""
    when: AlertToldWhen
    at: int
    """When it was crossed, in Unix milliseconds"""
    usedCredits: str
    """UsedCredits after what crossed it: decimal text"""
    eventId: str
    """Id of the event that crossed it"""


class ListAlertsResult(TypedDict):
    alerts: list[AlertTold]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class AdjustBillingInput(TypedDict):
    bid: str
    """Id of the billing record"""
    amount: str
    """Credits used in addition, or, if negative, given back: decimal text, at most six decimals, at most 9000000000 either way"""
    reason: str
    """Why; the books keep it"""
    day: NotRequired[str]
    """The day to book it on, not before the month in which the workspace was made; default today in UTC, or the first day of the open month if that is later, YYYY-MM-DD in UTC"""
    usageName: NotRequired[str]
    """What is counted, default "default"; at most 256 bytes in UTF-8"""


class Adjustment(TypedDict):
    id: str
    """Id of the event in the books"""
    billingId: str
    """Id of the billing record"""
    number: int
    """Number of the adjustment; each record's start at 1"""
    amount: str
    """Credits used in addition, or, if negative, given back: decimal text, at most six decimals, at most 9000000000 either way"""
    usageName: str
    day: str
    """The day it is booked on, YYYY-MM-DD in UTC"""
    reason: str
    tokenId: str
    """Id of the access token that made the adjustment"""
    requestId: str
    """X-Request-Id of the request"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""


class AdjustBillingResult(TypedDict):
    adjustment: Adjustment


GetStatementInput = TypedDict(
    "GetStatementInput",
    {
        # Id of the billing record
        "bid": "str",
        # The month, YYYY-MM
        "month": NotRequired["str"],
        # First day, instead of a month, YYYY-MM-DD in UTC
        "from": NotRequired["str"],
        # Last day, at most 366 days later, YYYY-MM-DD in UTC
        "to": NotRequired["str"],
        # 1: CSV begins with a byte order mark, by which Excel knows UTF-8
        "bom": NotRequired["Literal[\"0\", \"1\"]"],
    },
)


class StatementBalances(TypedDict):
    total: str
    """Credits that were granted, ever: decimal text, at most six decimals, at most 9000000000"""
    used: str
    """Credits used, ever: decimal text, exact; negative where it takes away"""
    expired: str
    """Credits that expired, ever: decimal text, exact; negative where it takes away"""
    remaining: str
    """Total less used and expired; what holds reserved at a past moment is in no book: decimal text, exact; negative where it takes away"""


class StatementMovement(TypedDict):
    day: str
    """The day, YYYY-MM-DD in UTC"""
    kind: Literal["granted", "expired", "voided", "usage", "adjustment", "late", "loss"]
    """Grants that began, what expired of them or was voided; usage by name; adjustments; what is late, of a month that was closed before; usage that was lost, which adds nothing"""
    name: str
    """Usage name, or name of the grant"""
    balance: Literal["total", "used", "expired"]
    """What it adds to"""
    amount: str
    """What it adds: decimal text, exact; negative where it takes away"""
    events: NotRequired[int]
    """Verifications and captures; of a loss those that were lost, of lines that are told as one how many"""
    grantId: NotRequired[str]
    """Id of the grant"""
    eventId: NotRequired[str]
    """Id of the event of the adjustment"""
    tokenId: NotRequired[str]
    """Id of the access token that made the adjustment"""
    reason: NotRequired[str]
    """Why"""
    month: NotRequired[str]
    """The closed month that what is late belongs to, YYYY-MM"""
    lost: NotRequired[str]
    """What a loss would have cost, where that is known: decimal text, at most six decimals, at most 9000000000 either way"""


class StatementProofDifferences(TypedDict):
    what: str
    credits: str
    """By how much: decimal text, exact; negative where it takes away"""


class StatementProof(TypedDict):
    status: Literal["EXACT", "PENDING", "DIFFERENT"]
    """The books have all that was debited; or events are on their way to them; or they differ"""
    pendingEvents: NotRequired[int]
    """How many are on their way, as far as that is known"""
    differences: NotRequired[list[StatementProofDifferences]]
    """What differs"""


Statement = TypedDict(
    "Statement",
    {
        # Id of the billing record
        "billingId": "str",
        # Id of the workspace
        "workspaceId": "str",
        # Your own id of the meter; it ties keys to the billing record of the same meter
        "externalMeterId": "str",
        # The month, if one was asked for, YYYY-MM
        "month": NotRequired["str"],
        # First day, in the time zone, YYYY-MM-DD in UTC
        "from": "str",
        # Last day, in the time zone, YYYY-MM-DD in UTC
        "to": "str",
        # The workspace's time zone
        "timezone": "str",
        # Whether the month is closed for this record: then nothing of it changes any more
        "closed": "bool",
        "opening": "StatementBalances",
        # In the order of day, kind and name
        "movements": "list[StatementMovement]",
        "closing": "StatementBalances",
        "proof": "StatementProof",
    },
)


class GetStatementResult(TypedDict):
    statement: Statement


ListStatementsInput = TypedDict(
    "ListStatementsInput",
    {
        # Maximum number of items in one answer
        "limit": NotRequired["int"],
        # `nextCursor` of the previous answer
        "cursor": NotRequired["str"],
        # Id of the workspace
        "workspaceId": "str",
        # The month, YYYY-MM
        "month": NotRequired["str"],
        # First day, instead of a month, YYYY-MM-DD in UTC
        "from": NotRequired["str"],
        # Last day, at most 366 days later, YYYY-MM-DD in UTC
        "to": NotRequired["str"],
        # 1: CSV begins with a byte order mark, by which Excel knows UTF-8
        "bom": NotRequired["Literal[\"0\", \"1\"]"],
    },
)


StatementLine = TypedDict(
    "StatementLine",
    {
        # Id of the billing record
        "billingId": "str",
        # Your own id of the meter; it ties keys to the billing record of the same meter
        "externalMeterId": "str",
        # First day, in the time zone, YYYY-MM-DD in UTC
        "from": "str",
        # Last day, in the time zone, YYYY-MM-DD in UTC
        "to": "str",
        # The workspace's time zone
        "timezone": "str",
        # Credits granted before: decimal text, exact; negative where it takes away
        "openingTotal": "str",
        # Credits used before: decimal text, exact; negative where it takes away
        "openingUsed": "str",
        # Credits expired before: decimal text, exact; negative where it takes away
        "openingExpired": "str",
        # What remained before: decimal text, exact; negative where it takes away
        "openingRemaining": "str",
        # Grants that began: decimal text, exact; negative where it takes away
        "granted": "str",
        # What expired of grants: decimal text, exact; negative where it takes away
        "expired": "str",
        # What was voided: decimal text, exact; negative where it takes away
        "voided": "str",
        # Usage: decimal text, exact; negative where it takes away
        "usage": "str",
        # Adjustments: decimal text, exact; negative where it takes away
        "adjustments": "str",
        # Usage of months that were closed before: decimal text, exact; negative where it takes away
        "late": "str",
        # Verifications and captures
        "events": "int",
        # Credits granted until the end: decimal text, exact; negative where it takes away
        "closingTotal": "str",
        # Credits used until the end: decimal text, exact; negative where it takes away
        "closingUsed": "str",
        # Credits expired until the end: decimal text, exact; negative where it takes away
        "closingExpired": "str",
        # What remained at the end: decimal text, exact; negative where it takes away
        "closingRemaining": "str",
        # As in the statement
        "proof": "Literal[\"EXACT\", \"PENDING\", \"DIFFERENT\"]",
        # Whether the month is closed for this record
        "closed": "bool",
    },
)


class ListStatementsResult(TypedDict):
    statements: list[StatementLine]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class ReconcileBillingInput(TypedDict):
    bid: str
    """Id of the billing record"""


class GrantProof(TypedDict):
    totalCredits: str
    """TotalCredits as Redis counts them: decimal text, at most six decimals, at most 9000000000 either way"""
    grantedCredits: str
    """The sum of all grants that have begun: decimal text, at most six decimals, at most 9000000000 either way"""
    expiredCredits: str
    """ExpiredCredits as Redis counts them: decimal text, at most six decimals, at most 9000000000 either way"""
    grantsExpiredCredits: str
    """What of the grants is neither used, nor held, nor left: decimal text, at most six decimals, at most 9000000000 either way"""
    difference: str
    """Credits that the balance lacks in one of them, or in what its grants gave: decimal text, at most six decimals, at most 9000000000 either way"""


class EventPosition(TypedDict):
    epoch: int
    """The epoch of the record's shard, which grows each time the shard opens"""
    number: int
    """The number of the event in its epoch"""
    eventId: NotRequired[str]
    """Id of the event in the books"""


class EventGap(TypedDict):
    after: EventPosition
    before: NotRequired[EventPosition]
    events: int
    """How many numbers are missing"""
    credits: NotRequired[str]
    """Their cost, by the balances before and after them: decimal text, at most six decimals, at most 9000000000 either way"""


class Reconciliation(TypedDict):
    billingId: str
    """Id of the billing record"""
    status: Literal["EXACT", "MISSING", "TOO_MUCH", "ON_ITS_WAY"]
    """Whether the books contain all usage, less, or more; or events are still on their way to them"""
    usedCredits: str
    """Used credits as Redis debits them: decimal text, at most six decimals, at most 9000000000 either way"""
    bookedCredits: str
    """The sum of all distinct events in the books: decimal text, at most six decimals, at most 9000000000 either way"""
    billedCredits: str
    """What the daily usage of these events adds up to: decimal text, at most six decimals, at most 9000000000 either way"""
    lastBalance: str
    """Used credits after the last event in the books: decimal text, at most six decimals, at most 9000000000 either way"""
    difference: str
    """Used credits missing in the books, or else in the daily usage; negative: too much: decimal text, at most six decimals, at most 9000000000 either way"""
    heldCredits: str
    """Reserved credits as Redis counts them: decimal text, at most six decimals, at most 9000000000 either way"""
    bookedHeldCredits: str
    """What the events in the books add up to: decimal text, at most six decimals, at most 9000000000 either way"""
    heldDifference: str
    """Reserved credits missing in the books; negative: too much: decimal text, at most six decimals, at most 9000000000 either way"""
    grants: NotRequired[GrantProof]
    gaps: list[EventGap]
    """Where events are missing"""
    losses: list[EventGap]
    """Usage that was lost with a Redis server, and is neither debited nor booked"""


class ReconcileBillingResult(TypedDict):
    reconciliation: Reconciliation


class CreateGrantInput(TypedDict):
    bid: str
    """Id of the billing record"""
    credits: str
    """Credits to grant, above 0: decimal text, at most six decimals, at most 9000000000"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    beginsAt: NotRequired[int]
    """When it begins, default now; up to 60 s past means now, in Unix milliseconds"""
    expiresAt: NotRequired[int]
    """When it ends, in Unix milliseconds; default never"""
    priority: NotRequired[int]
    """Which grants are drawn first: those of the lowest number, among them the one that ends first, then the older"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""


class Grant(TypedDict):
    id: str
    """Id of the grant"""
    billingId: str
    """Id of the billing record"""
    credits: str
    """Credits granted: decimal text, at most six decimals, at most 9000000000"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    state: Literal["VOIDED", "EXPIRED", "PENDING", "USED_UP", "ACTIVE"]
    """The first that applies: it was voided, has ended, has yet to begin, is used up; or it is drawn from"""
    usedCredits: str
    """Credits of it that were used: decimal text, at most six decimals, at most 9000000000"""
    expiredCredits: str
    """What was left of it when it ended or was voided: decimal text, at most six decimals, at most 9000000000"""
    remainingCredits: str
    """The rest; of an ended one what holds keep that were open then: decimal text, at most six decimals, at most 9000000000"""
    priority: int
    """Which grants are drawn first: those of the lowest number, among them the one that ends first, then the older"""
    beginsAt: int
    """When it begins, or began, in Unix milliseconds"""
    expiresAt: NotRequired[int]
    """When it ends; absent: never, in Unix milliseconds"""
    scheduleId: NotRequired[str]
    """Id of the grant schedule that made it"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    voidedAt: NotRequired[int]
    """When it was voided, in Unix milliseconds"""
    reason: NotRequired[str]
    """Why it was voided"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""


class CreateGrantResult(TypedDict):
    grant: Grant
    billing: BillingRecord


class ListGrantsInput(TypedDict):
    bid: str
    """Id of the billing record"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""
    state: NotRequired[Literal["VOIDED", "EXPIRED", "PENDING", "USED_UP", "ACTIVE"]]
    """Only grants in this state"""


class ListGrantsResult(TypedDict):
    grants: list[Grant]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetGrantInput(TypedDict):
    bid: str
    """Id of the billing record"""
    gid: str
    """Id of the grant"""


class GetGrantResult(TypedDict):
    grant: Grant


class VoidGrantInput(TypedDict):
    bid: str
    """Id of the billing record"""
    gid: str
    """Id of the grant"""
    reason: str
    """Why it was voided"""


class VoidGrantResult(TypedDict):
    grant: Grant
    billing: BillingRecord


class CaptureHoldInput(TypedDict):
    holdId: str
    """Id of the hold, as the verification answered it"""
    usage: str
    """What it did cost: decimal text, at most six decimals, at most 9000000000"""


class Capture(TypedDict):
    holdId: str
    """Id of the hold, as the verification answered it"""
    usage: str
    """What was debited: decimal text, at most six decimals, at most 9000000000"""
    late: bool
    """Whether the hold had ended before"""
    overdrawn: bool
    """Whether the record has less than it used and holds"""


class CaptureHoldResult(TypedDict):
    capture: Capture
    billing: BillingRecord


class ReleaseHoldInput(TypedDict):
    holdId: str
    """Id of the hold, as the verification answered it"""


class Release(TypedDict):
    holdId: str
    """Id of the hold, as the verification answered it"""


class ReleaseHoldResult(TypedDict):
    release: Release
    billing: BillingRecord


class ExtendHoldInput(TypedDict):
    holdId: str
    """Id of the hold, as the verification answered it"""
    expiresIn: int
    """For how many seconds from now on the credits are held"""


class Hold(TypedDict):
    id: str
    """Id of the hold, as the verification answered it"""
    credits: str
    """What is held: decimal text, at most six decimals, at most 9000000000"""
    expiresAt: int
    """When the hold ends, in Unix milliseconds"""


class ExtendHoldResult(TypedDict):
    hold: Hold
    billing: BillingRecord


class ListHoldsInput(TypedDict):
    bid: str
    """Id of the billing record"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class OpenHold(TypedDict):
    id: str
    """Id of the hold, as the verification answered it"""
    credits: str
    """What is held: decimal text, at most six decimals, at most 9000000000"""
    apiKeyId: str
    """Id of the API key that it was held for"""
    usageName: str
    """What is counted; at most 256 bytes in UTF-8"""
    onExpiry: Literal["release", "charge"]
    """What becomes of the credits at its end"""
    createdAt: str
    """Since when it is held, RFC 3339 in UTC"""
    expiresAt: int
    """When the hold ends, in Unix milliseconds"""


class ListHoldsResult(TypedDict):
    holds: list[OpenHold]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class CreateGrantScheduleInputRollover(TypedDict):
    maxCredits: str
    """Most that lives on when a period ends, for one period more: decimal text, at most six decimals, at most 9000000000"""


class CreateGrantScheduleInput(TypedDict):
    bid: str
    """Id of the billing record"""
    credits: str
    """Credits to grant for each period, above 0: decimal text, at most six decimals, at most 9000000000"""
    every: Literal["day", "week", "month", "year"]
    """How long a period is"""
    timezone: NotRequired[str]
    """Name of a time zone (IANA), in whose local time periods are counted"""
    anchorAt: NotRequired[int]
    """When a period begins, from which the others are counted; default now, in Unix milliseconds"""
    endsAt: NotRequired[int]
    """No period begins at or after it; default never, in Unix milliseconds"""
    priority: NotRequired[int]
    """Which grants are drawn first: those of the lowest number, among them the one that ends first, then the older"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    rollover: NotRequired[CreateGrantScheduleInputRollover]


class GrantScheduleRollover(TypedDict):
    maxCredits: str
    """Most that lives on when a period ends, for one period more: decimal text, at most six decimals, at most 9000000000"""


class GrantSchedule(TypedDict):
    id: str
    """Id of the grant schedule"""
    billingId: str
    """Id of the billing record"""
    credits: str
    """Credits granted for each period: decimal text, at most six decimals, at most 9000000000"""
    name: NotRequired[str]
    """Name that people see, not blank and without invisible characters"""
    every: Literal["day", "week", "month", "year"]
    """How long a period is"""
    timezone: str
    """Name of a time zone (IANA), in whose local time periods are counted"""
    anchorAt: int
    """When the first period begins, or began, in Unix milliseconds"""
    endsAt: NotRequired[int]
    """No period begins at or after it, in Unix milliseconds"""
    priority: int
    """Which grants are drawn first: those of the lowest number, among them the one that ends first, then the older"""
    rollover: NotRequired[GrantScheduleRollover]
    createdAt: str
    """When it was made, RFC 3339 in UTC"""


class CreateGrantScheduleResult(TypedDict):
    grantSchedule: GrantSchedule


class ListGrantSchedulesInput(TypedDict):
    bid: str
    """Id of the billing record"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class ListGrantSchedulesResult(TypedDict):
    grantSchedules: list[GrantSchedule]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class DeleteGrantScheduleInput(TypedDict):
    bid: str
    """Id of the billing record"""
    sid: str
    """Id of the grant schedule"""


class DeleteGrantScheduleResult(TypedDict):
    grantSchedule: GrantSchedule


GetUsageInput = TypedDict(
    "GetUsageInput",
    {
        # Id of the billing record
        "bid": "str",
        # First day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default 30 days before `to`
        "from": NotRequired["str"],
        # Last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now
        "to": NotRequired["str"],
        # Length of a period, default day; weeks begin on Monday; hours of at most 93 days, others of at most 3660
        "interval": NotRequired["Literal[\"hour\", \"day\", \"week\", \"month\"]"],
        # IANA time zone of days, weeks and months, default UTC
        "timezone": NotRequired["str"],
        # Any of billing, usageName, key, route, customer, separated by commas; default billing,usageName
        "groupBy": NotRequired["str"],
        # Only usage of this name
        "usageName": NotRequired["str"],
        # 1: CSV begins with a byte order mark, by which Excel knows UTF-8
        "bom": NotRequired["Literal[\"0\", \"1\"]"],
    },
)


class UsageRow(TypedDict):
    billingId: NotRequired[str]
    """Id of the billing record; absent for keys without one"""
    externalMeterId: NotRequired[str]
    """The record's external meter"""
    usageName: NotRequired[str]
    """What is counted"""
    apiKeyId: NotRequired[str]
    """Id of the API key; absent for corrections"""
    route: NotRequired[str]
    """What the verifications named"""
    other: NotRequired[bool]
    """True for all routes beyond the 1000 largest of the answer together"""
    customerId: NotRequired[str]
    """The key's customer"""
    totalBillingUsage: str
    """Credits used, decimal text; corrections may make it negative"""
    events: int
    """Number of verifications and captures, also of those that cost nothing"""
    partial: NotRequired[bool]
    """True where `from` or `to` lies within the period: the row has only what is between"""
    day: NotRequired[str]
    """The day, in rows without `start`, YYYY-MM-DD in UTC"""
    billingUsageName: NotRequired[str]
    """What is counted, in rows with `day`"""
    start: NotRequired[str]
    """Where the period begins, also of one that is asked for in part, RFC 3339 with the offset of the time zone"""


class GetUsageResult(TypedDict):
    data: list[UsageRow]


ListUsageInput = TypedDict(
    "ListUsageInput",
    {
        # Id of the workspace
        "workspaceId": "str",
        # First day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default 30 days before `to`
        "from": NotRequired["str"],
        # Last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now
        "to": NotRequired["str"],
        # Length of a period, default day; weeks begin on Monday; hours of at most 93 days, others of at most 3660
        "interval": NotRequired["Literal[\"hour\", \"day\", \"week\", \"month\"]"],
        # IANA time zone of days, weeks and months, default UTC
        "timezone": NotRequired["str"],
        # Any of billing, usageName, key, route, customer, separated by commas; default billing,usageName
        "groupBy": NotRequired["str"],
        # Id of the billing record: only its usage
        "billingId": NotRequired["str"],
        # Only usage of the record of this external meter
        "externalMeterId": NotRequired["str"],
        # Only usage of keys of this customer
        "customerId": NotRequired["str"],
        # Id of the API key: only its usage
        "apiKeyId": NotRequired["str"],
        # Only usage of this name; at most 256 bytes in UTF-8
        "usageName": NotRequired["str"],
        # Only usage of verifications that named this route
        "route": NotRequired["str"],
        # 1: CSV begins with a byte order mark, by which Excel knows UTF-8
        "bom": NotRequired["Literal[\"0\", \"1\"]"],
        # Maximum number of rows in JSON
        "limit": NotRequired["int"],
        # `nextCursor` of the previous answer
        "cursor": NotRequired["str"],
    },
)


class UsageOfPeriod(TypedDict):
    start: str
    """Where the period begins, also of one that is asked for in part, RFC 3339 with the offset of the time zone"""
    billingId: NotRequired[str]
    """Id of the billing record; absent for keys without one"""
    externalMeterId: NotRequired[str]
    """The record's external meter"""
    usageName: NotRequired[str]
    """What is counted"""
    apiKeyId: NotRequired[str]
    """Id of the API key; absent for corrections"""
    route: NotRequired[str]
    """What the verifications named"""
    other: NotRequired[bool]
    """True for all routes beyond the 1000 largest of the answer together"""
    customerId: NotRequired[str]
    """The key's customer"""
    totalBillingUsage: str
    """Credits used, decimal text; corrections may make it negative"""
    events: int
    """Number of verifications and captures, also of those that cost nothing"""
    partial: NotRequired[bool]
    """True where `from` or `to` lies within the period: the row has only what is between"""


class ListUsageResult(TypedDict):
    data: list[UsageOfPeriod]
    openFrom: NotRequired[str]
    """Start of the first period that is not over: usage from there on may still change, also between pages"""
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


CountVerificationsInput = TypedDict(
    "CountVerificationsInput",
    {
        # Id of the workspace
        "workspaceId": NotRequired["str"],
        # First day in the zone, or an instant; default: the day of `to`
        "from": NotRequired["str"],
        # Last day in the zone, or an instant, which is excluded; default: today
        "to": NotRequired["str"],
        # The length of periods: minutes of at most 2 days, hours of 31, days of 93
        "interval": NotRequired["Literal[\"minute\", \"hour\", \"day\"]"],
        # The zone, by its IANA name
        "timezone": NotRequired["str"],
        # Any of status, reason, limit, key, route, customer, with commas between; empty: none
        "groupBy": NotRequired["str"],
        # The answer to the call
        "status": NotRequired["Literal[\"VALID\", \"EXPIRED\", \"DISABLED\", \"DELETED\", \"RATE_LIMITED\", \"USAGE_LIMITED\", \"INVALID_SCOPES\", \"INVALID\"]"],
        # Why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID
        "reason": NotRequired["Literal[\"MALFORMED\", \"NOT_FOUND\", \"DELETED\", \"DISABLED\", \"EXPIRED\", \"IP_NOT_ALLOWED\", \"SCOPE_MISSING\", \"RATE_LIMIT\", \"LIMIT_REACHED\", \"CREDITS_USED_UP\", \"SPEND_CAP_REACHED\", \"NO_BILLING_RECORD\", \"NO_KEY\", \"TWO_KEYS\"]"],
        # Only refusals by this limit
        "limit": NotRequired["str"],
        # Id of the API key
        "apiKeyId": NotRequired["str"],
        # Only calls of the keys that have this meter now, of at most 1000; with workspaceId
        "externalMeterId": NotRequired["str"],
        # Only calls of this route
        "route": NotRequired["str"],
        # Your own id of the customer
        "customerId": NotRequired["str"],
    },
)


class VerificationCount(TypedDict):
    start: str
    """When the period begins, RFC 3339 with the offset of the zone"""
    status: NotRequired[Literal["VALID", "EXPIRED", "DISABLED", "DELETED", "RATE_LIMITED", "USAGE_LIMITED", "INVALID_SCOPES", "INVALID"]]
    """The answer to the call"""
    reason: NotRequired[Literal["MALFORMED", "NOT_FOUND", "DELETED", "DISABLED", "EXPIRED", "IP_NOT_ALLOWED", "SCOPE_MISSING", "RATE_LIMIT", "LIMIT_REACHED", "CREDITS_USED_UP", "SPEND_CAP_REACHED", "NO_BILLING_RECORD", "NO_KEY", "TWO_KEYS"]]
    """Why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID"""
    route: NotRequired[str]
    """The route that the call named"""
    limit: NotRequired[str]
    """The limit that refused: its place, a slash, and its name"""
    apiKeyId: NotRequired[str]
    """Id of the API key"""
    apiKeyName: NotRequired[str]
    """The key's name now; only for tokens with `key:read`"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    count: int
    """How many calls"""


class CountVerificationsResult(TypedDict):
    data: list[VerificationCount]
    wouldRefuse: list[VerificationCount]
    """Calls that passed limits which only watch (`shadow`), and that these would have refused; not in `data`"""


class ListRecentVerificationsInput(TypedDict):
    apiKeyId: NotRequired[str]
    """Id of the API key"""
    workspaceId: NotRequired[str]
    """Id of the workspace"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""


class RecentVerificationLimitedBy(TypedDict):
    on: Literal["key", "workspace", "billing"]
    """Whose limit it is"""
    name: str
    """Name, unique among the limits of its place"""
    limit: int | str
    """The limit as it is set"""


class RecentVerification(TypedDict):
    time: str
    """When it was decided, RFC 3339 in UTC"""
    apiKeyId: str
    """Id of the API key"""
    status: Literal["VALID", "EXPIRED", "DISABLED", "DELETED", "RATE_LIMITED", "USAGE_LIMITED", "INVALID_SCOPES", "INVALID"]
    """The answer to the call"""
    reason: NotRequired[Literal["MALFORMED", "NOT_FOUND", "DELETED", "DISABLED", "EXPIRED", "IP_NOT_ALLOWED", "SCOPE_MISSING", "RATE_LIMIT", "LIMIT_REACHED", "CREDITS_USED_UP", "SPEND_CAP_REACHED", "NO_BILLING_RECORD", "NO_KEY", "TWO_KEYS"]]
    """Why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID"""
    route: NotRequired[str]
    """The route that the call named"""
    limitedBy: NotRequired[RecentVerificationLimitedBy]
    clientAddress: NotRequired[str]
    """Of a refusal: the end client's address, where the call named it and the workspace keeps it"""


class ListRecentVerificationsResult(TypedDict):
    data: list[RecentVerification]


class CancelVerificationInput(TypedDict):
    key: str
    """The key that was verified"""
    idempotencyKey: str
    """The Idempotency-Key of the verification, sent with the same access token"""


class Cancellation(TypedDict):
    credits: str
    """What was given back: debited, or held: decimal text, at most six decimals, at most 9000000000"""


class CancelVerificationResult(TypedDict):
    cancellation: Cancellation


class CreateJwtInput(TypedDict):
    payload: dict[str, Any]
    """Claims of your own: a JSON object of at most 4096 bytes and 10 levels, without keys __proto__, constructor and prototype"""
    aud: NotRequired[str]
    """The recipient that the JWT is meant for"""
    exp: NotRequired[int]
    """Lifetime in seconds"""
    workspaceIds: NotRequired[list[str]]
    """The workspaces that the JWT is limited to; absent: those of the access token that signs it"""


class CreateJwtResult(TypedDict):
    jwt: str
    """The JWT"""


class VerifyJwtInput(TypedDict):
    jwt: str
    """The JWT"""


class VerifyJwtResult(TypedDict):
    status: Literal["VALID", "EXPIRED", "INVALID"]
    reason: NotRequired[Literal["REVOKED", "KEY_RETIRED", "WORKSPACE_FORBIDDEN"]]
    """Why a JWT that your team did sign is INVALID all the same"""
    payload: NotRequired[dict[str, Any]]
    """The payload as it was signed; present if the JWT is VALID or EXPIRED"""
    exp: NotRequired[int]
    """When it expires, in Unix seconds"""
    aud: NotRequired[str]
    """The recipient that the JWT is meant for"""
    workspaceIds: NotRequired[list[str]]
    """The workspaces that it is limited to; absent: it is for the whole team"""


class RevokeJwtInput(TypedDict):
    jti: NotRequired[str]
    """The `jti` of a JWT"""
    jwt: NotRequired[str]
    """The JWT"""


class RevokeJwtResult(TypedDict):
    jti: str
    """The `jti` of a JWT"""
    expiresAt: int
    """Until when the revocation is kept: by then the JWT has expired, in Unix milliseconds"""


class RotateSigningKeyInput(TypedDict):
    retireNow: NotRequired[bool]
    """Ends all earlier keys at once: they leave the key sets, and JWTs that they signed are INVALID"""


class RotateSigningKeyResult(TypedDict):
    kid: str
    """Id of the signing key"""


class GetJwtSettingsInput(TypedDict):
    pass


class JwtSettings(TypedDict):
    sharedKeySet: bool
    """Whether the key set of all teams contains the team's keys"""
    issuer: Literal["TEAM_ID", "URL"]
    """What new JWTs name as `iss`"""
    iss: str
    """The `iss` of new JWTs"""
    jwksUri: str
    """Address of the team's own key set"""


class GetJwtSettingsResult(TypedDict):
    jwtSettings: JwtSettings


class UpdateJwtSettingsInput(TypedDict):
    sharedKeySet: NotRequired[bool]
    """Whether the key set of all teams contains the team's keys"""
    issuer: NotRequired[Literal["TEAM_ID", "URL"]]
    """What new JWTs name as `iss`: the team's id, or a URL from which OIDC libraries find the key set"""


class UpdateJwtSettingsResult(TypedDict):
    jwtSettings: JwtSettings


class GetTeamKeySetInput(TypedDict):
    team: str
    """Id of the team"""


class PublicJwk(TypedDict):
    kty: str
    crv: str
    x: str
    """The key itself, base64url"""
    kid: str
    """Id of the signing key"""
    alg: str
    use: str


class KeySet(TypedDict):
    keys: list[PublicJwk]


class GetOpenIdConfigurationInput(TypedDict):
    team: str
    """Id of the team"""


class GetOpenIdConfigurationResult(TypedDict):
    issuer: str
    """The `iss` of the JWTs"""
    jwks_uri: str
    """Address of the key set"""
    response_types_supported: list[Literal["id_token"]]
    subject_types_supported: list[Literal["public"]]
    id_token_signing_alg_values_supported: list[Literal["EdDSA"]]


class GetSharedKeySetInput(TypedDict):
    team: NotRequired[str]
    """Id of the team whose keys to answer; absent: all teams"""


class CreateLinkTokenInput(TypedDict):
    workspaceId: str
    """Id of the workspace"""
    customerId: str
    """Your own id of the customer"""
    externalBillingId: NotRequired[str]
    """Your own id of the billing to link"""
    billingId: NotRequired[str]
    """Id of the billing record whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace"""
    permissions: NotRequired[list[Literal["rotate"]]]
    """What the customer may do in the portal besides looking; `rotate`: rotate the own keys"""
    expiresIn: NotRequired[int]
    """Lifetime in seconds; it ends no later than your own token"""


class CreateLinkTokenResultLinkToken(TypedDict):
    id: str
    """Id of the link token"""
    token: str
    """The link token; only this answer contains it"""
    expiresAt: int
    """When it expires, in Unix milliseconds"""
    workspaceId: str
    """Id of the workspace"""
    customerId: str
    """Your own id of the customer"""
    externalBillingId: NotRequired[str]
    """Your own id of the billing to link"""
    billingId: NotRequired[str]
    """Id of the billing record whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace"""
    permissions: NotRequired[list[Literal["rotate"]]]
    """What the customer may do in the portal besides looking; `rotate`: rotate the own keys"""


class CreateLinkTokenResult(TypedDict):
    linkToken: CreateLinkTokenResultLinkToken


class GetLinkTokenInput(TypedDict):
    token: str
    """The link token"""


class LinkToken(TypedDict):
    valid: bool
    """Whether it is in force"""
    expiresAt: NotRequired[int]
    """When it expires, in Unix milliseconds"""
    workspaceId: NotRequired[str]
    """Id of the workspace"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    externalBillingId: NotRequired[str]
    """Your own id of the billing to link"""
    billingId: NotRequired[str]
    """Id of the billing record whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace"""
    permissions: NotRequired[list[Literal["rotate"]]]
    """What the customer may do in the portal besides looking; `rotate`: rotate the own keys"""


class DeleteLinkTokenInput(TypedDict):
    token: str
    """The link token"""


class CreateAccessTokenInput(TypedDict):
    name: str
    """Name that people see, not blank and without invisible characters"""
    permissions: list[Literal["workspace:read", "workspace:write", "key:read", "key:write", "key:verify", "billing:read", "billing:write", "usage:read", "jwt:sign", "jwt:verify", "jwt:revoke", "link:read", "link:write", "token:write", "audit:read", "webhook:read", "webhook:write"]]
    workspaceIds: NotRequired[list[str]]
    """The workspaces it is limited to; absent: all of the team"""
    allowedIPs: NotRequired[list[str]]
    """The addresses and CIDR blocks that it may be used from; absent: those of your own token; an empty list: all"""
    expiresAt: NotRequired[int]
    """When it expires, in Unix milliseconds; in the future"""


class CreateAccessTokenResultAccessToken(TypedDict):
    id: str
    """Id of the access token"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    maskedToken: str
    """The part of the token that may be shown"""
    permissions: list[Literal["workspace:read", "workspace:write", "key:read", "key:write", "key:verify", "billing:read", "billing:write", "usage:read", "jwt:sign", "jwt:verify", "jwt:revoke", "link:read", "link:write", "token:write", "audit:read", "webhook:read", "webhook:write"]]
    workspaceIds: NotRequired[list[str]]
    """The workspaces it is limited to; absent: all"""
    allowedIPs: NotRequired[list[str]]
    """The IPv4 and IPv6 addresses and CIDR blocks that it may be used from; an empty list allows all"""
    expiresAt: NotRequired[int]
    """When it expires, in Unix milliseconds"""
    createdBy: NotRequired[str]
    """Id of the access token that made it; absent: an operator did"""
    revoked: bool
    """Whether it was revoked; that is final"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    token: str
    """The secret; only this answer contains it"""


class CreateAccessTokenResult(TypedDict):
    accessToken: CreateAccessTokenResultAccessToken


class ListAccessTokensInput(TypedDict):
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class AccessToken(TypedDict):
    id: str
    """Id of the access token"""
    name: str
    """Name that people see, not blank and without invisible characters"""
    maskedToken: str
    """The part of the token that may be shown"""
    permissions: list[Literal["workspace:read", "workspace:write", "key:read", "key:write", "key:verify", "billing:read", "billing:write", "usage:read", "jwt:sign", "jwt:verify", "jwt:revoke", "link:read", "link:write", "token:write", "audit:read", "webhook:read", "webhook:write"]]
    workspaceIds: NotRequired[list[str]]
    """The workspaces it is limited to; absent: all"""
    allowedIPs: NotRequired[list[str]]
    """The IPv4 and IPv6 addresses and CIDR blocks that it may be used from; an empty list allows all"""
    expiresAt: NotRequired[int]
    """When it expires, in Unix milliseconds"""
    createdBy: NotRequired[str]
    """Id of the access token that made it; absent: an operator did"""
    revoked: bool
    """Whether it was revoked; that is final"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    lastUsedAt: NotRequired[str]
    """When it was last used; at most a minute behind, RFC 3339 in UTC"""
    revokedAt: NotRequired[str]
    """When it was revoked, RFC 3339 in UTC"""


class ListAccessTokensResult(TypedDict):
    accessTokens: list[AccessToken]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetAccessTokenInput(TypedDict):
    id: str
    """Id of the access token"""


class GetAccessTokenResult(TypedDict):
    accessToken: AccessToken


class DeleteAccessTokenInput(TypedDict):
    id: str
    """Id of the access token"""
    descendants: NotRequired[bool]
    """Whether the tokens that it made, and that these made, are revoked too"""


class DeleteAccessTokenResultDescendants(TypedDict):
    revoked: int
    """How many of its descendants this call revoked"""
    pending: bool
    """Whether more follow within minutes; the api refuses these already, and verifies for no longer than that"""


class DeleteAccessTokenResult(TypedDict):
    accessToken: AccessToken
    descendants: DeleteAccessTokenResultDescendants


ListAuditLogInput = TypedDict(
    "ListAuditLogInput",
    {
        # Maximum number of items in one answer
        "limit": NotRequired["int"],
        # `nextCursor` of the previous answer
        "cursor": NotRequired["str"],
        # Only changes that this access token made
        "tokenId": NotRequired["str"],
        # Only changes of this kind of resource
        "resource": NotRequired["Literal[\"access_token\", \"adjustment\", \"api_key\", \"billing\", \"grant\", \"grant_schedule\", \"jwt\", \"jwt_settings\", \"link_token\", \"quota\", \"scope\", \"session\", \"signing_key\", \"webhook\", \"workspace\", \"workspace_month\"]"],
        # Only changes of this resource
        "resourceId": NotRequired["str"],
        # Only changes of this request
        "requestId": NotRequired["str"],
        # Only lines with this outcome
        "outcome": NotRequired["Literal[\"changed\", \"denied\"]"],
        # Only lines of this client address
        "address": NotRequired["str"],
        # First day, YYYY-MM-DD in UTC
        "from": NotRequired["str"],
        # Last day, YYYY-MM-DD in UTC
        "to": NotRequired["str"],
        # Which lines come first
        "order": NotRequired["Literal[\"oldest\", \"newest\"]"],
    },
)


class AuditEntry(TypedDict):
    id: str
    """Id of the audit entry"""
    operation: str
    """Method and path of the operation, or the command of the operator"""
    outcome: Literal["changed", "denied"]
    """`denied`: attempts of a known access token that were refused with 401 or 403, and touched nothing"""
    errorCode: NotRequired[int]
    """Why attempts were denied"""
    attempts: NotRequired[int]
    """How many attempts of this token, operation and error were denied; the line tells of the first one"""
    resource: NotRequired[Literal["access_token", "adjustment", "api_key", "billing", "grant", "grant_schedule", "jwt", "jwt_settings", "link_token", "quota", "scope", "session", "signing_key", "webhook", "workspace", "workspace_month"]]
    resourceId: NotRequired[str]
    """Id of what changed"""
    actor: Literal["access_token", "operator"]
    """Who it was"""
    tokenId: NotRequired[str]
    """Id of the access token that made the change; absent: the operator"""
    address: NotRequired[str]
    """Address of the client; absent: the operator, or work that went on after the answer"""
    userAgent: NotRequired[str]
    """User-Agent of the client, at most 256 characters"""
    requestId: NotRequired[str]
    """X-Request-Id of the request"""
    before: NotRequired[dict[str, Any]]
    """As it was; absent: it was created, without secrets; of a field above 2048 bytes its size and the SHA-256 of its JSON"""
    after: NotRequired[dict[str, Any]]
    """As it is since then; absent: it is gone, without secrets; of a field above 2048 bytes its size and the SHA-256 of its JSON"""
    createdAt: str
    """When it changed, or was denied, RFC 3339 in UTC"""


class ListAuditLogResult(TypedDict):
    auditLog: list[AuditEntry]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetQuotaInput(TypedDict):
    pass


class QuotaWorkspaces(TypedDict):
    """workspaces that are not deleted"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaKeys(TypedDict):
    """API keys that are not deleted"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaScopes(TypedDict):
    """scopes that are not deleted, of all workspaces"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaAccessTokens(TypedDict):
    """access tokens that are not revoked"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaBillingRecords(TypedDict):
    """billing records, also those of deleted workspaces"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaStoredBytes(TypedDict):
    """bytes that all of these take, also deleted keys, whose records stay, and grants, refills and adjustments"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaLinkTokens(TypedDict):
    """link tokens, also revoked ones, until 30 days after they expire"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaKeptAnswerBytes(TypedDict):
    """bytes that the answers kept under Idempotency-Keys take, each for 24 hours"""
    limit: int
    """How many the team may have"""
    used: int
    """How many it has"""


class QuotaVerifyPerSecond(TypedDict):
    """verifications per second, on each process"""
    limit: int
    """How many the team may have"""


class QuotaApiPerSecond(TypedDict):
    """management calls per second, on each process"""
    limit: int
    """How many the team may have"""


class Quota(TypedDict):
    workspaces: QuotaWorkspaces
    """Workspaces that are not deleted"""
    keys: QuotaKeys
    """API keys that are not deleted"""
    scopes: QuotaScopes
    """Scopes that are not deleted, of all workspaces"""
    accessTokens: QuotaAccessTokens
    """Access tokens that are not revoked"""
    billingRecords: QuotaBillingRecords
    """Billing records, also those of deleted workspaces"""
    storedBytes: QuotaStoredBytes
    """Bytes that all of these take, also deleted keys, whose records stay, and grants, refills and adjustments"""
    linkTokens: QuotaLinkTokens
    """Link tokens, also revoked ones, until 30 days after they expire"""
    keptAnswerBytes: QuotaKeptAnswerBytes
    """Bytes that the answers kept under Idempotency-Keys take, each for 24 hours"""
    verifyPerSecond: QuotaVerifyPerSecond
    """Verifications per second, on each process"""
    apiPerSecond: QuotaApiPerSecond
    """Management calls per second, on each process"""


class GetQuotaResult(TypedDict):
    quota: Quota


class CreateWebhookInput(TypedDict):
    url: str
    """Where events are posted: `https://`, with the name of a host that can be reached from outside"""
    events: list[Literal["credits.alert", "credits.exhausted", "credits.replenished", "grant.began", "grant.expiring", "grant.expired", "limit.reached", "key.created", "key.rotated", "key.deleted", "key.expiring", "hold.expired", "books.different", "month.closed"]]
    """The types of events that it gets"""
    workspaceId: NotRequired[str]
    """Id of the workspace whose events it gets; absent: those of all"""
    description: NotRequired[str]
    """What it is for"""


class NewWebhook(TypedDict):
    id: str
    """Id of the webhook"""
    url: str
    """Where events are posted: `https://`, with the name of a host that can be reached from outside"""
    events: list[Literal["credits.alert", "credits.exhausted", "credits.replenished", "grant.began", "grant.expiring", "grant.expired", "limit.reached", "key.created", "key.rotated", "key.deleted", "key.expiring", "hold.expired", "books.different", "month.closed"]]
    """The types of events that it gets"""
    workspaceId: NotRequired[str]
    """Id of the workspace whose events it gets; absent: those of all"""
    description: NotRequired[str]
    """What it is for"""
    enabled: bool
    disabledReason: NotRequired[Literal["REQUESTED", "GONE", "FAILING"]]
    """Why it is not enabled: a request, an answer 410, or five days of failures"""
    disabledAt: NotRequired[str]
    """When it was disabled, RFC 3339 in UTC"""
    failingSince: NotRequired[str]
    """Since when every try failed, RFC 3339 in UTC"""
    missedEvents: int
    """Events that it did not get, because too many were waiting"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When its settings last changed, RFC 3339 in UTC"""
    secret: str
    """The secret that signs: only this answer contains it"""


class CreateWebhookResult(TypedDict):
    webhook: NewWebhook


class ListWebhooksInput(TypedDict):
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class Webhook(TypedDict):
    id: str
    """Id of the webhook"""
    url: str
    """Where events are posted: `https://`, with the name of a host that can be reached from outside"""
    events: list[Literal["credits.alert", "credits.exhausted", "credits.replenished", "grant.began", "grant.expiring", "grant.expired", "limit.reached", "key.created", "key.rotated", "key.deleted", "key.expiring", "hold.expired", "books.different", "month.closed"]]
    """The types of events that it gets"""
    workspaceId: NotRequired[str]
    """Id of the workspace whose events it gets; absent: those of all"""
    description: NotRequired[str]
    """What it is for"""
    enabled: bool
    disabledReason: NotRequired[Literal["REQUESTED", "GONE", "FAILING"]]
    """Why it is not enabled: a request, an answer 410, or five days of failures"""
    disabledAt: NotRequired[str]
    """When it was disabled, RFC 3339 in UTC"""
    failingSince: NotRequired[str]
    """Since when every try failed, RFC 3339 in UTC"""
    missedEvents: int
    """Events that it did not get, because too many were waiting"""
    createdAt: str
    """When it was made, RFC 3339 in UTC"""
    updatedAt: str
    """When its settings last changed, RFC 3339 in UTC"""


class ListWebhooksResult(TypedDict):
    webhooks: list[Webhook]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class GetWebhookInput(TypedDict):
    wid: str
    """Id of the webhook"""


class GetWebhookResult(TypedDict):
    webhook: Webhook


class ListWebhookDeliveriesInput(TypedDict):
    wid: str
    """Id of the webhook"""
    limit: NotRequired[int]
    """Maximum number of items in one answer"""
    cursor: NotRequired[str]
    """`nextCursor` of the previous answer"""


class WebhookTry(TypedDict):
    at: str
    """When it began, RFC 3339 in UTC"""
    durationMs: int
    """How long it took"""
    status: NotRequired[int]
    """HTTP status of the answer"""
    error: NotRequired[str]
    """Why there was no whole answer"""
    answer: NotRequired[str]
    """The first 1 KB of the answer; of a receiver inside 200 bytes"""


class WebhookDelivery(TypedDict):
    type: str
    """Type of the event"""
    id: str
    """Id of the webhook delivery"""
    eventId: str
    """`webhook-id` of the event, the same at every try"""
    state: Literal["WAITING", "DELIVERED", "FAILED"]
    createdAt: str
    """When the event was told, RFC 3339 in UTC"""
    nextTryAt: NotRequired[str]
    """When it is tried next, RFC 3339 in UTC"""
    tries: list[WebhookTry]
    """Its latest tries, oldest first"""


class ListWebhookDeliveriesResult(TypedDict):
    deliveries: list[WebhookDelivery]
    nextCursor: NotRequired[str]
    """Where the next page starts; absent on the last one"""


class UpdateWebhookInput(TypedDict):
    wid: str
    """Id of the webhook"""
    enabled: NotRequired[bool]
    """Whether events are delivered"""
    events: NotRequired[list[Literal["credits.alert", "credits.exhausted", "credits.replenished", "grant.began", "grant.expiring", "grant.expired", "limit.reached", "key.created", "key.rotated", "key.deleted", "key.expiring", "hold.expired", "books.different", "month.closed"]]]
    """The types of events that it gets"""
    url: NotRequired[str]
    """Where events are posted: `https://`, with the name of a host that can be reached from outside"""


class UpdateWebhookResult(TypedDict):
    webhook: Webhook


class RotateWebhookSecretInput(TypedDict):
    wid: str
    """Id of the webhook"""
    replaceLatest: NotRequired[bool]
    """Within 24 hours of a rotation: replaces the secret that it made, at once; the one before still signs until its 24 hours are over"""


class RotateWebhookSecretResult(TypedDict):
    webhook: NewWebhook


class TestWebhookInput(TypedDict):
    wid: str
    """Id of the webhook"""


class TestWebhookResult(TypedDict):
    delivery: WebhookDelivery


class RedeliverWebhookInput(TypedDict):
    wid: str
    """Id of the webhook"""
    did: str
    """Id of the webhook delivery"""


class RedeliverWebhookResult(TypedDict):
    delivery: WebhookDelivery


class DeleteWebhookInput(TypedDict):
    wid: str
    """Id of the webhook"""


class DeleteWebhookResult(TypedDict):
    webhook: Webhook


class HoldOptions(TypedDict):
    expiresIn: int
    """For how many seconds the credits are held"""
    onExpiry: NotRequired[Literal["release", "charge"]]
    """What becomes of the credits where nobody captures or releases them in time"""


class VerifyKeyInputBilling(TypedDict):
    usage: NotRequired[str]
    """What this call costs: decimal text, at most six decimals, at most 9000000000"""
    usageName: NotRequired[str]
    """What is counted; at most 256 bytes in UTF-8"""
    hold: NotRequired[HoldOptions]


class VerifyKeyInput(TypedDict):
    key: str
    """The key to verify"""
    requestedScopes: NotRequired[list[WantedScope]]
    route: NotRequired[str]
    """Recorded with the event; at most 1024 bytes in UTF-8"""
    billing: NotRequired[VerifyKeyInputBilling]
    ip: NotRequired[str]
    """The end client's address, for allow lists"""


class DecisionRateLimit(TypedDict):
    remaining: int
    """What is left of the tightest limit on requests"""
    resetAt: int
    """When that allowance is whole again, in Unix milliseconds"""
    limit: int
    """That limit"""
    windowSeconds: int
    """The length of its window"""


class LimitState(TypedDict):
    on: Literal["key", "workspace", "billing"]
    """Whose limit it is"""
    name: str
    """Name, unique among the limits of its place"""
    remaining: int | str
    """What is left: requests as a number, credits as decimal text"""
    resetAt: int
    """When the allowance is whole again, in Unix milliseconds"""
    wouldRefuse: NotRequired[bool]
    """Of a limit that only watches: whether it would have refused this call"""


class LimitedBy(TypedDict):
    on: Literal["key", "workspace", "billing"]
    """Whose limit it is"""
    name: str
    """Name, unique among the limits of its place"""
    limit: int | str
    """The limit as it is set"""
    resetAt: NotRequired[int]
    """When the allowance is whole again; absent where the call costs more than all of it, in Unix milliseconds"""
    retryAt: NotRequired[int]
    """When a call like this one may pass it; absent likewise, in Unix milliseconds"""


class Decision(TypedDict):
    status: Literal["VALID", "EXPIRED", "DISABLED", "DELETED", "RATE_LIMITED", "USAGE_LIMITED", "INVALID_SCOPES", "INVALID"]
    apiKeyId: NotRequired[str]
    """Id of the API key"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    expiresAt: NotRequired[int]
    """When the key expires, in Unix milliseconds"""
    requestedScopes: NotRequired[list[GrantedScope]]
    scopes: NotRequired[list[GrantedScope]]
    billing: NotRequired[BillingRecord]
    hold: NotRequired[Hold]
    rateLimit: NotRequired[DecisionRateLimit]
    limits: NotRequired[list[LimitState]]
    """The limits over windows of the key and its billing record"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    reason: NotRequired[Literal["MALFORMED", "NOT_FOUND", "DELETED", "DISABLED", "EXPIRED", "IP_NOT_ALLOWED", "SCOPE_MISSING", "RATE_LIMIT", "LIMIT_REACHED", "CREDITS_USED_UP", "SPEND_CAP_REACHED", "NO_BILLING_RECORD"]]
    """Why the key was refused; absent when it is VALID"""
    limitedBy: NotRequired[LimitedBy]


class BatchedVerificationBilling(TypedDict):
    usage: NotRequired[str]
    """What this call costs: decimal text, at most six decimals, at most 9000000000"""
    usageName: NotRequired[str]
    """What is counted; at most 256 bytes in UTF-8"""
    hold: NotRequired[HoldOptions]


class BatchedVerification(TypedDict):
    key: str
    """The key to verify"""
    requestedScopes: NotRequired[list[WantedScope]]
    route: NotRequired[str]
    """Recorded with the event; at most 1024 bytes in UTF-8"""
    billing: NotRequired[BatchedVerificationBilling]
    ip: NotRequired[str]
    """The end client's address, for allow lists"""
    idempotencyKey: NotRequired[str]
    """Makes repeating this verification safe, as the header Idempotency-Key does for a single one"""


class VerifyKeysInput(TypedDict):
    verifications: list[BatchedVerification]


class FailedVerificationErrorDetails(TypedDict):
    path: str
    """A JSON pointer into the body, or the name of a parameter"""
    message: str
    """What is wrong there, or what would be right"""


class FailedVerificationError(TypedDict):
    code: int
    """HTTP status times 100 plus a running number"""
    message: str
    """What is wrong and what would be right"""
    details: NotRequired[list[FailedVerificationErrorDetails]]


class FailedVerification(TypedDict):
    error: FailedVerificationError


class VerifyKeysResult(TypedDict):
    results: list[Decision | FailedVerification]
    """In the order of the verifications: what each alone would be answered, or its error"""


class IdentityRateLimit(TypedDict):
    remaining: int
    """What is left of the tightest limit on requests"""
    resetAt: int
    """When that allowance is whole again, in Unix milliseconds"""
    limit: int
    """That limit"""
    windowSeconds: int
    """The length of its window"""


class Identity(TypedDict):
    status: Literal["VALID", "UNDECIDED"]
    apiKeyId: NotRequired[str]
    """Id of the API key"""
    customerId: NotRequired[str]
    """Your own id of the customer"""
    externalMeterId: NotRequired[str]
    """Your own id of the meter; it ties keys to the billing record of the same meter"""
    expiresAt: NotRequired[int]
    """When the key expires, in Unix milliseconds"""
    requestedScopes: NotRequired[list[GrantedScope]]
    scopes: NotRequired[list[GrantedScope]]
    billing: NotRequired[BillingRecord]
    hold: NotRequired[Hold]
    rateLimit: NotRequired[IdentityRateLimit]
    limits: NotRequired[list[LimitState]]
    """The limits over windows of the key and its billing record"""
    metadata: NotRequired[dict[str, Any]]
    """Data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype"""
    reason: NotRequired[Literal["MALFORMED", "NOT_FOUND", "DELETED", "DISABLED", "EXPIRED", "IP_NOT_ALLOWED", "SCOPE_MISSING", "RATE_LIMIT", "LIMIT_REACHED", "CREDITS_USED_UP", "SPEND_CAP_REACHED", "NO_BILLING_RECORD"]]
    """Why the key was refused; absent when it is VALID"""
    limitedBy: NotRequired[LimitedBy]
