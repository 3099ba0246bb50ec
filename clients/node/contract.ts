// Made by `npm run client` from the schemas of the OpenAPI document; changes here are lost.

/** What each operation takes (its path, query and body in one object) and answers. */
export interface Contract {
  /** Verify an API key and debit its cost (`key:verify`). */
  'post /api/v1/api-key/verify': {
    input: {
      /** the key to verify */
      key: string;
      requestedScopes?:
        | Array<{
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
          }>
        | undefined;
      /** recorded with the event; at most 1024 bytes in UTF-8 */
      route?: string | undefined;
      billing?:
        | {
            /** what this call costs: decimal text, at most six decimals, at most 9000000000 */
            usage?: string | undefined;
            /** what is counted; at most 256 bytes in UTF-8 */
            usageName?: string | undefined;
          }
        | undefined;
      /** the end client's address, for allow lists */
      ip?: string | undefined;
    };
    output: {
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
      requestedScopes?: Array<{
        /** what the scope stands for, unique in its workspace */
        representation: string;
        create: boolean;
        read: boolean;
        update: boolean;
        del: boolean;
        id?: string;
      }>;
      scopes?: Array<{
        /** what the scope stands for, unique in its workspace */
        representation: string;
        create: boolean;
        read: boolean;
        update: boolean;
        del: boolean;
        id?: string;
      }>;
      billing?: {
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
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when its settings last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
      rateLimit?: {
        /** what is left of this second's allowance */
        remaining: number;
        /** when the allowance is whole again, in Unix milliseconds */
        resetAt: number;
      };
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
        | 'CREDITS_USED_UP'
        | 'SPEND_CAP_REACHED'
        | 'NO_BILLING_RECORD';
    };
  };
  /** Verify up to 100 API keys and debit their costs, each by itself (`key:verify`). */
  'post /api/v1/api-key/verify/batch': {
    input: {
      verifications: Array<{
        /** the key to verify */
        key: string;
        requestedScopes?:
          | Array<{
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
            }>
          | undefined;
        /** recorded with the event; at most 1024 bytes in UTF-8 */
        route?: string | undefined;
        billing?:
          | {
              /** what this call costs: decimal text, at most six decimals, at most 9000000000 */
              usage?: string | undefined;
              /** what is counted; at most 256 bytes in UTF-8 */
              usageName?: string | undefined;
            }
          | undefined;
        /** the end client's address, for allow lists */
        ip?: string | undefined;
        /** makes repeating this verification safe, as the header Idempotency-Key does for a single one */
        idempotencyKey?: string | undefined;
      }>;
    };
    output: {
      /** in the order of the verifications: what each alone would be answered, or its error */
      results: Array<
        | {
            status:
              | 'VALID'
              | 'EXPIRED'
              | 'DISABLED'
              | 'DELETED'
              | 'RATE_LIMITED'
              | 'USAGE_LIMITED'
              | 'INVALID_SCOPES'
              | 'INVALID';
            /** id of the API key */
            apiKeyId?: string;
            /** your own id of the customer */
            customerId?: string;
            /** your own id of the meter; it ties keys to the billing record of the same meter */
            externalMeterId?: string;
            /** when the key expires, in Unix milliseconds */
            expiresAt?: number;
            requestedScopes?: Array<{
              /** what the scope stands for, unique in its workspace */
              representation: string;
              create: boolean;
              read: boolean;
              update: boolean;
              del: boolean;
              id?: string;
            }>;
            scopes?: Array<{
              /** what the scope stands for, unique in its workspace */
              representation: string;
              create: boolean;
              read: boolean;
              update: boolean;
              del: boolean;
              id?: string;
            }>;
            billing?: {
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
              /** when it was made, RFC 3339 in UTC */
              createdAt: string;
              /** when its settings last changed, RFC 3339 in UTC */
              updatedAt: string;
            };
            rateLimit?: {
              /** what is left of this second's allowance */
              remaining: number;
              /** when the allowance is whole again, in Unix milliseconds */
              resetAt: number;
            };
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
              | 'CREDITS_USED_UP'
              | 'SPEND_CAP_REACHED'
              | 'NO_BILLING_RECORD';
          }
        | {
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
          }
      >;
    };
  };
  /** Create an API key; only this answer contains the secret (`key:write`). */
  'post /api/v1/api-key': {
    input: {
      /** name that people see */
      name: string;
      /** id of the workspace */
      workspaceId: string;
      /** what the key may do; each representation at most once */
      scopes?:
        | Array<{
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
          }>
        | undefined;
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
      /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
      allowedIPs?: Array<string> | undefined;
    };
    output: {
      apiKey: {
        /** id of the API key */
        id: string;
        /** name that people see */
        name: string;
        /** the key without its middle part */
        maskedKey: string;
        /** what keys start with */
        prefix: string;
        /** when it expires; absent: never, in Unix milliseconds */
        expiresAt?: number;
        scopes: Array<{
          /** what the scope stands for, unique in its workspace */
          representation: string;
          create: boolean;
          read: boolean;
          update: boolean;
          del: boolean;
          id?: string;
        }>;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string>;
        /** whether it was deleted; that is final */
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
    };
  };
  /** Import API keys that were made elsewhere, up to 100; each item stands alone (`key:write`). */
  'post /api/v1/api-key/import': {
    input: {
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
        /** name that people see */
        name: string;
        /** id of the workspace */
        workspaceId: string;
        /** what the key may do; each representation at most once */
        scopes?:
          | Array<{
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
            }>
          | undefined;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string> | undefined;
      }>;
    };
    output: {
      /** what became of each item, by its place */
      results: Array<{
        /** imported by this call; or the secret was a key of this workspace before, which stays as it is */
        result?: 'imported' | 'existing';
        apiKey?: {
          /** id of the API key */
          id: string;
          /** name that people see */
          name: string;
          /** the key without its middle part */
          maskedKey: string;
          /** what keys start with */
          prefix: string;
          /** when it expires; absent: never, in Unix milliseconds */
          expiresAt?: number;
          scopes: Array<{
            /** what the scope stands for, unique in its workspace */
            representation: string;
            create: boolean;
            read: boolean;
            update: boolean;
            del: boolean;
            id?: string;
          }>;
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
          /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
          allowedIPs?: Array<string>;
          /** whether it was deleted; that is final */
          deleted: boolean;
          /** when it was made, RFC 3339 in UTC */
          createdAt: string;
          /** when it last changed, RFC 3339 in UTC */
          updatedAt: string;
          /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
          lastUsedAt?: string;
        };
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
      }>;
    };
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
      /** your own id of the customer */
      customerId?: string | undefined;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId?: string | undefined;
      /** only keys that are enabled, or only those that are not */
      enabled?: boolean | undefined;
      /** only keys that were deleted, or only those that were not */
      deleted?: boolean | undefined;
    };
    output: {
      apiKeys: Array<{
        /** id of the API key */
        id: string;
        /** name that people see */
        name: string;
        /** the key without its middle part */
        maskedKey: string;
        /** what keys start with */
        prefix: string;
        /** when it expires; absent: never, in Unix milliseconds */
        expiresAt?: number;
        scopes: Array<{
          /** what the scope stands for, unique in its workspace */
          representation: string;
          create: boolean;
          read: boolean;
          update: boolean;
          del: boolean;
          id?: string;
        }>;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string>;
        /** whether it was deleted; that is final */
        deleted: boolean;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
        /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
        lastUsedAt?: string;
      }>;
      /** where the next page starts; absent on the last one */
      nextCursor?: string;
    };
  };
  /** Get an API key, without its secret (`key:read`). */
  'get /api/v1/workspace/{id}/api-key/{akid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
    };
    output: {
      apiKey: {
        /** id of the API key */
        id: string;
        /** name that people see */
        name: string;
        /** the key without its middle part */
        maskedKey: string;
        /** what keys start with */
        prefix: string;
        /** when it expires; absent: never, in Unix milliseconds */
        expiresAt?: number;
        scopes: Array<{
          /** what the scope stands for, unique in its workspace */
          representation: string;
          create: boolean;
          read: boolean;
          update: boolean;
          del: boolean;
          id?: string;
        }>;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string>;
        /** whether it was deleted; that is final */
        deleted: boolean;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
        /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
        lastUsedAt?: string;
      };
    };
  };
  /** Change an API key; null clears a setting (`key:write`). */
  'patch /api/v1/workspace/{id}/api-key/{akid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
      /** name that people see */
      name?: string | undefined;
      enabled?: boolean | undefined;
      /** when it expires, in Unix milliseconds; in the future */
      expiresAt?: number | null | undefined;
      /** what the key may do; each representation at most once */
      scopes?:
        | Array<{
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
          }>
        | null
        | undefined;
      /** data of your own: a JSON object of at most 4096 bytes and 5 levels, without keys __proto__, constructor and prototype */
      metadata?: Record<string, unknown> | null | undefined;
      /** verifications per second */
      rateLimitPerSecond?: number | null | undefined;
      /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
      allowedIPs?: Array<string> | null | undefined;
    };
    output: {
      apiKey: {
        /** id of the API key */
        id: string;
        /** name that people see */
        name: string;
        /** the key without its middle part */
        maskedKey: string;
        /** what keys start with */
        prefix: string;
        /** when it expires; absent: never, in Unix milliseconds */
        expiresAt?: number;
        scopes: Array<{
          /** what the scope stands for, unique in its workspace */
          representation: string;
          create: boolean;
          read: boolean;
          update: boolean;
          del: boolean;
          id?: string;
        }>;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string>;
        /** whether it was deleted; that is final */
        deleted: boolean;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
        /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
        lastUsedAt?: string;
      };
    };
  };
  /** Report secrets that leaked: keys in the text are disabled, tokens revoked (`key:write`). */
  'post /api/v1/api-key/leaked': {
    input: {
      /** where secrets may stand: part of a log, a commit, a message; it is neither stored nor logged */
      text: string;
    };
    output: {
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
  };
  /** Give an API key a new secret; only this answer contains it (`key:write`). */
  'post /api/v1/workspace/{id}/api-key/{akid}/rotate': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
      /** for how long at most the 10 latest earlier secrets stay valid beside the new one, with the same limits and credits; 0: not at all */
      graceSeconds?: number | undefined;
    };
    output: {
      apiKey: {
        /** id of the API key */
        id: string;
        /** name that people see */
        name: string;
        /** the key without its middle part */
        maskedKey: string;
        /** what keys start with */
        prefix: string;
        /** when it expires; absent: never, in Unix milliseconds */
        expiresAt?: number;
        scopes: Array<{
          /** what the scope stands for, unique in its workspace */
          representation: string;
          create: boolean;
          read: boolean;
          update: boolean;
          del: boolean;
          id?: string;
        }>;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string>;
        /** whether it was deleted; that is final */
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
    };
  };
  /** Delete an API key for good; its record stays readable (`key:write`). */
  'delete /api/v1/workspace/{id}/api-key/{akid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the API key */
      akid: string;
    };
    output: {
      apiKey: {
        /** id of the API key */
        id: string;
        /** name that people see */
        name: string;
        /** the key without its middle part */
        maskedKey: string;
        /** what keys start with */
        prefix: string;
        /** when it expires; absent: never, in Unix milliseconds */
        expiresAt?: number;
        scopes: Array<{
          /** what the scope stands for, unique in its workspace */
          representation: string;
          create: boolean;
          read: boolean;
          update: boolean;
          del: boolean;
          id?: string;
        }>;
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
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        allowedIPs?: Array<string>;
        /** whether it was deleted; that is final */
        deleted: boolean;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
        /** when it last verified as VALID; at most a minute behind, RFC 3339 in UTC */
        lastUsedAt?: string;
      };
    };
  };
  /** Create a workspace (`workspace:write`). */
  'post /api/v1/workspace': {
    input: {
      /** name that people see */
      name: string;
      /** what keys start with */
      defaultKeyPrefix?: string | null | undefined;
      /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
      defaultAllowedIPs?: Array<string> | null | undefined;
      /** verifications per second */
      defaultRateLimitPerSecond?: number | null | undefined;
      /** lifetime of a new key in seconds */
      defaultExpiration?: number | null | undefined;
    };
    output: {
      workspace: {
        /** id of the workspace */
        id: string;
        /** name that people see */
        name: string;
        /** id of the team */
        teamId: string;
        /** what keys start with */
        defaultKeyPrefix?: string;
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        defaultAllowedIPs: Array<string>;
        /** verifications per second */
        defaultRateLimitPerSecond?: number;
        /** lifetime of a new key in seconds */
        defaultExpiration?: number;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** List the workspaces that the access token may use (`workspace:read`). */
  'get /api/v1/workspace': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: {
      workspaces: Array<{
        /** id of the workspace */
        id: string;
        /** name that people see */
        name: string;
        /** id of the team */
        teamId: string;
        /** what keys start with */
        defaultKeyPrefix?: string;
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        defaultAllowedIPs: Array<string>;
        /** verifications per second */
        defaultRateLimitPerSecond?: number;
        /** lifetime of a new key in seconds */
        defaultExpiration?: number;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
      }>;
      /** where the next page starts; absent on the last one */
      nextCursor?: string;
    };
  };
  /** Get a workspace (`workspace:read`). */
  'get /api/v1/workspace/{id}': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: {
      workspace: {
        /** id of the workspace */
        id: string;
        /** name that people see */
        name: string;
        /** id of the team */
        teamId: string;
        /** what keys start with */
        defaultKeyPrefix?: string;
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        defaultAllowedIPs: Array<string>;
        /** verifications per second */
        defaultRateLimitPerSecond?: number;
        /** lifetime of a new key in seconds */
        defaultExpiration?: number;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Change a workspace's name and the defaults of its keys (`workspace:write`). */
  'patch /api/v1/workspace/{id}': {
    input: {
      /** id of the workspace */
      id: string;
      /** name that people see */
      name?: string | undefined;
      /** what keys start with */
      defaultKeyPrefix?: string | null | undefined;
      /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
      defaultAllowedIPs?: Array<string> | null | undefined;
      /** verifications per second */
      defaultRateLimitPerSecond?: number | null | undefined;
      /** lifetime of a new key in seconds */
      defaultExpiration?: number | null | undefined;
    };
    output: {
      workspace: {
        /** id of the workspace */
        id: string;
        /** name that people see */
        name: string;
        /** id of the team */
        teamId: string;
        /** what keys start with */
        defaultKeyPrefix?: string;
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        defaultAllowedIPs: Array<string>;
        /** verifications per second */
        defaultRateLimitPerSecond?: number;
        /** lifetime of a new key in seconds */
        defaultExpiration?: number;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Delete a workspace for good: its keys are refused at once, its books stay readable (`workspace:write`). */
  'delete /api/v1/workspace/{id}': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: {
      workspace: {
        /** id of the workspace */
        id: string;
        /** name that people see */
        name: string;
        /** id of the team */
        teamId: string;
        /** what keys start with */
        defaultKeyPrefix?: string;
        /** IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all */
        defaultAllowedIPs: Array<string>;
        /** verifications per second */
        defaultRateLimitPerSecond?: number;
        /** lifetime of a new key in seconds */
        defaultExpiration?: number;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Create a scope in a workspace (`workspace:write`). */
  'post /api/v1/workspace/{id}/scope': {
    input: {
      /** id of the workspace */
      id: string;
      /** name that people see */
      name: string;
      /** what the scope stands for, unique in its workspace */
      representation: string;
      /** what the scope is for */
      description?: string | null | undefined;
    };
    output: {
      scope: {
        /** id of the scope */
        id: string;
        /** name that people see */
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
    };
  };
  /** List all scopes of a workspace (`workspace:read`). */
  'get /api/v1/workspace/{id}/scopes': {
    input: {
      /** id of the workspace */
      id: string;
    };
    output: {
      scopes: Array<{
        /** id of the scope */
        id: string;
        /** name that people see */
        name: string;
        /** what the scope stands for, unique in its workspace */
        representation: string;
        /** what the scope is for */
        description: string | null;
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when it last changed, RFC 3339 in UTC */
        updatedAt: string;
      }>;
    };
  };
  /** Get a scope (`workspace:read`). */
  'get /api/v1/workspace/{id}/scope/{sid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the scope */
      sid: string;
    };
    output: {
      scope: {
        /** id of the scope */
        id: string;
        /** name that people see */
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
    };
  };
  /** Change a scope; its representation only while no key has it (`workspace:write`). */
  'patch /api/v1/workspace/{id}/scope/{sid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the scope */
      sid: string;
      /** name that people see */
      name?: string | undefined;
      /** what the scope stands for, unique in its workspace */
      representation?: string | undefined;
      /** what the scope is for */
      description?: string | null | undefined;
    };
    output: {
      scope: {
        /** id of the scope */
        id: string;
        /** name that people see */
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
    };
  };
  /** Delete a scope, and with it every grant of it (`workspace:write`). */
  'delete /api/v1/workspace/{id}/scope/{sid}': {
    input: {
      /** id of the workspace */
      id: string;
      /** id of the scope */
      sid: string;
    };
    output: {
      scope: {
        /** id of the scope */
        id: string;
        /** name that people see */
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
    };
  };
  /** Create the billing record of a workspace's external meter (`billing:write`). */
  'post /api/v1/customer-billing': {
    input: {
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
    };
    output: {
      billing: {
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
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when its settings last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Get the billing record of a workspace's external meter (`billing:read`). */
  'get /api/v1/customer-billing': {
    input: {
      /** id of the workspace */
      workspaceId: string;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId: string;
    };
    output: {
      billing: {
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
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when its settings last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Add credits to a billing record (`billing:write`). */
  'post /api/v1/customer-billing/refill': {
    input: {
      /** id of the workspace */
      workspaceId: string;
      /** your own id of the meter; it ties keys to the billing record of the same meter */
      externalMeterId: string;
      /** credits to add, as decimal text or as a JSON number; above 0, at most six decimals, at most 9000000000 */
      refill: string | number;
    };
    output: {
      billing: {
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
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when its settings last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Get a billing record by its id (`billing:read`). */
  'get /api/v1/customer-billing/{bid}': {
    input: {
      /** id of the billing record */
      bid: string;
    };
    output: {
      billing: {
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
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when its settings last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
  };
  /** Correct the used credits of a billing record, in its balance and in its books (`billing:write`). */
  'post /api/v1/customer-billing/{bid}/adjustment': {
    input: {
      /** id of the billing record */
      bid: string;
      /** credits used in addition, or, if negative, given back: decimal text, at most six decimals, at most 9000000000 either way */
      amount: string;
      /** why; the books keep it */
      reason: string;
      /** the day to book it on, default today, YYYY-MM-DD in UTC */
      day?: string | undefined;
      /** what is counted, default "default"; at most 256 bytes in UTF-8 */
      usageName?: string | undefined;
    };
    output: {
      adjustment: {
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
    };
  };
  /** Change whether a billing record allows overages, and its spend cap (`billing:write`). */
  'patch /api/v1/customer-billing/{bid}': {
    input: {
      /** id of the billing record */
      bid: string;
      /** whether use may go on beyond totalCredits */
      allowOverages?: boolean | undefined;
      /** most that may be used; null for no cap: decimal text, at most six decimals, at most 9000000000 */
      spendCap?: string | null | undefined;
    };
    output: {
      billing: {
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
        /** when it was made, RFC 3339 in UTC */
        createdAt: string;
        /** when its settings last changed, RFC 3339 in UTC */
        updatedAt: string;
      };
    };
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
    output: {
      ledger: Array<{
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
      }>;
      /** where the next page starts; absent on the last one */
      nextCursor?: string;
    };
  };
  /** Prove the books of a billing record: compare its balance with its events (`billing:read`). */
  'get /api/v1/customer-billing/{bid}/reconciliation': {
    input: {
      /** id of the billing record */
      bid: string;
    };
    output: {
      reconciliation: {
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
        /** where events are missing */
        gaps: Array<{
          after: {
            /** the epoch of the record's shard, which grows each time the shard opens */
            epoch: number;
            /** the number of the event in its epoch */
            number: number;
            /** id of the event in the books */
            eventId?: string;
          };
          before?: {
            /** the epoch of the record's shard, which grows each time the shard opens */
            epoch: number;
            /** the number of the event in its epoch */
            number: number;
            /** id of the event in the books */
            eventId?: string;
          };
          /** how many numbers are missing */
          events: number;
          /** their cost, by the balances before and after them: decimal text, at most six decimals, at most 9000000000 either way */
          credits?: string;
        }>;
        /** usage that was lost with a Redis server, and is neither debited nor booked */
        losses: Array<{
          after: {
            /** the epoch of the record's shard, which grows each time the shard opens */
            epoch: number;
            /** the number of the event in its epoch */
            number: number;
            /** id of the event in the books */
            eventId?: string;
          };
          before?: {
            /** the epoch of the record's shard, which grows each time the shard opens */
            epoch: number;
            /** the number of the event in its epoch */
            number: number;
            /** id of the event in the books */
            eventId?: string;
          };
          /** how many numbers are missing */
          events: number;
          /** their cost, by the balances before and after them: decimal text, at most six decimals, at most 9000000000 either way */
          credits?: string;
        }>;
      };
    };
  };
  /** Daily usage of a billing record, by day and then by usage name (`usage:read`). */
  'get /api/v1/usage/{bid}': {
    input: {
      /** id of the billing record */
      bid: string;
      /** first day, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** only usage of this name */
      usageName?: string | undefined;
    };
    output: {
      data: Array<{
        /** id of the billing record */
        billingId: string;
        /** the day, YYYY-MM-DD in UTC */
        day: string;
        /** credits used that day, decimal text; a correction may make it negative */
        totalBillingUsage: string;
        /** what is counted */
        billingUsageName: string;
        /** number of verifications, also of those that cost nothing */
        events: number;
      }>;
    };
  };
  /** Daily usage of a billing record, by day and then by usage name (`usage:read`). */
  'get /api/v1/usage/{bid} as text/csv': {
    input: {
      /** id of the billing record */
      bid: string;
      /** first day, YYYY-MM-DD in UTC */
      from?: string | undefined;
      /** last day, YYYY-MM-DD in UTC */
      to?: string | undefined;
      /** only usage of this name */
      usageName?: string | undefined;
    };
    output: string;
  };
  /** Sign a JWT, for the workspaces of your access token (`jwt:sign`). */
  'post /api/v1/jwt': {
    input: {
      /** claims of your own: a JSON object of at most 4096 bytes and 10 levels, without keys __proto__, constructor and prototype */
      payload: Record<string, unknown>;
      /** the recipient that the JWT is meant for */
      aud?: string | undefined;
      /** lifetime in seconds */
      exp?: number | undefined;
      /** the workspaces that the JWT is limited to; absent: those of the access token that signs it */
      workspaceIds?: Array<string> | undefined;
    };
    output: {
      /** the JWT */
      jwt: string;
    };
  };
  /** Verify a JWT of your team (`jwt:verify`). */
  'post /api/v1/jwt/verify': {
    input: {
      /** the JWT */
      jwt: string;
    };
    output: {
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
  };
  /** Revoke a JWT of your team by its `jti`, or by the JWT itself: INVALID at the next verification (`jwt:revoke`). */
  'post /api/v1/jwt/revoke': {
    input: {
      /** the `jti` of a JWT */
      jti?: string | undefined;
      /** the JWT */
      jwt?: string | undefined;
    };
    output: {
      /** the `jti` of a JWT */
      jti: string;
      /** until when the revocation is kept: by then the JWT has expired, in Unix milliseconds */
      expiresAt: number;
    };
  };
  /** Sign with the next key from now on; JWTs of earlier keys keep verifying, unless you retire them (`token:write`). */
  'post /api/v1/jwt/rotate': {
    input: {
      /** ends all earlier keys at once: they leave the key sets, and JWTs that they signed are INVALID */
      retireNow?: boolean | undefined;
    };
    output: {
      /** id of the signing key */
      kid: string;
    };
  };
  /** Get what your team's JWTs name as issuer, and where its keys are published (`jwt:verify`). */
  'get /api/v1/jwt/settings': {
    input: {};
    output: {
      jwtSettings: {
        /** whether the key set of all teams contains the team's keys */
        sharedKeySet: boolean;
        /** what new JWTs name as `iss` */
        issuer: 'TEAM_ID' | 'URL';
        /** the `iss` of new JWTs */
        iss: string;
        /** address of the team's own key set */
        jwksUri: string;
      };
    };
  };
  /** Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams (`token:write`). */
  'patch /api/v1/jwt/settings': {
    input: {
      /** whether the key set of all teams contains the team's keys */
      sharedKeySet?: boolean | undefined;
      /** what new JWTs name as `iss`: the team's id, or a URL from which OIDC libraries find the key set */
      issuer?: 'TEAM_ID' | 'URL' | undefined;
    };
    output: {
      jwtSettings: {
        /** whether the key set of all teams contains the team's keys */
        sharedKeySet: boolean;
        /** what new JWTs name as `iss` */
        issuer: 'TEAM_ID' | 'URL';
        /** the `iss` of new JWTs */
        iss: string;
        /** address of the team's own key set */
        jwksUri: string;
      };
    };
  };
  /** Get a team's public signing keys as a JWK set, to verify its JWTs without the service. */
  'get /team/{team}/.well-known/jwks.json': {
    input: {
      /** id of the team */
      team: string;
    };
    output: {
      keys: Array<{
        kty: string;
        crv: string;
        /** the key itself, base64url */
        x: string;
        /** id of the signing key */
        kid: string;
        alg: string;
        use: string;
      }>;
    };
  };
  /** Find the key set of a team whose JWTs name a URL as issuer, as OIDC libraries do. */
  'get /team/{team}/.well-known/openid-configuration': {
    input: {
      /** id of the team */
      team: string;
    };
    output: {
      /** the `iss` of the JWTs */
      issuer: string;
      /** address of the key set */
      jwks_uri: string;
      response_types_supported: Array<'id_token'>;
      subject_types_supported: Array<'public'>;
      id_token_signing_alg_values_supported: Array<'EdDSA'>;
    };
  };
  /** Get the public signing keys of all teams that share them; to verify JWTs, use your team's own address. */
  'get /.well-known/jwks.json': {
    input: {
      /** id of the team whose keys to answer; absent: all teams */
      team?: string | undefined;
    };
    output: {
      keys: Array<{
        kty: string;
        crv: string;
        /** the key itself, base64url */
        x: string;
        /** id of the signing key */
        kid: string;
        alg: string;
        use: string;
      }>;
    };
  };
  /** Create a link token (`link:write`). */
  'post /api/v1/link-token': {
    input: {
      /** id of the workspace */
      workspaceId: string;
      /** your own id of the customer */
      customerId: string;
      /** your own id of the billing to link */
      externalBillingId?: string | undefined;
      /** lifetime in seconds */
      expiresIn?: number | undefined;
    };
    output: {
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
      };
    };
  };
  /** Validate a link token (`link:read`). */
  'get /api/v1/link-token/{token}': {
    input: {
      /** the link token */
      token: string;
    };
    output: {
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
    };
  };
  /** Revoke a link token (`link:write`). */
  'delete /api/v1/link-token/{token}': {
    input: {
      /** the link token */
      token: string;
    };
    output: {
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
    };
  };
  /** Create an access token with at most the rights of your own (`token:write`). */
  'post /api/v1/access-token': {
    input: {
      /** name that people see */
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
      >;
      /** the workspaces it is limited to; absent: all of the team */
      workspaceIds?: Array<string> | undefined;
      /** the addresses and CIDR blocks that it may be used from; absent: those of your own token; an empty list: all */
      allowedIPs?: Array<string> | undefined;
      /** when it expires, in Unix milliseconds; in the future */
      expiresAt?: number | undefined;
    };
    output: {
      accessToken: {
        /** id of the access token */
        id: string;
        /** name that people see */
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
  };
  /** List access tokens, also revoked ones, without their secrets (`token:write`). */
  'get /api/v1/access-token': {
    input: {
      /** maximum number of items in one answer */
      limit?: number | undefined;
      /** `nextCursor` of the previous answer */
      cursor?: string | undefined;
    };
    output: {
      accessTokens: Array<{
        /** id of the access token */
        id: string;
        /** name that people see */
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
      }>;
      /** where the next page starts; absent on the last one */
      nextCursor?: string;
    };
  };
  /** Get an access token, without its secret (`token:write`). */
  'get /api/v1/access-token/{id}': {
    input: {
      /** id of the access token */
      id: string;
    };
    output: {
      accessToken: {
        /** id of the access token */
        id: string;
        /** name that people see */
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
    };
  };
  /** Revoke an access token, also your own, with all that it made; within a second they are refused (`token:write`). */
  'delete /api/v1/access-token/{id}': {
    input: {
      /** id of the access token */
      id: string;
      /** whether the tokens that it made, and that these made, are revoked too */
      descendants?: boolean | undefined;
    };
    output: {
      accessToken: {
        /** id of the access token */
        id: string;
        /** name that people see */
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
      descendants: {
        /** how many of its descendants this call revoked */
        revoked: number;
        /** whether more follow within minutes; the api refuses these already, and verifies for no longer than that */
        pending: boolean;
      };
    };
  };
  /** List who changed what, and who was denied, oldest first (`audit:read`). */
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
        | 'jwt'
        | 'jwt_settings'
        | 'link_token'
        | 'quota'
        | 'scope'
        | 'signing_key'
        | 'workspace'
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
    };
    output: {
      auditLog: Array<{
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
          | 'jwt'
          | 'jwt_settings'
          | 'link_token'
          | 'quota'
          | 'scope'
          | 'signing_key'
          | 'workspace';
        /** id of what changed */
        resourceId?: string;
        /** who it was */
        actor: 'access_token' | 'operator';
        /** id of the access token that made the change; absent: the operator */
        tokenId?: string;
        /** address of the client; absent: the operator, work that went on after the answer, or a line of an earlier version */
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
      }>;
      /** where the next page starts; absent on the last one */
      nextCursor?: string;
    };
  };
  /** Get the team's limits and what it has used of them (`workspace:read`). */
  'get /api/v1/quota': {
    input: {};
    output: {
      quota: {
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
        /** bytes that all of these take, also deleted keys and revoked tokens, whose records stay */
        storedBytes: {
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
    };
  };
}

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
  RATE_LIMITED: [42910, 'Rate Limited: a temporary block, too many requests in this second.'],
  USAGE_LIMITED: [42911, 'Usage Limited: a temporary block, the credits do not cover this request.'],
  AWAY: [50311, 'The API key cannot be verified right now; repeat the request in a moment.'],
  FAILED: [50001, 'Something went wrong on our side; it was logged with the request id.'],
  MISCONFIGURED: [
    50002,
    'The request cannot be checked because of a mistake on our side; it was logged with the request id.',
  ],
} as const;
