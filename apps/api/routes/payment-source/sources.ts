import { Type } from 'typebox';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { flag, id, nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace, within, withinSight } from '../../resources/access/access.ts';
import { creditsIn } from '../../resources/billings/billings.ts';
import { meters } from '../../resources/meters.ts';
import { paymentSource, paymentSources, type PaymentRule } from '../../resources/payments/sources.ts';
import { lockName, matching, set } from '../../resources/rows.ts';

const MOST_SOURCES = 10;

const { workspaceId, kind, name, rules, metadataField, destinationId } = paymentSource.properties;
const secret = Type.String({
  maxLength: 255,
  pattern: '^whsec_[!-~]+$',
  description: 'signing secret of the endpoint at Stripe, `whsec_…`; stored encrypted, and in no answer',
  examples: ['whsec_EXAMPLE'],
});

export const createPaymentSource = route('post', '/api/v1/payment-source', {
  summary: 'Have payments become credits of the billing records of a workspace',
  description:
    'Then make an endpoint at Stripe with the URL of POST …/{pid}/events, and give its signing secret by a PATCH. What payments grant, the access token of this request grants.',
  permission: 'billing:write',
  status: 201,
  body: object({
    workspaceId,
    kind,
    name,
    rules,
    metadataField: Type.Optional(metadataField),
    destinationId: Type.Optional(destinationId),
    secret: Type.Optional(secret),
  }),
  response: object({ source: paymentSource }),
  errors: ['workspace_forbidden', 'meter_destination_not_found', 'payment_source_limit_reached'],

  async handle({ sql, body, caller, changed, webhooks: { sealer } }) {
    const { secret, ...given } = body;
    const { workspaceId, rules, destinationId } = given;
    await requireWorkspace(sql, caller, workspaceId, { hold: true });
    const others = await otherRules(sql, workspaceId);
    if (others.length >= MOST_SOURCES) throw new ApiError('payment_source_limit_reached');
    requireRules(rules, others.flat());
    await requireDestination(sql, workspaceId, destinationId);
    const sourceId = newId('psrc');
    const row = await paymentSources.insert(sql, {
      ...given,
      id: sourceId,
      teamId: caller.teamId,
      secretSealed: secret === undefined ? null : sealer.seal(secret, webhookSecretPlace(sourceId)),
      sealedUnder: sealer.keyName,
      tokenId: caller.tokenId,
    });
    return { source: paymentSources.say(changed, { after: row }) };
  },
});

export const listPaymentSources = listRoute('/api/v1/payment-source', 'sources', paymentSource, {
  summary: 'List the payment sources, oldest first',
  description: 'Of one workspace, or of all that the token may use.',
  permission: 'billing:read',
  query: { workspaceId: Type.Optional(id('workspace')) },
  errors: ['workspace_forbidden'],

  async open({ sql, caller, query }) {
    const { workspaceId } = query;
    if (workspaceId !== undefined) await requireWorkspace(sql, caller, workspaceId);
    return paymentSources.list(sql, sql`${withinSight(sql, caller)} and ${matching(sql, { workspaceId })}`);
  },
});

export const getPaymentSource = route('get', '/api/v1/payment-source/{pid}', {
  summary: 'Get a payment source, without its secret',
  description: 'Says what makes how many credits, and for whom.',
  permission: 'billing:read',
  response: object({ source: paymentSource }),

  async handle({ sql, params, caller }) {
    return { source: paymentSources.present(await paymentSources.require(sql, params.pid, withinSight(sql, caller))) };
  },
});

