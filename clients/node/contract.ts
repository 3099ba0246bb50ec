// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.

/** What each operation takes (its path, query and body in one object) and answers. */
export interface Contract {
  /** Verify an API key and debit its cost (`key:verify`). */
  'post /api/v1/api-key/verify': {
    input: Verification;
    output: Decision;
  };
  /** Verify up to 100 API keys and debit their costs, each by itself (`key:verify`). */
  'post /api/v1/api-key/verify/batch': {
    input: VerifyKeysRequest;
    output: VerifyKeysResult;
  };
  /** Cancel a verification: give back what it took, or keep it from happening (`key:verify`). */
  'post /api/v1/api-key/verify/cancel': {
    input: CancelVerificationRequest;
    output: CancelVerificationResult;
  };
  /** Create an API key; only this answer contains the secret (`key:write`). */
  'post /api/v1/api-key': {
    input: CreateKeyRequest;
    output: CreateKeyResult;
  };
  /** Import API keys that were made elsewhere, up to 100; each item stands alone (`key:write`). */
  'post /api/v1/api-key/import': {
    input: ImportKeysRequest;
    output: ImportKeysResult;
  };
  /** List the API keys of a workspace, also deleted ones unless filtered out (`key:read`). */
  'get /api/v1/workspace/{id}/api-keys': {
    input: {
      /** id of the workspace */
      id: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
      /** only keys with this text in their name, customerId or masked key, in any case */
      search?: string | undefined;
      /** your own id of the customer */
      customerId?: string | undefined;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId?: string | undefined;
      /** only keys that are enabled, or only those that are not */
      enabled?: boolean | undefined;
      /** only keys that were deleted, or only those that were not */
      deleted?: boolean | undefined;
    };
    output: ListKeysResult;
  };
  /** Get an API key, without its secret (`key:read`). */
  'get /api/v1/workspace/{id}/api-key/{akid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
    };
    output: GetKeyResult;
  };
  /** Change an API key; null clears a setting (`key:write`). */
  'patch /api/v1/workspace/{id}/api-key/{akid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
    } & UpdateKeyRequest;
    output: UpdateKeyResult;
  };
  /** Report secrets that leaked: keys in the text are disabled, tokens revoked (`key:write`). */
  'post /api/v1/api-key/leaked': {
    input: ReportLeakedSecretsRequest;
    output: ReportLeakedSecretsResult;
  };
  /** Give an API key a new secret; only this answer contains it (`key:write`). */
  'post /api/v1/workspace/{id}/api-key/{akid}/rotate': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
    } & RotateKeyRequest;
    output: RotateKeyResult;
  };
  /** Delete an API key for good; its record stays readable (`key:write`). */
  'delete /api/v1/workspace/{id}/api-key/{akid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
    };
    output: DeleteKeyResult;
  };
  /** Create a workspace (`workspace:write`). */
  'post /api/v1/workspace': {
    input: CreateWorkspaceRequest;
    output: CreateWorkspaceResult;
  };
  /** List the workspaces that the access token may use (`workspace:read`). */
  'get /api/v1/workspace': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListWorkspacesResult;
  };
  /** Get a workspace (`workspace:read`). */
  'get /api/v1/workspace/{id}': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: GetWorkspaceResult;
  };
  /** Tell when a workspace's books were proved, and which records differ (`billing:read`). */
  'get /api/v1/workspace/{id}/proof': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: GetWorkspaceProofResult;
  };
  /** Change a workspace's name and the defaults of its keys and billing records (`workspace:write`). */
  'patch /api/v1/workspace/{id}': {
    input: {
      /** id of the workspace */
      id: string;
    } & UpdateWorkspaceRequest;
    output: UpdateWorkspaceResult;
  };
  /** Delete a workspace for good: its keys are refused at once, its books stay readable (`workspace:write`). */
  'delete /api/v1/workspace/{id}': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: DeleteWorkspaceResult;
  };
  /** Close a month of a workspace: its statements never change any more (`billing:write`). */
  'post /api/v1/workspace/{id}/close': {
    input: {
      /** id of the workspace */
      id: string;
    } & CloseMonthRequest;
    output: CloseMonthResult;
  };
  /** Create a scope in a workspace (`workspace:write`). */
  'post /api/v1/workspace/{id}/scope': {
    input: {
      /** id of the workspace */
      id: string;
    } & CreateScopeRequest;
    output: CreateScopeResult;
  };
  /** List all scopes of a workspace (`workspace:read`). */
  'get /api/v1/workspace/{id}/scopes': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: ListScopesResult;
  };
  /** Get a scope (`workspace:read`). */
  'get /api/v1/workspace/{id}/scope/{sid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the scope */
      sid: string;
    };
    output: GetScopeResult;
  };
  /** Change a scope; its representation only while no key has it (`workspace:write`). */
  'patch /api/v1/workspace/{id}/scope/{sid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the scope */
      sid: string;
    } & UpdateScopeRequest;
    output: UpdateScopeResult;
  };
  /** Delete a scope, and with it every grant of it (`workspace:write`). */
  'delete /api/v1/workspace/{id}/scope/{sid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the scope */
      sid: string;
    };
    output: DeleteScopeResult;
  };
  /** Create the billing record of a workspace's external meter (`billing:write`). */
  'post /api/v1/customer-billing': {
    input: CreateBillingRequest;
    output: CreateBillingResult;
  };
  /** List the billing records of a workspace (`billing:read`). */
  'get /api/v1/workspace/{id}/customer-billings': {
    input: {
      /** id of the workspace */
      id: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId?: string | undefined;
      /** only records that keys of this customer draw on, or drew on until they were deleted */
      customerId?: string | undefined;
      /** only records with less than this available: decimal text, at most six decimals, at most 9000000000 */
      availableBelow?: string | undefined;
    };
    output: ListBillingsResult;
  };
  /** Get the billing record of a workspace's external meter (`billing:read`). */
  'get /api/v1/customer-billing': {
    input: {
      /** id of the workspace */
      workspaceId: string;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId: string;
    };
    output: GetBillingOfMeterResult;
  };
  /** Add credits to a billing record (`billing:write`). */
  'post /api/v1/customer-billing/refill': {
    input: RefillBillingRequest;
    output: RefillBillingResult;
  };
  /** Get a billing record by its id (`billing:read`). */
  'get /api/v1/customer-billing/{bid}': {
    input: {
      /** id of the billing record */
      bid: string;
    };
    output: GetBillingResult;
  };
  /** Correct the used credits of a billing record, in its balance and in its books (`billing:write`). */
  'post /api/v1/customer-billing/{bid}/adjustment': {
    input: {
      /** id of the billing record */
      bid: string;
    } & AdjustBillingRequest;
    output: AdjustBillingResult;
  };
  /** Change whether a billing record allows overages, its spend cap, its limits and its alerts (`billing:write`). */
  'patch /api/v1/customer-billing/{bid}': {
    input: {
      /** id of the billing record */
      bid: string;
    } & UpdateBillingRequest;
    output: UpdateBillingResult;
  };
  /** List the refills of a billing record, oldest first (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/ledger': {
    input: {
      /** id of the billing record */
      bid: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListLedgerResult;
  };
  /** Grant credits to a billing record, with a beginning, an end and a priority (`billing:write`). */
  'post /api/v1/customer-billing/{bid}/grant': {
    input: {
      /** id of the billing record */
      bid: string;
    } & CreateGrantRequest;
    output: CreateGrantResult;
  };
  /** List the grants of a billing record, oldest first (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/grants': {
    input: {
      /** id of the billing record */
      bid: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
      /** only grants in this state */
      state?: 'VOIDED' | 'EXPIRED' | 'PENDING' | 'USED_UP' | 'ACTIVE' | undefined;
    };
    output: ListGrantsResult;
  };
  /** Get a grant, with what of it was used, has expired and remains (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/grant/{gid}': {
    input: {
      /** id of the billing record */
      bid: string;
      /** id of the grant */
      gid: string;
    };
    output: GetGrantResult;
  };
  /** Void a grant: what is left of it is gone at once (`billing:write`). */
  'post /api/v1/customer-billing/{bid}/grant/{gid}/void': {
    input: {
      /** id of the billing record */
      bid: string;
      /** id of the grant */
      gid: string;
    } & VoidGrantRequest;
    output: VoidGrantResult;
  };
  /** List the alerts that a billing record has crossed, newest first (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/alerts': {
    input: {
      /** id of the billing record */
      bid: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListAlertsResult;
  };
  /** Grant credits to a billing record every day, week, month or year (`billing:write`). */
  'post /api/v1/customer-billing/{bid}/grant-schedule': {
    input: {
      /** id of the billing record */
      bid: string;
    } & CreateGrantScheduleRequest;
    output: CreateGrantScheduleResult;
  };
  /** List the grant schedules of a billing record, oldest first (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/grant-schedules': {
    input: {
      /** id of the billing record */
      bid: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListGrantSchedulesResult;
  };
  /** Delete a grant schedule: no further period begins (`billing:write`). */
  'delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}': {
    input: {
      /** id of the billing record */
      bid: string;
      /** id of the grant schedule */
      sid: string;
    };
    output: DeleteGrantScheduleResult;
  };
  /** Prove the books of a billing record: compare its balance with its events (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/reconciliation': {
    input: {
      /** id of the billing record */
      bid: string;
    };
    output: ReconcileBillingResult;
  };
  /** Get the statement of a billing record: opening balances, every movement, closing balances, and the proof (`billing:read`, `usage:read`). */
  'get /api/v1/customer-billing/{bid}/statement': {
    input: {
      /** id of the billing record */
      bid: string;
      /** the month, YYYY-MM */
      month?: string | undefined;
      /** first day, instead of a month, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, at most 366 days later, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: GetStatementResult;
  };
  /** Get the statement of a billing record: opening balances, every movement, closing balances, and the proof (`billing:read`, `usage:read`). */
  'get /api/v1/customer-billing/{bid}/statement as text/csv': {
    input: {
      /** id of the billing record */
      bid: string;
      /** the month, YYYY-MM */
      month?: string | undefined;
      /** first day, instead of a month, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, at most 366 days later, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: string;
  };
  /** List the statements of a workspace, one line for each record (`billing:read`, `usage:read`). */
  'get /api/v1/statements': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
      /** id of the workspace */
      workspaceId: string;
      /** the month, YYYY-MM */
      month?: string | undefined;
      /** first day, instead of a month, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, at most 366 days later, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: ListStatementsResult;
  };
  /** List the statements of a workspace, one line for each record (`billing:read`, `usage:read`). */
  'get /api/v1/statements as text/csv': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
      /** id of the workspace */
      workspaceId: string;
      /** the month, YYYY-MM */
      month?: string | undefined;
      /** first day, instead of a month, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, at most 366 days later, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: string;
  };
  /** List the open holds of a billing record, those that end first, first (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/holds': {
    input: {
      /** id of the billing record */
      bid: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListHoldsResult;
  };
  /** Capture a hold: debit what the call did cost, and release the rest (`key:verify`). */
  'post /api/v1/usage/capture': {
    input: CaptureHoldRequest;
    output: CaptureHoldResult;
  };
  /** Release a hold: debit nothing (`key:verify`). */
  'post /api/v1/usage/release': {
    input: ReleaseHoldRequest;
    output: ReleaseHoldResult;
  };
  /** Extend a hold: give it another end, counted from now (`key:verify`). */
  'post /api/v1/usage/extend': {
    input: ExtendHoldRequest;
    output: ExtendHoldResult;
  };
  /** Usage of a billing record, by default of each day and usage name (`usage:read`). */
  'get /api/v1/usage/{bid}': {
    input: {
      /** id of the billing record */
      bid: string;
      /** first day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default 30 days before `to` */
      from?: string | undefined;
      /** last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now */
      to?: string | undefined;
      /** length of a period, default day; weeks begin on Monday; hours of at most 93 days, others of at most 3660 */
      interval?: 'hour' | 'day' | 'week' | 'month' | undefined;
      /** IANA time zone of days, weeks and months, default UTC */
      timezone?: string | undefined;
      /** any of billing, usageName, key, route, customer, separated by commas; default billing,usageName */
      groupBy?: string | undefined;
      /** only usage of this name */
      usageName?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: GetUsageResult;
  };
  /** Usage of a billing record, by default of each day and usage name (`usage:read`). */
  'get /api/v1/usage/{bid} as text/csv': {
    input: {
      /** id of the billing record */
      bid: string;
      /** first day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default 30 days before `to` */
      from?: string | undefined;
      /** last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now */
      to?: string | undefined;
      /** length of a period, default day; weeks begin on Monday; hours of at most 93 days, others of at most 3660 */
      interval?: 'hour' | 'day' | 'week' | 'month' | undefined;
      /** IANA time zone of days, weeks and months, default UTC */
      timezone?: string | undefined;
      /** any of billing, usageName, key, route, customer, separated by commas; default billing,usageName */
      groupBy?: string | undefined;
      /** only usage of this name */
      usageName?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: string;
  };
  /** Usage of a workspace by hour, day, week or month (`usage:read`). */
  'get /api/v1/usage': {
    input: {
      /** id of the workspace */
      workspaceId: string;
      /** first day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default 30 days before `to` */
      from?: string | undefined;
      /** last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now */
      to?: string | undefined;
      /** length of a period, default day; weeks begin on Monday; hours of at most 93 days, others of at most 3660 */
      interval?: 'hour' | 'day' | 'week' | 'month' | undefined;
      /** IANA time zone of days, weeks and months, default UTC */
      timezone?: string | undefined;
      /** any of billing, usageName, key, route, customer, separated by commas; default billing,usageName */
      groupBy?: string | undefined;
      /** id of the billing record: only its usage */
      billingId?: string | undefined;
      /** only usage of the record of this external meter */
      externalMeterId?: string | undefined;
      /** only usage of keys of this customer */
      customerId?: string | undefined;
      /** id of the API key: only its usage */
      apiKeyId?: string | undefined;
      /** only usage of this name; at most 256 bytes in UTF-8 */
      usageName?: string | undefined;
      /** only usage of verifications that named this route */
      route?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
      /** maximum number of rows in JSON */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListUsageResult;
  };
  /** Usage of a workspace by hour, day, week or month (`usage:read`). */
  'get /api/v1/usage as text/csv': {
    input: {
      /** id of the workspace */
      workspaceId: string;
      /** first day, YYYY-MM-DD in the time zone, or the first instant, RFC 3339 on a quarter of an hour; default 30 days before `to` */
      from?: string | undefined;
      /** last day, which is included, or an instant, which is not; days and instants are not mixed; default today, or now */
      to?: string | undefined;
      /** length of a period, default day; weeks begin on Monday; hours of at most 93 days, others of at most 3660 */
      interval?: 'hour' | 'day' | 'week' | 'month' | undefined;
      /** IANA time zone of days, weeks and months, default UTC */
      timezone?: string | undefined;
      /** any of billing, usageName, key, route, customer, separated by commas; default billing,usageName */
      groupBy?: string | undefined;
      /** id of the billing record: only its usage */
      billingId?: string | undefined;
      /** only usage of the record of this external meter */
      externalMeterId?: string | undefined;
      /** only usage of keys of this customer */
      customerId?: string | undefined;
      /** id of the API key: only its usage */
      apiKeyId?: string | undefined;
      /** only usage of this name; at most 256 bytes in UTF-8 */
      usageName?: string | undefined;
      /** only usage of verifications that named this route */
      route?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
      /** maximum number of rows in JSON */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: string;
  };
  /** List the last 100 verifications of a key or a meter, newest first: why was my customer refused? (`usage:read`). */
  'get /api/v1/verifications/recent': {
    input: {
      /** id of the API key */
      apiKeyId?: string | undefined;
      /** id of the workspace */
      workspaceId?: string | undefined;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId?: string | undefined;
    };
    output: ListRecentVerificationsResult;
  };
  /** Count verifications by status, reason, limit, key, route or customer (`usage:read`). */
  'get /api/v1/verifications': {
    input: {
      /** id of the workspace */
      workspaceId?: string | undefined;
      /** first day in the zone, or an instant; default: the day of `to` */
      from?: string | undefined;
      /** last day in the zone, or an instant, which is excluded; default: today */
      to?: string | undefined;
      /** the length of periods: minutes of at most 2 days, hours of 31, days of 93 */
      interval?: 'minute' | 'hour' | 'day' | undefined;
      /** the zone, by its IANA name */
      timezone?: string | undefined;
      /** any of status, reason, limit, key, route, customer, with commas between; empty: none */
      groupBy?: string | undefined;
      /** the answer to the call */
      status?:
        | 'VALID'
        | 'EXPIRED'
        | 'DISABLED'
        | 'DELETED'
        | 'RATE_LIMITED'
        | 'USAGE_LIMITED'
        | 'INVALID_SCOPES'
        | 'INVALID'
        | undefined;
      /** why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID */
      reason?:
        | 'MALFORMED'
        | 'NOT_FOUND'
        | 'DELETED'
        | 'DISABLED'
        | 'EXPIRED'
        | 'IP_NOT_ALLOWED'
        | 'SCOPE_MISSING'
        | 'RATE_LIMIT'
        | 'LIMIT_REACHED'
        | 'CREDITS_USED_UP'
        | 'SPEND_CAP_REACHED'
        | 'NO_BILLING_RECORD'
        | 'NO_KEY'
        | 'TWO_KEYS'
        | undefined;
      /** only refusals by this limit */
      limit?: string | undefined;
      /** id of the API key */
      apiKeyId?: string | undefined;
      /** only calls of the keys that have this meter now, of at most 1000; with workspaceId */
      externalMeterId?: string | undefined;
      /** only calls of this route */
      route?: string | undefined;
      /** your own id of the customer */
      customerId?: string | undefined;
    };
    output: CountVerificationsResult;
  };
  /** Sign a JWT, for the workspaces of your access token (`jwt:sign`). */
  'post /api/v1/jwt': {
    input: CreateJwtRequest;
    output: CreateJwtResult;
  };
  /** Verify a JWT of your team (`jwt:verify`). */
  'post /api/v1/jwt/verify': {
    input: VerifyJwtRequest;
    output: VerifyJwtResult;
  };
  /** Revoke a JWT of your team by its `jti`, or by the JWT itself: INVALID at the next verification (`jwt:revoke`). */
  'post /api/v1/jwt/revoke': {
    input: RevokeJwtRequest;
    output: RevokeJwtResult;
  };
  /** Sign with the next key from now on; JWTs of earlier keys keep verifying, unless you retire them (`token:write`). */
  'post /api/v1/jwt/rotate': {
    input: RotateSigningKeyRequest;
    output: RotateSigningKeyResult;
  };
  /** Get what your team's JWTs name as issuer, and where its keys are published (`jwt:verify`). */
  'get /api/v1/jwt/settings': {
    input: {};
    output: GetJwtSettingsResult;
  };
  /** Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams (`token:write`). */
  'patch /api/v1/jwt/settings': {
    input: UpdateJwtSettingsRequest;
    output: UpdateJwtSettingsResult;
  };
  /** Get a team's public signing keys as a JWK set, to verify its JWTs without the service. */
  'get /team/{team}/.well-known/jwks.json': {
    input: {
      /** id of the team */
      team: string;
    };
    output: KeySet;
  };
  /** Find the key set of a team whose JWTs name a URL as issuer, as OIDC libraries do. */
  'get /team/{team}/.well-known/openid-configuration': {
    input: {
      /** id of the team */
      team: string;
    };
    output: GetOpenIdConfigurationResult;
  };
  /** Get the public signing keys of all teams that share them; to verify JWTs, use your team's own address. */
  'get /.well-known/jwks.json': {
    input: {
      /** id of the team whose keys to answer; absent: all teams */
      team?: string | undefined;
    };
    output: KeySet;
  };
  /** Create a link token (`link:write`). */
  'post /api/v1/link-token': {
    input: CreateLinkTokenRequest;
    output: CreateLinkTokenResult;
  };
  /** Validate a link token (`link:read`). */
  'get /api/v1/link-token/{token}': {
    input: {
      /** the link token */
      token: string;
    };
    output: LinkToken;
  };
  /** Revoke a link token (`link:write`). */
  'delete /api/v1/link-token/{token}': {
    input: {
      /** the link token */
      token: string;
    };
    output: LinkToken;
  };
  /** Create an access token with at most the rights of your own (`token:write`). */
  'post /api/v1/access-token': {
    input: CreateAccessTokenRequest;
    output: CreateAccessTokenResult;
  };
  /** List access tokens, also revoked ones, without their secrets (`token:write`). */
  'get /api/v1/access-token': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListAccessTokensResult;
  };
  /** Get an access token, without its secret (`token:write`). */
  'get /api/v1/access-token/{id}': {
    input: {
      /** id of the access token */
      id: string;
    };
    output: GetAccessTokenResult;
  };
  /** Revoke an access token, also your own, with all that it made; within a second they are refused (`token:write`). */
  'delete /api/v1/access-token/{id}': {
    input: {
      /** id of the access token */
      id: string;
      /** whether the tokens that it made, and that these made, are revoked too */
      descendants?: boolean | undefined;
    };
    output: DeleteAccessTokenResult;
  };
  /** List who changed what, and who was denied (`audit:read`). */
  'get /api/v1/audit-log': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
      /** only changes that this access token made */
      tokenId?: string | undefined;
      /** only changes of this kind of resource */
      resource?:
        | 'access_token'
        | 'adjustment'
        | 'api_key'
        | 'billing'
        | 'grant'
        | 'grant_schedule'
        | 'jwt'
        | 'jwt_settings'
        | 'link_token'
        | 'quota'
        | 'scope'
        | 'session'
        | 'signing_key'
        | 'webhook'
        | 'workspace'
        | 'workspace_month'
        | undefined;
      /** only changes of this resource */
      resourceId?: string | undefined;
      /** only changes of this request */
      requestId?: string | undefined;
      /** only lines with this outcome */
      outcome?: 'changed' | 'denied' | undefined;
      /** only lines of this client address */
      address?: string | undefined;
      /** first day, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** which lines come first */
      order?: 'oldest' | 'newest' | undefined;
    };
    output: ListAuditLogResult;
  };
  /** Have events posted to a URL; only this answer contains the secret that signs them (`webhook:write`). */
  'post /api/v1/webhook': {
    input: CreateWebhookRequest;
    output: CreateWebhookResult;
  };
  /** List the webhooks, oldest first (`webhook:read`). */
  'get /api/v1/webhook': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListWebhooksResult;
  };
  /** Get a webhook, without its secret (`webhook:read`). */
  'get /api/v1/webhook/{wid}': {
    input: {
      /** id of the webhook */
      wid: string;
    };
    output: GetWebhookResult;
  };
  /** List what was told to a webhook in the last 30 days, newest first, with each try (`webhook:read`). */
  'get /api/v1/webhook/{wid}/deliveries': {
    input: {
      /** id of the webhook */
      wid: string;
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListWebhookDeliveriesResult;
  };
  /** Enable or disable a webhook, or change its URL or events (`webhook:write`). */
  'patch /api/v1/webhook/{wid}': {
    input: {
      /** id of the webhook */
      wid: string;
    } & UpdateWebhookRequest;
    output: UpdateWebhookResult;
  };
  /** Give a webhook a new secret; only this answer contains it (`webhook:write`). */
  'post /api/v1/webhook/{wid}/rotate': {
    input: {
      /** id of the webhook */
      wid: string;
    } & RotateWebhookSecretRequest;
    output: RotateWebhookSecretResult;
  };
  /** Send an event of type webhook.test to a webhook (`webhook:write`). */
  'post /api/v1/webhook/{wid}/test': {
    input: {
      /** id of the webhook */
      wid: string;
    };
    output: TestWebhookResult;
  };
  /** Deliver an event again, now, under the same webhook-id (`webhook:write`). */
  'post /api/v1/webhook/{wid}/delivery/{did}/redeliver': {
    input: {
      /** id of the webhook */
      wid: string;
      /** id of the webhook delivery */
      did: string;
    };
    output: RedeliverWebhookResult;
  };
  /** Delete a webhook with its secret and its deliveries, also those that wait (`webhook:write`). */
  'delete /api/v1/webhook/{wid}': {
    input: {
      /** id of the webhook */
      wid: string;
    };
    output: DeleteWebhookResult;
  };
  /** Get the team's limits and what it has used of them (`workspace:read`). */
  'get /api/v1/quota': {
    input: {};
    output: GetQuotaResult;
  };
}

export type Verification = {
  /** the key to verify */
  key: string;
  requestedScopes?: Array<WantedScope> | undefined;
  /** recorded with the event; at most 1024 bytes in UTF-8 */
  route?: string | undefined;
  billing?:
    | {
        /** what this call costs: decimal text, at most six decimals, at most 9000000000 */
        usage?: string | undefined;
        /** what is counted; at most 256 bytes in UTF-8 */
        usageName?: string | undefined;
        hold?: HoldOptions | undefined;
      }
    | undefined;
  /** the end client's address, for allow lists */
  ip?: string | undefined;
};

export type WantedScope = {
  /** what the scope stands for, unique in its workspace */
  representation: string;
  /** may create */
  create?: boolean | undefined;
  /** may read */
  read?: boolean | undefined;
  /** may update */
  update?: boolean | undefined;
  /** may delete */
  del?: boolean | undefined;
  id?: string | undefined;
};

export type HoldOptions = {
  /** for how many seconds the credits are held */
  expiresIn: number;
  /** what becomes of the credits where nobody captures or releases them in time */
  onExpiry?: 'release' | 'charge' | undefined;
};

export type Decision = {
  status:
    'VALID' | 'EXPIRED' | 'DISABLED' | 'DELETED' | 'RATE_LIMITED' | 'USAGE_LIMITED' | 'INVALID_SCOPES' | 'INVALID';
  /** id of the API key */
  apiKeyId?: string;
  /** your own id of the customer */
  customerId?: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId?: string;
  /** when the key expires, in Unix milliseconds */
  expiresAt?: number;
  requestedScopes?: Array<GrantedScope>;
  scopes?: Array<GrantedScope>;
  billing?: BillingRecord;
  hold?: Hold;
  rateLimit?: {
    /** what is left of the tightest limit on requests */
    remaining: number;
    /** when that allowance is whole again, in Unix milliseconds */
    resetAt: number;
    /** that limit */
    limit: number;
    /** the length of its window */
    windowSeconds: number;
  };
  /** the limits over windows of the key and its billing record */
  limits?: Array<LimitState>;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown>;
  /** why the key was refused; absent when it is VALID */
  reason?:
    | 'MALFORMED'
    | 'NOT_FOUND'
    | 'DELETED'
    | 'DISABLED'
    | 'EXPIRED'
    | 'IP_NOT_ALLOWED'
    | 'SCOPE_MISSING'
    | 'RATE_LIMIT'
    | 'LIMIT_REACHED'
    | 'CREDITS_USED_UP'
    | 'SPEND_CAP_REACHED'
    | 'NO_BILLING_RECORD';
  limitedBy?: LimitedBy;
};

export type GrantedScope = {
  /** what the scope stands for, unique in its workspace */
  representation: string;
  create: boolean;
  read: boolean;
  update: boolean;
  del: boolean;
  id?: string;
};

export type BillingRecord = {
  /** id of the billing record */
  id: string;
  /** id of the workspace */
  workspaceId: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId: string;
  /** credits bought, ever: decimal text, at most six decimals, at most 9000000000 */
  totalCredits: string;
  /** credits used, ever: decimal text, at most six decimals, at most 9000000000 */
  usedCredits: string;
  /** what is left: total less used, held and expired; below 0 where more was used: decimal text, at most six decimals, at most 9000000000 either way */
  availableCredits: string;
  /** credits that holds have reserved: decimal text, at most six decimals, at most 9000000000 */
  heldCredits: string;
  /** credits that were left when their grants ended: decimal text, at most six decimals, at most 9000000000 */
  expiredCredits: string;
  /** whether use may go on beyond totalCredits */
  allowOverages: boolean;
  /** most that may be used: decimal text, at most six decimals, at most 9000000000 */
  spendCap?: string;
  /** limits over windows */
  limits?: Array<Limit>;
  /** its own alerts; absent: its workspace's, and in the answer of a verification */
  alerts?: Array<Alert>;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when its settings last changed, RFC 3339 in UTC */
  updatedAt: string;
};

export type Limit = {
  /** name, unique among the limits of its place */
  name: string;
  /** what it counts */
  unit: 'requests' | 'credits';
  /** most of it in the window: of requests a whole number from 1 to 9000000000, of credits decimal text above 0 */
  limit: number | string;
  /** its window: second, minute and hour, or 2 to 59 seconds or minutes and 2 to 23 hours (`5 minutes`), slide; day, week (from Monday), month and year are those of the calendar, and 2 to 31 days (`10 days`) are counted from 1970-01-01 */
  per: string;
  /** the zone of the calendar, by its IANA name; without one UTC */
  timezone?: string;
  /** counts only calls under this name; at most 256 bytes in UTF-8 */
  usageName?: string;
  /** whether it only watches: it is counted and told, and refuses nothing */
  shadow?: boolean;
};

export type Alert = {
  /** its name, unique among them */
  name: string;
  when: {
    /** percent of totalCredits less expiredCredits; with `limit`, of what that limit allows */
    usedPercent?: number;
    /** credits that are left, or fewer; holds are not looked at: decimal text, at most six decimals, at most 9000000000 */
    available?: string;
    /** name of a limit of the record for a day, a week or a month */
    limit?: string;
  };
};

export type Hold = {
  /** id of the hold, as the verification answered it */
  id: string;
  /** what is held: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
  /** when the hold ends, in Unix milliseconds */
  expiresAt: number;
};

export type LimitState = {
  /** whose limit it is */
  on: 'key' | 'workspace' | 'billing';
  /** name, unique among the limits of its place */
  name: string;
  /** what is left: requests as a number, credits as decimal text */
  remaining: number | string;
  /** when the allowance is whole again, in Unix milliseconds */
  resetAt: number;
  /** of a limit that only watches: whether it would have refused this call */
  wouldRefuse?: boolean;
};

export type LimitedBy = {
  /** whose limit it is */
  on: 'key' | 'workspace' | 'billing';
  /** name, unique among the limits of its place */
  name: string;
  /** the limit as it is set */
  limit: number | string;
  /** when the allowance is whole again; absent where the call costs more than all of it, in Unix milliseconds */
  resetAt?: number;
  /** when a call like this one may pass it; absent likewise, in Unix milliseconds */
  retryAt?: number;
};

export type VerifyKeysRequest = { verifications: Array<BatchedVerification> };

export type BatchedVerification = {
  /** the key to verify */
  key: string;
  requestedScopes?: Array<WantedScope> | undefined;
  /** recorded with the event; at most 1024 bytes in UTF-8 */
  route?: string | undefined;
  billing?:
    | {
        /** what this call costs: decimal text, at most six decimals, at most 9000000000 */
        usage?: string | undefined;
        /** what is counted; at most 256 bytes in UTF-8 */
        usageName?: string | undefined;
        hold?: HoldOptions | undefined;
      }
    | undefined;
  /** the end client's address, for allow lists */
  ip?: string | undefined;
  /** makes repeating this verification safe, as the header Idempotency-Key does for a single one */
  idempotencyKey?: string | undefined;
};

export type VerifyKeysResult = {
  /** in the order of the verifications: what each alone would be answered, or its error */
  results: Array<Decision | FailedVerification>;
};

export type FailedVerification = {
  error: {
    /** HTTP status times 100 plus a running number */
    code: number;
    /** what is wrong and what would be right */
    message: string;
    details?: Array<{
      /** a JSON pointer into the body, or the name of a parameter */
      path: string;
      /** what is wrong there, or what would be right */
      message: string;
    }>;
  };
};

export type CancelVerificationRequest = {
  /** the key that was verified */
  key: string;
  /** the Idempotency-Key of the verification, sent with the same access token */
  idempotencyKey: string;
};

export type CancelVerificationResult = { cancellation: Cancellation };

export type Cancellation = {
  /** what was given back: debited, or held: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
};

export type CreateKeyRequest = {
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** id of the workspace */
  workspaceId: string;
  /** what the key may do; each representation at most once */
  scopes?: Array<WantedScope> | undefined;
  enabled?: boolean | undefined;
  /** your own id of the customer */
  customerId?: string | undefined;
  /** what keys start with */
  prefix?: string | undefined;
  /** when it expires, in Unix milliseconds; in the future */
  expiresAt?: number | null | undefined;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId?: string | undefined;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown> | undefined;
  /** verifications per second */
  rateLimitPerSecond?: number | undefined;
  /** limits over windows */
  limits?: Array<Limit> | undefined;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  allowedIPs?: Array<string> | undefined;
};

export type CreateKeyResult = { apiKey: ApiKeyWithSecret };

export type ApiKeyWithSecret = {
  /** id of the API key */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** the key without its middle part */
  maskedKey: string;
  /** what keys start with */
  prefix: string;
  /** when it expires; absent: never, in Unix milliseconds */
  expiresAt?: number;
  scopes: Array<GrantedScope>;
  /** whether it may be used */
  enabled: boolean;
  /** your own id of the customer */
  customerId?: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId?: string;
  /** id of the billing record of its meter, once one exists */
  billingId?: string;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown>;
  /** verifications per second */
  rateLimitPerSecond?: number;
  /** limits over windows */
  limits?: Array<Limit>;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  allowedIPs?: Array<string>;
  /** whether it was deleted; only an import of its secret can bring it back */
  deleted: boolean;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it last changed, RFC 3339 in UTC */
  updatedAt: string;
  /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
  lastUsedAt?: string;
  /** the key itself; only this answer contains it */
  key: string;
};

export type ImportKeysRequest = {
  keys: Array<{
    /** the secret itself, 8 to 512 printable characters without blanks; it is hashed and forgotten */
    key?: string | undefined;
    hash?:
      | {
          algorithm: 'sha256';
          /** base64 with `+/` or `-_`, with or without `=` */
          encoding: 'hex' | 'base64';
          /** the SHA-256 of the secret */
          value: string;
        }
      | undefined;
    /** whether a text with fewer than 64 random bits, which could be guessed, is taken all the same */
    allowWeak?: boolean | undefined;
    /** name that people see, not blank and without invisible characters */
    name: string;
    /** id of the workspace */
    workspaceId: string;
    /** what the key may do; each representation at most once */
    scopes?: Array<WantedScope> | undefined;
    enabled?: boolean | undefined;
    /** your own id of the customer */
    customerId?: string | undefined;
    /** what keys start with */
    prefix?: string | undefined;
    /** when it expires, in Unix milliseconds; in the future */
    expiresAt?: number | null | undefined;
    /** your own id of the meter; it ties keys to the billing record of the same meter */
    externalMeterId?: string | undefined;
    /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
    metadata?: Record<string, unknown> | undefined;
    /** verifications per second */
    rateLimitPerSecond?: number | undefined;
    /** limits over windows */
    limits?: Array<Limit> | undefined;
    /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
    allowedIPs?: Array<string> | undefined;
    /** makes the billing record of externalMeterId where there is none, and grants it credits, once: in the step that makes the key. Needs billing:write */
    billing?:
      | {
          /** whether a record that is made for it lets use go on beyond its credits */
          allowOverages?: boolean | undefined;
          /** credits granted at once: decimal text, at most six decimals, at most 9000000000 */
          credits?: string | undefined;
          /** when these end; absent: never, in Unix milliseconds */
          expiresAt?: number | undefined;
          schedule?:
            | {
                /** credits granted for each period, above 0: decimal text, at most six decimals, at most 9000000000 */
                credits: string;
                /** how long a period is */
                every: 'day' | 'week' | 'month' | 'year';
                /** name of a time zone (IANA), in whose local time periods are counted */
                timezone?: string | undefined;
                /** when a period begins, from which the others are counted; default now, in Unix milliseconds */
                anchorAt?: number | undefined;
              }
            | undefined;
        }
      | undefined;
    /** whether a deleted key of this secret comes back, with the fields of this item that PATCH can change, and with its first meter if it has none */
    restore?: boolean | undefined;
  }>;
};

export type ImportKeysResult = {
  /** what became of each item, by its place */
  results: Array<ImportResult>;
};

export type ImportResult = {
  /** imported by this call; or the secret was a key of this workspace before, which stays as it is; or it was deleted, and this call brought it back */
  result?: 'imported' | 'existing' | 'restored';
  apiKey?: ApiKey;
  error?: {
    /** as in answers that refuse a whole request */
    code: number;
    message: string;
    details?: Array<{
      /** a JSON pointer into the item */
      path: string;
      message: string;
    }>;
  };
};

export type ApiKey = {
  /** id of the API key */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** the key without its middle part */
  maskedKey: string;
  /** what keys start with */
  prefix: string;
  /** when it expires; absent: never, in Unix milliseconds */
  expiresAt?: number;
  scopes: Array<GrantedScope>;
  /** whether it may be used */
  enabled: boolean;
  /** your own id of the customer */
  customerId?: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId?: string;
  /** id of the billing record of its meter, once one exists */
  billingId?: string;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown>;
  /** verifications per second */
  rateLimitPerSecond?: number;
  /** limits over windows */
  limits?: Array<Limit>;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  allowedIPs?: Array<string>;
  /** whether it was deleted; only an import of its secret can bring it back */
  deleted: boolean;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it last changed, RFC 3339 in UTC */
  updatedAt: string;
  /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
  lastUsedAt?: string;
};

export type ListKeysResult = {
  apiKeys: Array<ApiKey>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type GetKeyResult = { apiKey: ApiKey };

export type UpdateKeyRequest = {
  /** name that people see, not blank and without invisible characters */
  name?: string | undefined;
  enabled?: boolean | undefined;
  /** when it expires, in Unix milliseconds; in the future */
  expiresAt?: number | null | undefined;
  /** what the key may do; each representation at most once */
  scopes?: Array<WantedScope> | null | undefined;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown> | null | undefined;
  /** verifications per second */
  rateLimitPerSecond?: number | null | undefined;
  /** limits over windows */
  limits?: Array<Limit> | null | undefined;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  allowedIPs?: Array<string> | null | undefined;
  /** the meter of a key that has none; a key keeps its meter */
  externalMeterId?: string | undefined;
};

export type UpdateKeyResult = { apiKey: ApiKey };

export type ReportLeakedSecretsRequest = {
  /** where secrets may stand: part of a log, a commit, a message; it is neither stored nor logged */
  text: string;
};

export type ReportLeakedSecretsResult = {
  keys: Array<{
    /** id of the API key */
    id: string;
    /** id of the workspace */
    workspaceId: string;
    /** the secret without its middle part */
    maskedKey: string;
    /** disabled by this call, disabled before, or of no use: replaced by a rotation whose grace is over, or deleted */
    result: 'disabled' | 'was_disabled' | 'replaced' | 'deleted';
  }>;
  accessTokens: Array<{
    /** id of the access token */
    id: string;
    /** the secret without its middle part */
    maskedToken: string;
    /** revoked by this call, revoked before, or reported alone, because your token lacks the permission to revoke it */
    result: 'revoked' | 'was_revoked' | 'reported';
  }>;
  linkTokens: Array<{
    /** id of the link token */
    id: string;
    /** the secret without its middle part */
    maskedToken: string;
    /** revoked by this call, revoked before, or reported alone, because your token lacks the permission to revoke it */
    result: 'revoked' | 'was_revoked' | 'reported';
  }>;
  /** secrets with a right checksum that are not of your team, or not within your reach, or of no server at all */
  notFound: Array<string>;
};

export type RotateKeyRequest = {
  /** for how long at most the 10 latest earlier secrets stay valid beside the new one, with the same limits and credits; 0: not at all */
  graceSeconds?: number | undefined;
};

export type RotateKeyResult = { apiKey: ApiKeyWithSecret };

export type DeleteKeyResult = { apiKey: ApiKey };

export type CreateWorkspaceRequest = {
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** what keys start with */
  defaultKeyPrefix?: string | null | undefined;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  defaultAllowedIPs?: Array<string> | null | undefined;
  /** verifications per second */
  defaultRateLimitPerSecond?: number | null | undefined;
  /** limits over windows */
  defaultLimits?: Array<Limit> | null | undefined;
  /** lifetime of a new key in seconds */
  defaultExpiration?: number | null | undefined;
  /** what is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent` */
  defaultAlerts?: Array<Alert> | null | undefined;
  /** whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients */
  keepClientAddresses?: boolean | undefined;
  /** name of the time zone (IANA) in whose days and calendar months statements are made; of a new workspace default UTC */
  timezone?: string | undefined;
};

export type CreateWorkspaceResult = { workspace: Workspace };

export type Workspace = {
  /** id of the workspace */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** id of the team */
  teamId: string;
  /** what keys start with */
  defaultKeyPrefix?: string;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  defaultAllowedIPs: Array<string>;
  /** verifications per second */
  defaultRateLimitPerSecond?: number;
  /** limits over windows */
  defaultLimits?: Array<Limit>;
  /** lifetime of a new key in seconds */
  defaultExpiration?: number;
  /** what is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent` */
  defaultAlerts?: Array<Alert>;
  /** whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients */
  keepClientAddresses: boolean;
  /** name of the time zone (IANA) in whose days and calendar months statements are made */
  timezone: string;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it last changed, RFC 3339 in UTC */
  updatedAt: string;
};

export type ListWorkspacesResult = {
  workspaces: Array<Workspace>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type GetWorkspaceResult = { workspace: Workspace };

export type GetWorkspaceProofResult = { proof: WorkspaceProof };

export type WorkspaceProof = {
  /** when the last comparison of all records began; absent before the first one, RFC 3339 in UTC */
  provedAt?: string;
  /** records that differ */
  differentRecords: number;
  /** records whose events were still on their way to the books */
  undecidedRecords: number;
  /** the first 100 records that differ */
  different: Array<DifferentRecord>;
};

export type DifferentRecord = {
  /** id of the billing record */
  billingId: string;
  /** the record's external meter */
  externalMeterId: string;
  /** whether the books contain less than was used, or more */
  status: 'MISSING' | 'TOO_MUCH';
  /** used credits missing in the books, or else in the daily usage; negative: too much: decimal text, at most six decimals, at most 9000000000 either way */
  difference: string;
  /** reserved credits missing in the books; negative: too much: decimal text, at most six decimals, at most 9000000000 either way */
  heldDifference: string;
  /** since when it differs so, RFC 3339 in UTC */
  since: string;
};

export type UpdateWorkspaceRequest = {
  /** name that people see, not blank and without invisible characters */
  name?: string | undefined;
  /** what keys start with */
  defaultKeyPrefix?: string | null | undefined;
  /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
  defaultAllowedIPs?: Array<string> | null | undefined;
  /** verifications per second */
  defaultRateLimitPerSecond?: number | null | undefined;
  /** limits over windows */
  defaultLimits?: Array<Limit> | null | undefined;
  /** lifetime of a new key in seconds */
  defaultExpiration?: number | null | undefined;
  /** what is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent` */
  defaultAlerts?: Array<Alert> | null | undefined;
  /** whether the refusals of the last 24 hours (GET /api/v1/verifications/recent) keep the addresses of end clients */
  keepClientAddresses?: boolean | undefined;
  /** name of the time zone (IANA) in whose days and calendar months statements are made; of a new workspace default UTC */
  timezone?: string | undefined;
};

export type UpdateWorkspaceResult = { workspace: Workspace };

export type DeleteWorkspaceResult = { workspace: Workspace };

export type CloseMonthRequest = {
  /** the month to close, YYYY-MM */
  month: string;
  /** also store lines of records whose books differ; they say what differs */
  acceptDifferences?: boolean | undefined;
};

export type CloseMonthResult = { closing: MonthClosing };

export type MonthClosing = {
  /** id of the workspace */
  workspaceId: string;
  /** the month, YYYY-MM */
  month: string;
  /** the time zone in which it was closed */
  timezone: string;
  /** first day, in the time zone, YYYY-MM-DD in UTC */
  from: string;
  /** last day, in the time zone, YYYY-MM-DD in UTC */
  to: string;
  /** lines of records are being stored; or all are, and nothing of the month changes any more */
  status: 'CLOSING' | 'CLOSED';
  /** how many records have a line */
  records?: number;
  waitsFor?: {
    /** records of which events are on their way */
    pending: number;
    /** records whose books differ */
    different: number;
    /** the first of them */
    billingIds: Array<string>;
  };
  /** when it was closed, RFC 3339 in UTC */
  closedAt?: string;
};

export type CreateScopeRequest = {
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** what the scope stands for, unique in its workspace */
  representation: string;
  /** what the scope is for */
  description?: string | null | undefined;
};

export type CreateScopeResult = { scope: Scope };

export type Scope = {
  /** id of the scope */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** what the scope stands for, unique in its workspace */
  representation: string;
  /** what the scope is for */
  description: string | null;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it last changed, RFC 3339 in UTC */
  updatedAt: string;
};

export type ListScopesResult = { scopes: Array<Scope> };

export type GetScopeResult = { scope: Scope };

export type UpdateScopeRequest = {
  /** name that people see, not blank and without invisible characters */
  name?: string | undefined;
  /** what the scope stands for, unique in its workspace */
  representation?: string | undefined;
  /** what the scope is for */
  description?: string | null | undefined;
};

export type UpdateScopeResult = { scope: Scope };

export type DeleteScopeResult = { scope: Scope };

export type CreateBillingRequest = {
  /** id of the workspace */
  workspaceId: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId: string;
  /** initial credits: decimal text, at most six decimals, at most 9000000000 */
  totalCredits?: string | undefined;
  /** whether use may go on beyond totalCredits */
  allowOverages?: boolean | undefined;
  /** most that may be used: decimal text, at most six decimals, at most 9000000000 */
  spendCap?: string | undefined;
  /** limits over windows */
  limits?: Array<Limit> | undefined;
  /** what is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent` */
  alerts?: Array<Alert> | null | undefined;
};

export type CreateBillingResult = {
  billing: BillingRecord;
  /** alerts that are never told: they name no limit of the record for a day, a week or a month; absent without any */
  warnings?: Array<Warning>;
};

export type Warning = {
  /** a JSON pointer into the body, or the name of a parameter */
  path: string;
  /** what is wrong there, or what would be right */
  message: string;
};

export type ListBillingsResult = {
  billings: Array<BillingRecord>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type GetBillingOfMeterResult = { billing: BillingRecord };

export type RefillBillingRequest = {
  /** id of the workspace */
  workspaceId: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId: string;
  /** credits to add, as decimal text or as a JSON number; above 0, at most six decimals, at most 9000000000 */
  refill: string | number;
};

export type RefillBillingResult = { billing: BillingRecord };

export type GetBillingResult = { billing: BillingRecord };

export type AdjustBillingRequest = {
  /** credits used in addition, or, if negative, given back: decimal text, at most six decimals, at most 9000000000 either way */
  amount: string;
  /** why; the books keep it */
  reason: string;
  /** the day to book it on, not before the month in which the workspace was made; default today in UTC, or the first day of the open month if that is later, YYYY-MM-DD in UTC */
  day?: string | undefined;
  /** what is counted, default "default"; at most 256 bytes in UTF-8 */
  usageName?: string | undefined;
};

export type AdjustBillingResult = { adjustment: Adjustment };

export type Adjustment = {
  /** id of the event in the books */
  id: string;
  /** id of the billing record */
  billingId: string;
  /** number of the adjustment; each record's start at 1 */
  number: number;
  /** credits used in addition, or, if negative, given back: decimal text, at most six decimals, at most 9000000000 either way */
  amount: string;
  usageName: string;
  /** the day it is booked on, YYYY-MM-DD in UTC */
  day: string;
  reason: string;
  /** id of the access token that made the adjustment */
  tokenId: string;
  /** X-Request-Id of the request */
  requestId: string;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
};

export type UpdateBillingRequest = {
  /** whether use may go on beyond totalCredits */
  allowOverages?: boolean | undefined;
  /** most that may be used; null for no cap: decimal text, at most six decimals, at most 9000000000 */
  spendCap?: string | null | undefined;
  /** limits over windows */
  limits?: Array<Limit> | null | undefined;
  /** what is told once it is reached: `usedPercent`, `available`, or `limit` with `usedPercent` */
  alerts?: Array<Alert> | null | undefined;
};

export type UpdateBillingResult = {
  billing: BillingRecord;
  /** alerts that are never told: they name no limit of the record for a day, a week or a month; absent without any */
  warnings?: Array<Warning>;
};

export type ListLedgerResult = {
  ledger: Array<LedgerRow>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type LedgerRow = {
  /** id of the ledger row */
  id: string;
  /** id of the billing record */
  billingId: string;
  /** credits added: decimal text, at most six decimals, at most 9000000000 */
  amount: string;
  /** totalCredits after the refill: decimal text, at most six decimals, at most 9000000000 */
  totalCredits: string;
  /** id of the access token that made the refill */
  tokenId: string;
  /** X-Request-Id of the request */
  requestId: string;
  /** when the credits were added, RFC 3339 in UTC */
  createdAt: string;
};

export type CreateGrantRequest = {
  /** credits to grant, above 0: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
  /** name that people see, not blank and without invisible characters */
  name?: string | undefined;
  /** when it begins, default now; up to 60 s past means now, in Unix milliseconds */
  beginsAt?: number | undefined;
  /** when it ends, in Unix milliseconds; default never */
  expiresAt?: number | undefined;
  /** which grants are drawn first: those of the lowest number, among them the one that ends first, then the older */
  priority?: number | undefined;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown> | undefined;
};

export type CreateGrantResult = { grant: Grant; billing: BillingRecord };

export type Grant = {
  /** id of the grant */
  id: string;
  /** id of the billing record */
  billingId: string;
  /** credits granted: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
  /** name that people see, not blank and without invisible characters */
  name?: string;
  /** the first that applies: it was voided, has ended, has yet to begin, is used up; or it is drawn from */
  state: 'VOIDED' | 'EXPIRED' | 'PENDING' | 'USED_UP' | 'ACTIVE';
  /** credits of it that were used: decimal text, at most six decimals, at most 9000000000 */
  usedCredits: string;
  /** what was left of it when it ended or was voided: decimal text, at most six decimals, at most 9000000000 */
  expiredCredits: string;
  /** the rest; of an ended one what holds keep that were open then: decimal text, at most six decimals, at most 9000000000 */
  remainingCredits: string;
  /** which grants are drawn first: those of the lowest number, among them the one that ends first, then the older */
  priority: number;
  /** when it begins, or began, in Unix milliseconds */
  beginsAt: number;
  /** when it ends; absent: never, in Unix milliseconds */
  expiresAt?: number;
  /** id of the grant schedule that made it */
  scheduleId?: string;
  /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
  metadata?: Record<string, unknown>;
  /** when it was voided, in Unix milliseconds */
  voidedAt?: number;
  /** why it was voided */
  reason?: string;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
};

export type ListGrantsResult = {
  grants: Array<Grant>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type GetGrantResult = { grant: Grant };

export type VoidGrantRequest = {
  /** why it was voided */
  reason: string;
};

export type VoidGrantResult = { grant: Grant; billing: BillingRecord };

export type ListAlertsResult = {
  alerts: Array<AlertTold>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type AlertTold = {
  /** its own id */
  id: string;
  /** its name, unique among them */
  name: string;
  when: {
    /** percent of totalCredits less expiredCredits; with `limit`, of what that limit allows */
    usedPercent?: number;
    /** credits that are left, or fewer; holds are not looked at: decimal text, at most six decimals, at most 9000000000 */
    available?: string;
    /** name of a limit of the record for a day, a week or a month */
    limit?: string;
  };
  /** when it was crossed, in Unix milliseconds */
  at: number;
  /** usedCredits after what crossed it: decimal text */
  usedCredits: string;
  /** id of the event that crossed it */
  eventId: string;
};

export type CreateGrantScheduleRequest = {
  /** credits to grant for each period, above 0: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
  /** how long a period is */
  every: 'day' | 'week' | 'month' | 'year';
  /** name of a time zone (IANA), in whose local time periods are counted */
  timezone?: string | undefined;
  /** when a period begins, from which the others are counted; default now, in Unix milliseconds */
  anchorAt?: number | undefined;
  /** no period begins at or after it; default never, in Unix milliseconds */
  endsAt?: number | undefined;
  /** which grants are drawn first: those of the lowest number, among them the one that ends first, then the older */
  priority?: number | undefined;
  /** name that people see, not blank and without invisible characters */
  name?: string | undefined;
  rollover?:
    | {
        /** most that lives on when a period ends, for one period more: decimal text, at most six decimals, at most 9000000000 */
        maxCredits: string;
      }
    | undefined;
};

export type CreateGrantScheduleResult = { grantSchedule: GrantSchedule };

export type GrantSchedule = {
  /** id of the grant schedule */
  id: string;
  /** id of the billing record */
  billingId: string;
  /** credits granted for each period: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
  /** name that people see, not blank and without invisible characters */
  name?: string;
  /** how long a period is */
  every: 'day' | 'week' | 'month' | 'year';
  /** name of a time zone (IANA), in whose local time periods are counted */
  timezone: string;
  /** when the first period begins, or began, in Unix milliseconds */
  anchorAt: number;
  /** no period begins at or after it, in Unix milliseconds */
  endsAt?: number;
  /** which grants are drawn first: those of the lowest number, among them the one that ends first, then the older */
  priority: number;
  rollover?: {
    /** most that lives on when a period ends, for one period more: decimal text, at most six decimals, at most 9000000000 */
    maxCredits: string;
  };
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
};

export type ListGrantSchedulesResult = {
  grantSchedules: Array<GrantSchedule>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type DeleteGrantScheduleResult = { grantSchedule: GrantSchedule };

export type ReconcileBillingResult = { reconciliation: Reconciliation };

export type Reconciliation = {
  /** id of the billing record */
  billingId: string;
  /** whether the books contain all usage, less, or more; or events are still on their way to them */
  status: 'EXACT' | 'MISSING' | 'TOO_MUCH' | 'ON_ITS_WAY';
  /** used credits as Redis debits them: decimal text, at most six decimals, at most 9000000000 either way */
  usedCredits: string;
  /** the sum of all distinct events in the books: decimal text, at most six decimals, at most 9000000000 either way */
  bookedCredits: string;
  /** what the daily usage of these events adds up to: decimal text, at most six decimals, at most 9000000000 either way */
  billedCredits: string;
  /** used credits after the last event in the books: decimal text, at most six decimals, at most 9000000000 either way */
  lastBalance: string;
  /** used credits missing in the books, or else in the daily usage; negative: too much: decimal text, at most six decimals, at most 9000000000 either way */
  difference: string;
  /** reserved credits as Redis counts them: decimal text, at most six decimals, at most 9000000000 either way */
  heldCredits: string;
  /** what the events in the books add up to: decimal text, at most six decimals, at most 9000000000 either way */
  bookedHeldCredits: string;
  /** reserved credits missing in the books; negative: too much: decimal text, at most six decimals, at most 9000000000 either way */
  heldDifference: string;
  grants?: GrantProof;
  /** where events are missing */
  gaps: Array<EventGap>;
  /** usage that was lost with a Redis server, and is neither debited nor booked */
  losses: Array<EventGap>;
};

export type GrantProof = {
  /** totalCredits as Redis counts them: decimal text, at most six decimals, at most 9000000000 either way */
  totalCredits: string;
  /** the sum of all grants that have begun: decimal text, at most six decimals, at most 9000000000 either way */
  grantedCredits: string;
  /** expiredCredits as Redis counts them: decimal text, at most six decimals, at most 9000000000 either way */
  expiredCredits: string;
  /** what of the grants is neither used, nor held, nor left: decimal text, at most six decimals, at most 9000000000 either way */
  grantsExpiredCredits: string;
  /** credits that the balance lacks in one of them, or in what its grants gave: decimal text, at most six decimals, at most 9000000000 either way */
  difference: string;
};

export type EventGap = {
  after: EventPosition;
  before?: EventPosition;
  /** how many numbers are missing */
  events: number;
  /** their cost, by the balances before and after them: decimal text, at most six decimals, at most 9000000000 either way */
  credits?: string;
};

export type EventPosition = {
  /** the epoch of the record's shard, which grows each time the shard opens */
  epoch: number;
  /** the number of the event in its epoch */
  number: number;
  /** id of the event in the books */
  eventId?: string;
};

export type GetStatementResult = { statement: Statement };

export type Statement = {
  /** id of the billing record */
  billingId: string;
  /** id of the workspace */
  workspaceId: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId: string;
  /** the month, if one was asked for, YYYY-MM */
  month?: string;
  /** first day, in the time zone, YYYY-MM-DD in UTC */
  from: string;
  /** last day, in the time zone, YYYY-MM-DD in UTC */
  to: string;
  /** the workspace's time zone */
  timezone: string;
  /** whether the month is closed for this record: then nothing of it changes any more */
  closed: boolean;
  opening: StatementBalances;
  /** in the order of day, kind and name */
  movements: Array<StatementMovement>;
  closing: StatementBalances;
  proof: StatementProof;
};

export type StatementBalances = {
  /** credits that were granted, ever: decimal text, at most six decimals, at most 9000000000 */
  total: string;
  /** credits used, ever: decimal text, exact; negative where it takes away */
  used: string;
  /** credits that expired, ever: decimal text, exact; negative where it takes away */
  expired: string;
  /** total less used and expired; what holds reserved at a past moment is in no book: decimal text, exact; negative where it takes away */
  remaining: string;
};

export type StatementMovement = {
  /** the day, YYYY-MM-DD in UTC */
  day: string;
  /** grants that began, what expired of them or was voided; usage by name; adjustments; what is late, of a month that was closed before; usage that was lost, which adds nothing */
  kind: 'granted' | 'expired' | 'voided' | 'usage' | 'adjustment' | 'late' | 'loss';
  /** usage name, or name of the grant */
  name: string;
  /** what it adds to */
  balance: 'total' | 'used' | 'expired';
  /** what it adds: decimal text, exact; negative where it takes away */
  amount: string;
  /** verifications and captures; of a loss those that were lost, of lines that are told as one how many */
  events?: number;
  /** id of the grant */
  grantId?: string;
  /** id of the event of the adjustment */
  eventId?: string;
  /** id of the access token that made the adjustment */
  tokenId?: string;
  /** why */
  reason?: string;
  /** the closed month that what is late belongs to, YYYY-MM */
  month?: string;
  /** what a loss would have cost, where that is known: decimal text, at most six decimals, at most 9000000000 either way */
  lost?: string;
};

export type StatementProof = {
  /** the books have all that was debited; or events are on their way to them; or they differ */
  status: 'EXACT' | 'PENDING' | 'DIFFERENT';
  /** how many are on their way, as far as that is known */
  pendingEvents?: number;
  /** what differs */
  differences?: Array<{
    what: string;
    /** by how much: decimal text, exact; negative where it takes away */
    credits: string;
  }>;
};

export type ListStatementsResult = {
  statements: Array<StatementLine>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type StatementLine = {
  /** id of the billing record */
  billingId: string;
  /** your own id of the meter; it ties keys to the billing record of the same meter */
  externalMeterId: string;
  /** first day, in the time zone, YYYY-MM-DD in UTC */
  from: string;
  /** last day, in the time zone, YYYY-MM-DD in UTC */
  to: string;
  /** the workspace's time zone */
  timezone: string;
  /** credits granted before: decimal text, exact; negative where it takes away */
  openingTotal: string;
  /** credits used before: decimal text, exact; negative where it takes away */
  openingUsed: string;
  /** credits expired before: decimal text, exact; negative where it takes away */
  openingExpired: string;
  /** what remained before: decimal text, exact; negative where it takes away */
  openingRemaining: string;
  /** grants that began: decimal text, exact; negative where it takes away */
  granted: string;
  /** what expired of grants: decimal text, exact; negative where it takes away */
  expired: string;
  /** what was voided: decimal text, exact; negative where it takes away */
  voided: string;
  /** usage: decimal text, exact; negative where it takes away */
  usage: string;
  /** adjustments: decimal text, exact; negative where it takes away */
  adjustments: string;
  /** usage of months that were closed before: decimal text, exact; negative where it takes away */
  late: string;
  /** verifications and captures */
  events: number;
  /** credits granted until the end: decimal text, exact; negative where it takes away */
  closingTotal: string;
  /** credits used until the end: decimal text, exact; negative where it takes away */
  closingUsed: string;
  /** credits expired until the end: decimal text, exact; negative where it takes away */
  closingExpired: string;
  /** what remained at the end: decimal text, exact; negative where it takes away */
  closingRemaining: string;
  /** as in the statement */
  proof: 'EXACT' | 'PENDING' | 'DIFFERENT';
  /** whether the month is closed for this record */
  closed: boolean;
};

export type ListHoldsResult = {
  holds: Array<OpenHold>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type OpenHold = {
  /** id of the hold, as the verification answered it */
  id: string;
  /** what is held: decimal text, at most six decimals, at most 9000000000 */
  credits: string;
  /** id of the API key that it was held for */
  apiKeyId: string;
  /** what is counted; at most 256 bytes in UTF-8 */
  usageName: string;
  /** what becomes of the credits at its end */
  onExpiry: 'release' | 'charge';
  /** since when it is held, RFC 3339 in UTC */
  createdAt: string;
  /** when the hold ends, in Unix milliseconds */
  expiresAt: number;
};

export type CaptureHoldRequest = {
  /** id of the hold, as the verification answered it */
  holdId: string;
  /** what it did cost: decimal text, at most six decimals, at most 9000000000 */
  usage: string;
};

export type CaptureHoldResult = { capture: Capture; billing: BillingRecord };

export type Capture = {
  /** id of the hold, as the verification answered it */
  holdId: string;
  /** what was debited: decimal text, at most six decimals, at most 9000000000 */
  usage: string;
  /** whether the hold had ended before */
  late: boolean;
  /** whether the record has less than it used and holds */
  overdrawn: boolean;
};

export type ReleaseHoldRequest = {
  /** id of the hold, as the verification answered it */
  holdId: string;
};

export type ReleaseHoldResult = { release: Release; billing: BillingRecord };

export type Release = {
  /** id of the hold, as the verification answered it */
  holdId: string;
};

export type ExtendHoldRequest = {
  /** id of the hold, as the verification answered it */
  holdId: string;
  /** for how many seconds from now on the credits are held */
  expiresIn: number;
};

export type ExtendHoldResult = { hold: Hold; billing: BillingRecord };

export type GetUsageResult = { data: Array<UsageRow> };

export type UsageRow = {
  /** id of the billing record; absent for keys without one */
  billingId?: string;
  /** the record's external meter */
  externalMeterId?: string;
  /** what is counted */
  usageName?: string;
  /** id of the API key; absent for corrections */
  apiKeyId?: string;
  /** what the verifications named */
  route?: string;
  /** true for all routes beyond the 1000 largest of the answer together */
  other?: boolean;
  /** the key's customer */
  customerId?: string;
  /** credits used, decimal text; corrections may make it negative */
  totalBillingUsage: string;
  /** number of verifications and captures, also of those that cost nothing */
  events: number;
  /** true where `from` or `to` lies within the period: the row has only what is between */
  partial?: boolean;
  /** the day, in rows without `start`, YYYY-MM-DD in UTC */
  day?: string;
  /** what is counted, in rows with `day` */
  billingUsageName?: string;
  /** where the period begins, also of one that is asked for in part, RFC 3339 with the offset of the time zone */
  start?: string;
};

export type ListUsageResult = {
  data: Array<UsageOfPeriod>;
  /** start of the first period that is not over: usage from there on may still change, also between pages */
  openFrom?: string;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type UsageOfPeriod = {
  /** where the period begins, also of one that is asked for in part, RFC 3339 with the offset of the time zone */
  start: string;
  /** id of the billing record; absent for keys without one */
  billingId?: string;
  /** the record's external meter */
  externalMeterId?: string;
  /** what is counted */
  usageName?: string;
  /** id of the API key; absent for corrections */
  apiKeyId?: string;
  /** what the verifications named */
  route?: string;
  /** true for all routes beyond the 1000 largest of the answer together */
  other?: boolean;
  /** the key's customer */
  customerId?: string;
  /** credits used, decimal text; corrections may make it negative */
  totalBillingUsage: string;
  /** number of verifications and captures, also of those that cost nothing */
  events: number;
  /** true where `from` or `to` lies within the period: the row has only what is between */
  partial?: boolean;
};

export type ListRecentVerificationsResult = { data: Array<RecentVerification> };

export type RecentVerification = {
  /** when it was decided, RFC 3339 in UTC */
  time: string;
  /** id of the API key */
  apiKeyId: string;
  /** the answer to the call */
  status:
    'VALID' | 'EXPIRED' | 'DISABLED' | 'DELETED' | 'RATE_LIMITED' | 'USAGE_LIMITED' | 'INVALID_SCOPES' | 'INVALID';
  /** why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID */
  reason?:
    | 'MALFORMED'
    | 'NOT_FOUND'
    | 'DELETED'
    | 'DISABLED'
    | 'EXPIRED'
    | 'IP_NOT_ALLOWED'
    | 'SCOPE_MISSING'
    | 'RATE_LIMIT'
    | 'LIMIT_REACHED'
    | 'CREDITS_USED_UP'
    | 'SPEND_CAP_REACHED'
    | 'NO_BILLING_RECORD'
    | 'NO_KEY'
    | 'TWO_KEYS';
  /** the route that the call named */
  route?: string;
  limitedBy?: {
    /** whose limit it is */
    on: 'key' | 'workspace' | 'billing';
    /** name, unique among the limits of its place */
    name: string;
    /** the limit as it is set */
    limit: number | string;
  };
  /** of a refusal: the end client's address, where the call named it and the workspace keeps it */
  clientAddress?: string;
};

export type CountVerificationsResult = {
  data: Array<VerificationCount>;
  /** calls that passed limits which only watch (`shadow`), and that these would have refused; not in `data` */
  wouldRefuse: Array<VerificationCount>;
};

export type VerificationCount = {
  /** when the period begins, RFC 3339 with the offset of the zone */
  start: string;
  /** the answer to the call */
  status?:
    'VALID' | 'EXPIRED' | 'DISABLED' | 'DELETED' | 'RATE_LIMITED' | 'USAGE_LIMITED' | 'INVALID_SCOPES' | 'INVALID';
  /** why it was refused; NO_KEY and TWO_KEYS are those of gateways; absent when it was VALID */
  reason?:
    | 'MALFORMED'
    | 'NOT_FOUND'
    | 'DELETED'
    | 'DISABLED'
    | 'EXPIRED'
    | 'IP_NOT_ALLOWED'
    | 'SCOPE_MISSING'
    | 'RATE_LIMIT'
    | 'LIMIT_REACHED'
    | 'CREDITS_USED_UP'
    | 'SPEND_CAP_REACHED'
    | 'NO_BILLING_RECORD'
    | 'NO_KEY'
    | 'TWO_KEYS';
  /** the route that the call named */
  route?: string;
  /** the limit that refused: its place, a slash, and its name */
  limit?: string;
  /** id of the API key */
  apiKeyId?: string;
  /** the key's name now; only for tokens with `key:read` */
  apiKeyName?: string;
  /** your own id of the customer */
  customerId?: string;
  /** how many calls */
  count: number;
};

export type CreateJwtRequest = {
  /** claims of your own: a JSON object of at most 4096 bytes and 10 levels, without keys __proto__, constructor and prototype */
  payload: Record<string, unknown>;
  /** the recipient that the JWT is meant for */
  aud?: string | undefined;
  /** lifetime in seconds */
  exp?: number | undefined;
  /** the workspaces that the JWT is limited to; absent: those of the access token that signs it */
  workspaceIds?: Array<string> | undefined;
};

export type CreateJwtResult = {
  /** the JWT */
  jwt: string;
};

export type VerifyJwtRequest = {
  /** the JWT */
  jwt: string;
};

export type VerifyJwtResult = {
  status: 'VALID' | 'EXPIRED' | 'INVALID';
  /** why a JWT that your team did sign is INVALID all the same */
  reason?: 'REVOKED' | 'KEY_RETIRED' | 'WORKSPACE_FORBIDDEN';
  /** the payload as it was signed; present if the JWT is VALID or EXPIRED */
  payload?: Record<string, unknown>;
  /** when it expires, in Unix seconds */
  exp?: number;
  /** the recipient that the JWT is meant for */
  aud?: string;
  /** the workspaces that it is limited to; absent: it is for the whole team */
  workspaceIds?: Array<string>;
};

export type RevokeJwtRequest = {
  /** the `jti` of a JWT */
  jti?: string | undefined;
  /** the JWT */
  jwt?: string | undefined;
};

export type RevokeJwtResult = {
  /** the `jti` of a JWT */
  jti: string;
  /** until when the revocation is kept: by then the JWT has expired, in Unix milliseconds */
  expiresAt: number;
};

export type RotateSigningKeyRequest = {
  /** ends all earlier keys at once: they leave the key sets, and JWTs that they signed are INVALID */
  retireNow?: boolean | undefined;
};

export type RotateSigningKeyResult = {
  /** id of the signing key */
  kid: string;
};

export type GetJwtSettingsResult = { jwtSettings: JwtSettings };

export type JwtSettings = {
  /** whether the key set of all teams contains the team's keys */
  sharedKeySet: boolean;
  /** what new JWTs name as `iss` */
  issuer: 'TEAM_ID' | 'URL';
  /** the `iss` of new JWTs */
  iss: string;
  /** address of the team's own key set */
  jwksUri: string;
};

export type UpdateJwtSettingsRequest = {
  /** whether the key set of all teams contains the team's keys */
  sharedKeySet?: boolean | undefined;
  /** what new JWTs name as `iss`: the team's id, or a URL from which OIDC libraries find the key set */
  issuer?: 'TEAM_ID' | 'URL' | undefined;
};

export type UpdateJwtSettingsResult = { jwtSettings: JwtSettings };

export type KeySet = { keys: Array<PublicJwk> };

export type PublicJwk = {
  kty: string;
  crv: string;
  /** the key itself, base64url */
  x: string;
  /** id of the signing key */
  kid: string;
  alg: string;
  use: string;
};

export type GetOpenIdConfigurationResult = {
  /** the `iss` of the JWTs */
  issuer: string;
  /** address of the key set */
  jwks_uri: string;
  response_types_supported: Array<'id_token'>;
  subject_types_supported: Array<'public'>;
  id_token_signing_alg_values_supported: Array<'EdDSA'>;
};

export type CreateLinkTokenRequest = {
  /** id of the workspace */
  workspaceId: string;
  /** your own id of the customer */
  customerId: string;
  /** your own id of the billing to link */
  externalBillingId?: string | undefined;
  /** id of the billing record whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace */
  billingId?: string | undefined;
  /** what the customer may do in the portal besides looking; `rotate`: rotate the own keys */
  permissions?: Array<'rotate'> | undefined;
  /** lifetime in seconds; it ends no later than your own token */
  expiresIn?: number | undefined;
};

export type CreateLinkTokenResult = {
  linkToken: {
    /** id of the link token */
    id: string;
    /** the link token; only this answer contains it */
    token: string;
    /** when it expires, in Unix milliseconds */
    expiresAt: number;
    /** id of the workspace */
    workspaceId: string;
    /** your own id of the customer */
    customerId: string;
    /** your own id of the billing to link */
    externalBillingId?: string;
    /** id of the billing record whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace */
    billingId?: string;
    /** what the customer may do in the portal besides looking; `rotate`: rotate the own keys */
    permissions?: Array<'rotate'>;
  };
};

export type LinkToken = {
  /** whether it is in force */
  valid: boolean;
  /** when it expires, in Unix milliseconds */
  expiresAt?: number;
  /** id of the workspace */
  workspaceId?: string;
  /** your own id of the customer */
  customerId?: string;
  /** your own id of the billing to link */
  externalBillingId?: string;
  /** id of the billing record whose balance and statement the portal shows, while all of its keys are the customer's; one of the workspace */
  billingId?: string;
  /** what the customer may do in the portal besides looking; `rotate`: rotate the own keys */
  permissions?: Array<'rotate'>;
};

export type CreateAccessTokenRequest = {
  /** name that people see, not blank and without invisible characters */
  name: string;
  permissions: Array<
    | 'workspace:read'
    | 'workspace:write'
    | 'key:read'
    | 'key:write'
    | 'key:verify'
    | 'billing:read'
    | 'billing:write'
    | 'usage:read'
    | 'jwt:sign'
    | 'jwt:verify'
    | 'jwt:revoke'
    | 'link:read'
    | 'link:write'
    | 'token:write'
    | 'audit:read'
    | 'webhook:read'
    | 'webhook:write'
  >;
  /** the workspaces it is limited to; absent: all of the team */
  workspaceIds?: Array<string> | undefined;
  /** the addresses and CIDR blocks that it may be used from; absent: those of your own token; an empty list: all */
  allowedIPs?: Array<string> | undefined;
  /** when it expires, in Unix milliseconds; in the future */
  expiresAt?: number | undefined;
};

export type CreateAccessTokenResult = {
  accessToken: {
    /** id of the access token */
    id: string;
    /** name that people see, not blank and without invisible characters */
    name: string;
    /** the part of the token that may be shown */
    maskedToken: string;
    permissions: Array<
      | 'workspace:read'
      | 'workspace:write'
      | 'key:read'
      | 'key:write'
      | 'key:verify'
      | 'billing:read'
      | 'billing:write'
      | 'usage:read'
      | 'jwt:sign'
      | 'jwt:verify'
      | 'jwt:revoke'
      | 'link:read'
      | 'link:write'
      | 'token:write'
      | 'audit:read'
      | 'webhook:read'
      | 'webhook:write'
    >;
    /** the workspaces it is limited to; absent: all */
    workspaceIds?: Array<string>;
    /** the IPv4 and IPv6 addresses and CIDR blocks that it may be used from; an empty list allows all */
    allowedIPs?: Array<string>;
    /** when it expires, in Unix milliseconds */
    expiresAt?: number;
    /** id of the access token that made it; absent: an operator did */
    createdBy?: string;
    /** whether it was revoked; that is final */
    revoked: boolean;
    /** when it was made, RFC 3339 in UTC */
    createdAt: string;
    /** the secret; only this answer contains it */
    token: string;
  };
};

export type ListAccessTokensResult = {
  accessTokens: Array<AccessToken>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type AccessToken = {
  /** id of the access token */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** the part of the token that may be shown */
  maskedToken: string;
  permissions: Array<
    | 'workspace:read'
    | 'workspace:write'
    | 'key:read'
    | 'key:write'
    | 'key:verify'
    | 'billing:read'
    | 'billing:write'
    | 'usage:read'
    | 'jwt:sign'
    | 'jwt:verify'
    | 'jwt:revoke'
    | 'link:read'
    | 'link:write'
    | 'token:write'
    | 'audit:read'
    | 'webhook:read'
    | 'webhook:write'
  >;
  /** the workspaces it is limited to; absent: all */
  workspaceIds?: Array<string>;
  /** the IPv4 and IPv6 addresses and CIDR blocks that it may be used from; an empty list allows all */
  allowedIPs?: Array<string>;
  /** when it expires, in Unix milliseconds */
  expiresAt?: number;
  /** id of the access token that made it; absent: an operator did */
  createdBy?: string;
  /** whether it was revoked; that is final */
  revoked: boolean;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it was last used; at most a minute behind, RFC 3339 in UTC */
  lastUsedAt?: string;
  /** when it was revoked, RFC 3339 in UTC */
  revokedAt?: string;
};

export type GetAccessTokenResult = { accessToken: AccessToken };

export type DeleteAccessTokenResult = {
  accessToken: AccessToken;
  descendants: {
    /** how many of its descendants this call revoked */
    revoked: number;
    /** whether more follow within minutes; the api refuses these already, and verifies for no longer than that */
    pending: boolean;
  };
};

export type ListAuditLogResult = {
  auditLog: Array<AuditEntry>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type AuditEntry = {
  /** id of the audit entry */
  id: string;
  /** method and path of the operation, or the command of the operator */
  operation: string;
  /** `denied`: attempts of a known access token that were refused with 401 or 403, and touched nothing */
  outcome: 'changed' | 'denied';
  /** why attempts were denied */
  errorCode?: number;
  /** how many attempts of this token, operation and error were denied; the line tells of the first one */
  attempts?: number;
  resource?:
    | 'access_token'
    | 'adjustment'
    | 'api_key'
    | 'billing'
    | 'grant'
    | 'grant_schedule'
    | 'jwt'
    | 'jwt_settings'
    | 'link_token'
    | 'quota'
    | 'scope'
    | 'session'
    | 'signing_key'
    | 'webhook'
    | 'workspace'
    | 'workspace_month';
  /** id of what changed */
  resourceId?: string;
  /** who it was */
  actor: 'access_token' | 'operator';
  /** id of the access token that made the change; absent: the operator */
  tokenId?: string;
  /** address of the client; absent: the operator, or work that went on after the answer */
  address?: string;
  /** User-Agent of the client, at most 256 characters */
  userAgent?: string;
  /** X-Request-Id of the request */
  requestId?: string;
  /** as it was; absent: it was created, without secrets; of a field above 2048 bytes its size and the SHA-256 of its JSON */
  before?: Record<string, unknown>;
  /** as it is since then; absent: it is gone, without secrets; of a field above 2048 bytes its size and the SHA-256 of its JSON */
  after?: Record<string, unknown>;
  /** when it changed, or was denied, RFC 3339 in UTC */
  createdAt: string;
};

export type CreateWebhookRequest = {
  /** where events are posted: `https://`, with the name of a host that can be reached from outside */
  url: string;
  /** the types of events that it gets */
  events: Array<
    | 'credits.alert'
    | 'credits.exhausted'
    | 'credits.replenished'
    | 'grant.began'
    | 'grant.expiring'
    | 'grant.expired'
    | 'limit.reached'
    | 'key.created'
    | 'key.rotated'
    | 'key.deleted'
    | 'key.expiring'
    | 'hold.expired'
    | 'books.different'
    | 'month.closed'
  >;
  /** id of the workspace whose events it gets; absent: those of all */
  workspaceId?: string | undefined;
  /** what it is for */
  description?: string | undefined;
};

export type CreateWebhookResult = { webhook: NewWebhook };

export type NewWebhook = {
  /** id of the webhook */
  id: string;
  /** where events are posted: `https://`, with the name of a host that can be reached from outside */
  url: string;
  /** the types of events that it gets */
  events: Array<
    | 'credits.alert'
    | 'credits.exhausted'
    | 'credits.replenished'
    | 'grant.began'
    | 'grant.expiring'
    | 'grant.expired'
    | 'limit.reached'
    | 'key.created'
    | 'key.rotated'
    | 'key.deleted'
    | 'key.expiring'
    | 'hold.expired'
    | 'books.different'
    | 'month.closed'
  >;
  /** id of the workspace whose events it gets; absent: those of all */
  workspaceId?: string;
  /** what it is for */
  description?: string;
  enabled: boolean;
  /** why it is not enabled: a request, an answer 410, or five days of failures */
  disabledReason?: 'REQUESTED' | 'GONE' | 'FAILING';
  /** when it was disabled, RFC 3339 in UTC */
  disabledAt?: string;
  /** since when every try failed, RFC 3339 in UTC */
  failingSince?: string;
  /** events that it did not get, because too many were waiting */
  missedEvents: number;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when its settings last changed, RFC 3339 in UTC */
  updatedAt: string;
  /** the secret that signs: only this answer contains it */
  secret: string;
};

export type ListWebhooksResult = {
  webhooks: Array<Webhook>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type Webhook = {
  /** id of the webhook */
  id: string;
  /** where events are posted: `https://`, with the name of a host that can be reached from outside */
  url: string;
  /** the types of events that it gets */
  events: Array<
    | 'credits.alert'
    | 'credits.exhausted'
    | 'credits.replenished'
    | 'grant.began'
    | 'grant.expiring'
    | 'grant.expired'
    | 'limit.reached'
    | 'key.created'
    | 'key.rotated'
    | 'key.deleted'
    | 'key.expiring'
    | 'hold.expired'
    | 'books.different'
    | 'month.closed'
  >;
  /** id of the workspace whose events it gets; absent: those of all */
  workspaceId?: string;
  /** what it is for */
  description?: string;
  enabled: boolean;
  /** why it is not enabled: a request, an answer 410, or five days of failures */
  disabledReason?: 'REQUESTED' | 'GONE' | 'FAILING';
  /** when it was disabled, RFC 3339 in UTC */
  disabledAt?: string;
  /** since when every try failed, RFC 3339 in UTC */
  failingSince?: string;
  /** events that it did not get, because too many were waiting */
  missedEvents: number;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when its settings last changed, RFC 3339 in UTC */
  updatedAt: string;
};

export type GetWebhookResult = { webhook: Webhook };

export type ListWebhookDeliveriesResult = {
  deliveries: Array<WebhookDelivery>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type WebhookDelivery = {
  /** type of the event */
  type: string;
  /** id of the webhook delivery */
  id: string;
  /** `webhook-id` of the event, the same at every try */
  eventId: string;
  state: 'WAITING' | 'DELIVERED' | 'FAILED';
  /** when the event was told, RFC 3339 in UTC */
  createdAt: string;
  /** when it is tried next, RFC 3339 in UTC */
  nextTryAt?: string;
  /** its latest tries, oldest first */
  tries: Array<WebhookTry>;
};

export type WebhookTry = {
  /** when it began, RFC 3339 in UTC */
  at: string;
  /** how long it took */
  durationMs: number;
  /** HTTP status of the answer */
  status?: number;
  /** why there was no whole answer */
  error?: string;
  /** the first 1 KB of the answer; of a receiver inside 200 bytes */
  answer?: string;
};

export type UpdateWebhookRequest = {
  /** whether events are delivered */
  enabled?: boolean | undefined;
  /** the types of events that it gets */
  events?:
    | Array<
        | 'credits.alert'
        | 'credits.exhausted'
        | 'credits.replenished'
        | 'grant.began'
        | 'grant.expiring'
        | 'grant.expired'
        | 'limit.reached'
        | 'key.created'
        | 'key.rotated'
        | 'key.deleted'
        | 'key.expiring'
        | 'hold.expired'
        | 'books.different'
        | 'month.closed'
      >
    | undefined;
  /** where events are posted: `https://`, with the name of a host that can be reached from outside */
  url?: string | undefined;
};

export type UpdateWebhookResult = { webhook: Webhook };

export type RotateWebhookSecretRequest = {
  /** within 24 hours of a rotation: replaces the secret that it made, at once; the one before still signs until its 24 hours are over */
  replaceLatest?: boolean | undefined;
};

export type RotateWebhookSecretResult = { webhook: NewWebhook };

export type TestWebhookResult = { delivery: WebhookDelivery };

export type RedeliverWebhookResult = { delivery: WebhookDelivery };

export type DeleteWebhookResult = { webhook: Webhook };

export type GetQuotaResult = { quota: Quota };

export type Quota = {
  /** workspaces that are not deleted */
  workspaces: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** API keys that are not deleted */
  keys: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** scopes that are not deleted, of all workspaces */
  scopes: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** access tokens that are not revoked */
  accessTokens: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** billing records, also those of deleted workspaces */
  billingRecords: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** bytes that all of these take, also deleted keys, whose records stay, and grants, refills and adjustments */
  storedBytes: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** link tokens, also revoked ones, until 30 days after they expire */
  linkTokens: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** bytes that the answers kept under Idempotency-Keys take, each for 24 hours */
  keptAnswerBytes: {
    /** how many the team may have */
    limit: number;
    /** how many it has */
    used: number;
  };
  /** verifications per second, on each process */
  verifyPerSecond: {
    /** how many the team may have */
    limit: number;
  };
  /** management calls per second, on each process */
  apiPerSecond: {
    /** how many the team may have */
    limit: number;
  };
};

/** How people read a status; the two limits are temporary blocks. */
export const displayForms = {
  VALID: 'Active',
  EXPIRED: 'Expired',
  DISABLED: 'Inactive',
  DELETED: 'Inactive',
  RATE_LIMITED: 'Rate Limited',
  USAGE_LIMITED: 'Usage Limited',
  INVALID_SCOPES: 'Invalid Scopes',
  INVALID: 'Invalid',
} as const;

/** Why a request is refused: its key's status, or what kept a key from being verified. */
export type Refused = keyof typeof refusals;

/** The codes and messages of keytally's catalogue of errors for it. */
export const refusals = {
  NO_KEY: [40110, 'The API key is missing; send it as Authorization: Bearer, x-api-key or Authorization: Basic.'],
  TWO_KEYS: [
    40111,
    'The request holds several API keys; send one, and only one of the two parts of Authorization: Basic.',
  ],
  INVALID: [40112, 'Invalid: this is not a valid API key of this service.'],
  EXPIRED: [40113, 'Expired: the API key has expired.'],
  DISABLED: [40114, 'Inactive: the API key is disabled.'],
  DELETED: [40115, 'Inactive: the API key was deleted.'],
  INVALID_SCOPES: [40310, 'Invalid Scopes: the API key lacks a scope that this request needs.'],
  IP_NOT_ALLOWED: [40311, 'Invalid: the API key may not be used from this address.'],
  RATE_LIMITED: [42910, 'Rate Limited: a temporary block, too many requests.'],
  REQUESTS_USED_UP: [42912, 'Rate Limited: a temporary block, a limit on requests is used up.'],
  USAGE_LIMITED: [42911, 'Usage Limited: a temporary block, credits or a limit on credits do not cover this request.'],
  LIMIT_REACHED: [42913, 'Usage Limited: a temporary block, a limit on credits does not cover this request.'],
  COST_ABOVE_LIMIT: [40312, 'Usage Limited: this request costs more than all of a limit on credits.'],
  CREDITS_USED_UP: [40210, 'Usage Limited: the credits that are left do not cover this request.'],
  SPEND_CAP_REACHED: [40211, 'Usage Limited: this request would exceed the spend cap.'],
  NO_BILLING_RECORD: [40313, 'Usage Limited: there is no billing record that this request could be debited to.'],
  IDEMPOTENCY_MISMATCH: [40904, 'The Idempotency-Key was already used for a different request; use a new one.'],
  AWAY: [50311, 'The API key cannot be verified right now; repeat the request in a moment.'],
  FAILED: [50001, 'Something went wrong on our side; it was logged with the request id.'],
  MISCONFIGURED: [
    50002,
    'The request cannot be checked because of a mistake on our side; it was logged with the request id.',
  ],
} as const;
