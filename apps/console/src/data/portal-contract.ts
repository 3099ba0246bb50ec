// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.

/** What each operation of the portal takes and answers. */
export interface PortalContract {
  /** Get what the portal shows to its customer, and until when. */
  'get /api/v1/portal': {
    input: {};
    output: GetPortalResult;
  };
  /** List the customer's own API keys, without deleted ones. */
  'get /api/v1/portal/keys': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListPortalKeysResult;
  };
  /** Give one of the own API keys a new secret; only this answer contains it. */
  'post /api/v1/portal/key/{akid}/rotate': {
    input: {
      /** id of the API key */
      akid: string;
    } & RotatePortalKeyRequest;
    output: RotatePortalKeyResult;
  };
  /** Usage of the customer's own API keys, of each day and usage name. */
  'get /api/v1/portal/usage': {
    input: {
      /** first day; default 30 days before `to`, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day; default today, YYYY-MM-DD in UTC */
      to?: string | undefined;
    };
    output: GetPortalUsageResult;
  };
  /** Get the balance of the link token's billing record. */
  'get /api/v1/portal/billing': {
    input: {};
    output: GetPortalBillingResult;
  };
  /** List the grants of the link token's billing record, oldest first. */
  'get /api/v1/portal/grants': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: ListPortalGrantsResult;
  };
  /** Get the statement of the link token's billing record. */
  'get /api/v1/portal/statement': {
    input: {
      /** the month, YYYY-MM */
      month?: string | undefined;
      /** first day, instead of a month, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, at most 366 days later, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** 1: CSV begins with a byte order mark, by which Excel knows UTF-8 */
      bom?: '0' | '1' | undefined;
    };
    output: GetPortalStatementResult;
  };
  /** Get the statement of the link token's billing record. */
  'get /api/v1/portal/statement as text/csv': {
    input: {
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
}

export type GetPortalResult = { portal: Portal };

export type Portal = {
  /** your own id of the customer */
  customerId: string;
  /** what the customer may do in the portal besides looking; `rotate`: rotate the own keys */
  permissions: Array<'rotate'>;
  /** whether it shows a balance: the link names a billing record, and all its keys are of the customer */
  hasBalance: boolean;
  /** when it ends, in Unix milliseconds */
  expiresAt: number;
};

export type ListPortalKeysResult = {
  apiKeys: Array<PortalKey>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type PortalKey = {
  /** id of the API key */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** the key without its middle part */
  maskedKey: string;
  /** whether it may be used */
  enabled: boolean;
  /** when it expires; absent: never, in Unix milliseconds */
  expiresAt?: number;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
  lastUsedAt?: string;
};

export type RotatePortalKeyRequest = {
  /** for how long at most the 10 latest earlier secrets stay valid beside the new one, with the same limits and credits; 0: not at all */
  graceSeconds?: number | undefined;
};

export type RotatePortalKeyResult = { apiKey: PortalKeyWithSecret };

export type PortalKeyWithSecret = {
  /** id of the API key */
  id: string;
  /** name that people see, not blank and without invisible characters */
  name: string;
  /** the key without its middle part */
  maskedKey: string;
  /** whether it may be used */
  enabled: boolean;
  /** when it expires; absent: never, in Unix milliseconds */
  expiresAt?: number;
  /** when it was made, RFC 3339 in UTC */
  createdAt: string;
  /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
  lastUsedAt?: string;
  /** the key itself; only this answer contains it */
  key: string;
};

export type GetPortalUsageResult = { data: Array<PortalUsageRow> };

export type PortalUsageRow = {
  /** the day, YYYY-MM-DD in UTC */
  day: string;
  /** what is counted */
  billingUsageName: string;
  /** credits used, decimal text; corrections may make it negative */
  totalBillingUsage: string;
  /** number of verifications and captures, also of those that cost nothing */
  events: number;
};

export type GetPortalBillingResult = { billing: BillingRecord };

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

export type ListPortalGrantsResult = {
  grants: Array<Grant>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

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

export type GetPortalStatementResult = { statement: Statement };

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
