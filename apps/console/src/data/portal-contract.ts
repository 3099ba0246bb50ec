// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.

import type { BillingRecord, Grant, Statement } from '../../../../clients/node/contract.ts';

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

export type ListPortalGrantsResult = {
  grants: Array<Grant>;
  /** where the next page starts; absent on the last one */
  nextCursor?: string;
};

export type GetPortalStatementResult = { statement: Statement };
