import { Type } from 'typebox';
import { invalidField } from '../../../../shared/contract/errors.ts';
import { id, named, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { METERS_CHANNEL } from '../../../../shared/stores/meters.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { HOUR_MS, meterKind, type MeterKind } from '../../../../shared/values/meter-kinds.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { newWebhookSecret, webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace, within, withinSight } from '../../resources/access/access.ts';
import { creditsIn } from '../../resources/billings/billings.ts';
import { meterDestination, meters, type MeterRow } from '../../resources/meters.ts';
import { newSecret, requireTarget } from '../../resources/webhooks.ts';
import { lockName, matching, set } from '../../resources/rows.ts';

const MOST_DESTINATIONS = 10;
const MOST_DAYS_BACK = 35;

const { workspaceId, kind, name, url, eventNames, measure, unit, batchSize, startsAt, enabled } =
  meterDestination.properties;
const secret = plainText(
  1_024,
  'what it asks for: the secret key of Stripe, the API key of Lago, a bearer token; stored encrypted, and in no answer',
  'sk_live_EXAMPLE',
);
const newDestination = named(
  'NewMeterDestination',
  object({
    ...meterDestination.properties,
    secret: Type.Optional(newSecret('of kind `http`, the secret that signs')),
  }),
);

export const createMeterDestination = route('post', '/api/v1/meter-destination', {
  summary: 'Have usage of a workspace sent to where it is billed',
  description:
    'Each hour that is over is sent once, by billing record and usage name. `startsAt` may lie up to 35 days back; default: the hour that is running.',
  permission: 'metering:write',
  status: 201,
  body: object({
    workspaceId,
    kind,
    name,
    url: Type.Optional({ ...url, description: 'where events are posted; default: that of the kind, if it has one' }),
    secret: Type.Optional(secret),
    eventNames: Type.Optional(eventNames),
    measure: Type.Optional({ ...measure, default: 'credits' }),
    unit: Type.Optional(unit),
    batchSize: Type.Optional(batchSize),
    startsAt: Type.Optional(startsAt),
    enabled: Type.Optional({ ...enabled, default: true }),
  }),
  response: object({ destination: newDestination }),
  errors: ['workspace_forbidden', 'meter_destination_limit_reached'],

  async handle({ sql, body, caller, changed, clock, webhooks: { allowedTargets, sealer } }) {
    const { workspaceId, kind, name, secret, eventNames = {}, measure = 'credits', unit = '1', enabled = true } = body;
    const { url = meterKind(kind).url, batchSize = meterKind(kind).batchSize } = body;
    const unitMicros = creditsIn('unit', unit);
    requireFitting(kind, { ...body, unitMicros });
    if (url === undefined) throw invalidField('/url', `must be given: a destination of kind ${kind} may be anywhere`);
    requireTarget(url, caller, allowedTargets);
    const startsAt = startOf(body.startsAt, clock.now());
    await requireWorkspace(sql, caller, workspaceId, { hold: true });
    await lockName(sql, `meter destinations of ${workspaceId}`);
    await meters.requireFew(sql, within(sql, workspaceId), MOST_DESTINATIONS, 'meter_destination_limit_reached');

    const destinationId = newId('dest');
    const made = kind === 'http' ? newWebhookSecret() : undefined;
    const sealed = made ?? secret;
    const row = await meters.insert(sql, {
      id: destinationId,
      teamId: caller.teamId,
      workspaceId,
      kind,
      name,
      url,
      eventNames,
      measure,
      unitMicros,
      batchSize,
      startsAt,
      enabled,
      secretSealed: sealed === undefined ? null : sealer.seal(sealed, webhookSecretPlace(destinationId)),
      sealedUnder: sealer.keyName,
    });
    const destination = meters.say(changed, { after: row });
    return { destination: { ...destination, ...(made !== undefined && { secret: made }) } };
  },
});

export const listMeterDestinations = listRoute('/api/v1/meter-destination', 'destinations', meterDestination, {
  summary: 'List the meter destinations, oldest first',
  description: 'Of one workspace, or of all that the token may use.',
  permission: 'metering:read',
  query: { workspaceId: Type.Optional(id('workspace')) },
  errors: ['workspace_forbidden'],

  async open({ sql, caller, query }) {
    const { workspaceId } = query;
    if (workspaceId !== undefined) await requireWorkspace(sql, caller, workspaceId);
    return meters.list(sql, sql`${withinSight(sql, caller)} and ${matching(sql, { workspaceId })}`);
  },
});

export const getMeterDestination = route('get', '/api/v1/meter-destination/{mid}', {
  summary: 'Get a meter destination, without its secret',
  description: 'Says what waits since when, what failed for good, and why it takes nothing.',
  permission: 'metering:read',
  response: object({ destination: meterDestination }),

  async handle({ sql, params, caller }) {
    return { destination: meters.present(await meters.require(sql, params.mid, withinSight(sql, caller))) };
  },
});

export const updateMeterDestination = route('patch', '/api/v1/meter-destination/{mid}', {
  summary: 'Change a meter destination, or stop sending for a while',
  description:
    'A new URL needs the secret with it: nobody who does not know that can have it sent elsewhere. What is planned already keeps its event names.',
  permission: 'metering:write',
  body: object({
    name: Type.Optional(name),
    url: Type.Optional(url),
    secret: Type.Optional(secret),
    eventNames: Type.Optional(eventNames),
    batchSize: Type.Optional(batchSize),
    enabled: Type.Optional({
      ...enabled,
      description: 'whether it is sent anything; `true` also tries at once what was put off',
    }),
  }),
  response: object({ destination: meterDestination }),

  async handle({ sql, params, body, caller, changed, webhooks: { allowedTargets, sealer } }) {
    const before = await meters.require(sql, params.mid, withinSight(sql, caller), { lock: true });
    const { name, url = before.url, secret, eventNames, batchSize, enabled } = body;
    requireFitting(before.kind, { ...body, secret: secret ?? 'kept', ...(before.kind === 'http' && { secret }) });
    if (url !== before.url) {
      requireTarget(url, caller, allowedTargets);
      const [{ hasSecret }] = await sql<[{ hasSecret: boolean }]>`
        select secret_sealed is not null as has_secret from meter_destinations where id = ${before.id}`;
      if (secret === undefined && hasSecret && before.kind !== 'http')
        throw invalidField('/secret', 'must be given with another url, so that the one of before is not sent there');
    }
    const [row] = await sql<[MeterRow]>`
      update meter_destinations set ${set(sql, { name, url, eventNames, batchSize, enabled })}
        ${secret === undefined ? sql`` : sql`, secret_sealed = ${sealer.seal(secret, webhookSecretPlace(before.id))}, sealed_under = ${sealer.keyName}`}
        ${enabled || secret !== undefined || url !== before.url ? sql`, next_at = now(), attempts = 0, failing_since = null` : sql``}
      where id = ${before.id} returning ${meters.columns(sql)}`;
    await sql`select pg_notify(${METERS_CHANNEL}, '')`;
    return { destination: meters.say(changed, { before, after: row }) };
  },
});

export const deleteMeterDestination = route('delete', '/api/v1/meter-destination/{mid}', {
  summary: 'Delete a meter destination with its secret, and what waits for it',
  description: 'What is on its way at this moment may still arrive.',
  permission: 'metering:write',
  response: object({ destination: meterDestination }),

  async handle({ sql, params, caller, changed }) {
    const before = await meters.require(sql, params.mid, withinSight(sql, caller), { lock: true });
    await meters.end(sql, changed, [before]);
    return { destination: meters.present(before) };
  },
});

/** Throws 400 for what a kind of destination does not take. */
function requireFitting(
  kind: MeterKind,
  given: {
    secret?: string | undefined;
    unit?: string | undefined;
    unitMicros?: number;
    batchSize?: number | undefined;
  },
): void {
  const { takesWhole, needsSecret } = meterKind(kind);
  if (needsSecret && given.secret === undefined) throw invalidField('/secret', `must be given for the kind ${kind}`);
  if (kind === 'http' && given.secret !== undefined)
    throw invalidField('/secret', 'must be left out for the kind http: it is made here');
  if (!/^[\x21-\x7e]+$/.test(given.secret ?? 'none'))
    throw invalidField('/secret', 'must be printable characters without blanks');
  if (takesWhole && (given.batchSize ?? 1) !== 1)
    throw invalidField('/batchSize', `must be 1: ${kind} takes one event in a request`);
  if (!takesWhole && given.unit !== undefined) throw invalidField('/unit', `must be left out: ${kind} takes decimals`);
  if (given.unitMicros === 0) throw invalidField('/unit', 'must be above 0');
}

/** The hour from which on usage is sent. */
function startOf(text: string | undefined, nowMs: number): Date {
  const startMs = Math.floor((text === undefined ? nowMs : Date.parse(text)) / HOUR_MS) * HOUR_MS;
  if (text !== undefined && new Date(text).getTime() !== startMs)
    throw invalidField('/startsAt', 'must be a full hour of UTC');
  if (startMs < nowMs - MOST_DAYS_BACK * DAY_MS || startMs > nowMs + MOST_DAYS_BACK * DAY_MS)
    throw invalidField('/startsAt', `must be at most ${MOST_DAYS_BACK} days from now`);
  return new Date(startMs);
}