export const updatePaymentSource = route('patch', '/api/v1/payment-source/{pid}', {
  summary: 'Change a payment source, or give it the signing secret of its endpoint',
  description: 'Another secret leaves the one before for 24 hours: Stripe, too, signs with both while one is rolled.',
  permission: 'billing:write',
  body: object({
    name: Type.Optional(name),
    rules: Type.Optional(rules),
    metadataField: Type.Optional(nullable(metadataField)),
    destinationId: Type.Optional(nullable(destinationId)),
    secret: Type.Optional(secret),
    endPrevious: Type.Optional(flag('the secret of before ends at once: it leaked', false)),
  }),
  response: object({ source: paymentSource }),
  errors: ['meter_destination_not_found'],

  async handle({ sql, params, body, caller, changed, webhooks: { sealer } }) {
    const before = await paymentSources.require(sql, params.pid, withinSight(sql, caller), { lock: true });
    const { rules, secret, endPrevious, ...given } = body;
    if (rules) requireRules(rules, (await otherRules(sql, before.workspaceId, before.id)).flat());
    await requireDestination(sql, before.workspaceId, body.destinationId ?? undefined);
    const place = webhookSecretPlace(before.id);
    const [{ sealed }] = await sql<[{ sealed: Buffer | null }]>`
      select secret_sealed as sealed from payment_sources where id = ${before.id}`;
    const current = secret && sealed ? sealer.unseal(sealed, place) : undefined;
    const next = secret === current ? undefined : secret;
    // Sealed again: the earlier one may be under an earlier master key.
    const earlier = next && current && !endPrevious ? sealer.seal(current, place) : null;
    const sealedUnder = next && sealer.keyName;
    await sql`
      update payment_sources set ${set(sql, { ...given, rules, sealedUnder })}
        ${next === undefined ? sql`` : sql`, secret_sealed = ${sealer.seal(next, place)}`}
        ${next === undefined && !endPrevious ? sql`` : sql`, previous_sealed = ${earlier}, previous_until = case when ${earlier !== null}::boolean then now() + interval '24 hours' end`}
      where id = ${before.id}`;
    const row = await paymentSources.require(sql, before.id, sql`true`);
    return { source: paymentSources.say(changed, { before, after: row }) };
  },
});

export const deletePaymentSource = route('delete', '/api/v1/payment-source/{pid}', {
  summary: 'Delete a payment source with its secret',
  description: 'What it granted stays, and stays known: another source of the workspace does not grant it again.',
  permission: 'billing:write',
  response: object({ source: paymentSource }),

  async handle({ sql, params, caller, changed }) {
    const before = await paymentSources.require(sql, params.pid, withinSight(sql, caller), { lock: true });
    await paymentSources.end(sql, changed, [before]);
    return { source: paymentSources.present(before) };
  },
});

/** The rules of the other sources of a workspace, which no other transaction changes. */
async function otherRules(sql: Query, workspaceId: string, except = ''): Promise<PaymentRule[][]> {
  await lockName(sql, `payment sources of ${workspaceId}`);
  const rows = await sql<{ rules: PaymentRule[] }[]>`
    select rules from payment_sources where workspace_id = ${workspaceId} and id <> ${except} and deleted_at is null`;
  return rows.map(({ rules }) => rules);
}

/** Throws 400 for rules that say too little or too much, also beside those of the other sources. */
function requireRules(rules: readonly PaymentRule[], others: readonly PaymentRule[]): void {
  const isIntent = (one: PaymentRule) => one.event === 'payment_intent.succeeded';
  for (const [i, rule] of rules.entries()) {
    const { creditsPerUnit, price, credits } = rule;
    if ((price === undefined) !== (credits === undefined) || (price === undefined) === (creditsPerUnit === undefined))
      throw invalidField(`/rules/${i}`, 'must have creditsPerUnit, or price with credits');
    if (creditsIn('credits', creditsPerUnit ?? credits!) === 0)
      throw invalidField(`/rules/${i}/${price === undefined ? 'creditsPerUnit' : 'credits'}`, 'must be above 0');
    if ([...others, ...rules].some((one) => isIntent(one) !== isIntent(rule)))
      throw invalidField(
        `/rules/${i}/event`,
        'must not stand beside payment_intent.succeeded in a workspace: one payment could then make credits by both; use checkout.session.completed and invoice.paid',
      );
  }
}

async function requireDestination(sql: Query, workspaceId: string, destinationId: string | undefined): Promise<void> {
  if (destinationId === undefined) return;
  await meters.require(sql, destinationId, within(sql, workspaceId));
}
