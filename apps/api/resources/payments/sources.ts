import { Type, type Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { credits, id, named, nameOf, object, textOf, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { name as grantName } from '../../../../shared/contract/schemas.ts';
import type { Clock } from '../../../../shared/runtime/clock.ts';
import type { Sql } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
import type { Sealer } from '../../../../shared/values/seal.ts';
import { isSignedByStripe, readStripeSignature } from '../../../../shared/values/stripe-signature.ts';
import { webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { teamRate } from '../access/access.ts';
import { priority } from '../grants/grants.ts';
import { resourceOf, type Row } from '../rows.ts';

/** The events by which a payment is told. */
export const paymentEvents = ['checkout.session.completed', 'invoice.paid', 'payment_intent.succeeded'] as const;

const rule = named(
  'PaymentRule',
  object({
    event: Type.Enum([...paymentEvents], {
      description:
        'what tells the payment; `payment_intent.succeeded` alone in all sources of a workspace, or the others: a payment intent does not say whether it pays an invoice',
    }),
    currency: Type.String({
      pattern: '^[a-z]{3}$',
      description: 'its currency, as Stripe writes it; nothing is ever converted',
      examples: ['usd'],
    }),
    creditsPerUnit: Type.Optional(
      credits('credits for each minor unit that was paid, taxes included: of a cent, or of a yen'),
    ),
    price: Type.Optional(
      textOf(
        255,
        'id of a price in a line of the invoice, else in metadata.keytally_price; with `credits`',
        'price_1MoB',
      ),
    ),
    credits: Type.Optional(credits('credits for each of that price')),
    expiresAfterDays: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 3_660,
        description:
          'so many days after the grant is made its credits end, on the next Monday or, beyond 366 days, the next first of a month, 00:00 UTC; default never',
        examples: [365],
      }),
    ),
    priority: Type.Optional(priority),
    name: Type.Optional({ ...grantName, description: 'name of the grants' }),
  }),
);
export type PaymentRule = Static<typeof rule>;

export const paymentSource = named(
  'PaymentSource',
  object({
    id: id('payment source'),
    workspaceId: id('workspace'),
    kind: Type.Enum(['stripe'], { type: 'string', description: 'who tells of payments' }),
    name: nameOf(128, 'what people call it', 'Stripe'),
    rules: Type.Array(rule, {
      minItems: 1,
      maxItems: 50,
      description:
        'what makes how many credits. Of a payment all prices that it names count, by the first rule of each; else its amount, by the first rule without a price',
    }),
    metadataField: Type.Optional(
      textOf(
        40,
        'field of the metadata that names the externalMeterId; without it, or its value, the customer counts',
        'meter',
      ),
    ),
    destinationId: Type.Optional(
      id(
        'meter destination',
        ' under which `externalIds` of records have the customer; absent: externalMeterId is the customer',
      ),
    ),
    hasSecret: Type.Boolean({ description: 'whether it has a signing secret, and so takes events', examples: [true] }),
    previousSecretUntil: Type.Optional(timestamp('until when the signing secret of before counts too')),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when it was last changed'),
  }),
);
export type SourceRow = Row<typeof paymentSource>;

export const paymentSources = resourceOf(
  'payment_source',
  paymentSource,
  'payment_source_not_found',
  {
    hasSecret: 'secret_sealed is not null',
    previousSecretUntil: 'case when previous_until > now() then previous_until end',
  },
  [],
  { secretSealed: null, previousSealed: null, previousUntil: null },
);

/** A body that its sender signed; `read` gives its bytes. */
export type SignedBody = { sourceId: string; signature: string | undefined; read(): Promise<Buffer> };

/** Finds the payment source that signed a body, or throws 400 or 404. */
export function sourcesFromPostgres(sql: Sql, sealer: Sealer, clock: Clock) {
  return async ({ sourceId, signature, read }: SignedBody): Promise<Caller> => {
    const given = readStripeSignature(signature, clock.now());
    if (!given) throw new ApiError('payment_signature_wrong');
    const [row] = isId(sourceId)
      ? await sql<SignerRow[]>`
          select id, team_id, workspace_id, token_id, secret_sealed, case when previous_until > now() then previous_sealed end as previous_sealed,
                 ${teamRate(sql, 's')}
          from payment_sources s where id = ${sourceId} and deleted_at is null`
      : [];
    if (!row) throw new ApiError('payment_source_not_found');
    const sealed = [row.secretSealed, row.previousSealed].filter((one) => one !== null);
    const secrets = sealed.map((one) => sealer.unseal(one, webhookSecretPlace(row.id)));
    if (secrets.length === 0 || !isSignedByStripe(given, await read(), secrets))
      throw new ApiError('payment_signature_wrong');
    return {
      tokenId: row.tokenId,
      teamId: row.teamId,
      permissions: new Set(),
      workspaceIds: [row.workspaceId],
      teamPerSecond: row.teamPerSecond ?? undefined,
      source: { id: row.id, workspaceId: row.workspaceId },
    };
  };
}

type SignerRow = {
  id: string;
  teamId: string;
  workspaceId: string;
  tokenId: string;
  secretSealed: Buffer | null;
  previousSealed: Buffer | null;
  teamPerSecond: number | null;
};
