import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { WebhookEvent } from '../contract/webhook-events.ts';
import { column, makeWorld } from '../../tests/helpers/world.ts';
import { newId } from '../values/ids.ts';
import { fillWith } from '../../tests/helpers/waiting-deliveries.ts';
import { notifyWebhooks } from './notify-webhooks.ts';

const world = await makeWorld([]);
const { sql } = world;

async function newWebhook(teamId: string, events: string[], workspaceId: string | null = null): Promise<string> {
  const id = newId('hook');
  await sql`insert into webhooks (id, team_id, workspace_id, url, events)
            values (${id}, ${teamId}, ${workspaceId}, 'https://hooks.example.com', ${events})`;
  return id;
}

function closed(teamId: string, workspaceId: string, month: string): WebhookEvent {
  const data = { month, timezone: 'UTC', records: 1 };
  return {
    type: 'month.closed',
    teamId,
    workspaceId,
    subjectId: workspaceId,
    cause: month,
    atMs: 1_795_162_200_000,
    data,
  };
}

type Row = { webhookId: string; eventId: string; sequence: number };
async function told(teamId: string): Promise<Row[]> {
  const rows = await sql<Row[]>`
    select webhook_id, event_id, sequence from webhook_deliveries where team_id = ${teamId} order by webhook_id, sequence`;
  return [...rows];
}

async function eventsOf(teamId: string): Promise<number> {
  const [row] = await sql<[{ count: number }]>`select count(*) as count from webhook_events where team_id = ${teamId}`;
  return row.count;
}

test('an event is told to each webhook that wants it, under one id, and to no other team, workspace or disabled one', async () => {
  const { id: teamId } = await world.newTeam();
  const stranger = await world.newTeam();
  const [here, elsewhere] = [await world.newWorkspace(teamId), await world.newWorkspace(teamId)];
  const ofTeam = await newWebhook(teamId, ['key.created', 'month.closed']);
  const ofWorkspace = await newWebhook(teamId, ['month.closed'], here);
  await newWebhook(teamId, ['month.closed'], elsewhere);
  await newWebhook(teamId, ['key.created']);
  await newWebhook(stranger.id, ['month.closed']);
  const disabled = await newWebhook(teamId, ['month.closed']);
  await sql`update webhooks set enabled = false where id = ${disabled}`;
  const deleted = await newWebhook(teamId, ['month.closed']);
  await sql`update webhooks set deleted_at = now() where id = ${deleted}`;

  await sql.begin((tx) => notifyWebhooks(tx, [closed(teamId, here, '2026-10')]));
  const rows = await told(teamId);
  assert.equal(column(rows, 'webhookId'), [ofTeam, ofWorkspace].toSorted());
  assert.is(new Set(rows.map(({ eventId }) => eventId)).size, 1);
  assert.equal(await told(stranger.id), []);
});

test('a cause that comes again, in the same call, later or at the same time, tells nothing twice; each subject counts its own', async () => {
  const { id: teamId } = await world.newTeam();
  const [one, other] = [await world.newWorkspace(teamId), await world.newWorkspace(teamId)];
  await newWebhook(teamId, ['month.closed']);
  const again = closed(teamId, one, '1');
  await sql.begin((tx) => notifyWebhooks(tx, [again, again, closed(teamId, other, '1')]));
  const more = [again, closed(teamId, one, '2'), closed(teamId, other, '2'), closed(teamId, one, '3')];
  await Promise.all([0, 1, 2].map(() => sql.begin((tx) => notifyWebhooks(tx, more))));
  const rows = await sql<{ month: string; sequence: number }[]>`
    select e.data ->> 'month' as month, d.sequence from webhook_deliveries d
    join webhook_events e on e.id = d.event_id where d.team_id = ${teamId}`;
  for (const { month, sequence } of rows) assert.is(sequence, Number(month));
  assert.is(rows.length, 5);
});

test('an event that no webhook wants leaves no row, and a webhook that is made later does not get it', async () => {
  const { id: teamId } = await world.newTeam();
  const workspaceId = await world.newWorkspace(teamId);
  await sql.begin((tx) => notifyWebhooks(tx, [closed(teamId, workspaceId, '2026-10')]));
  assert.is(await eventsOf(teamId), 0);
  await newWebhook(teamId, ['month.closed']);
  assert.equal(await told(teamId), []);
});

test('where a team has as many waiting as it may, a webhook with its share of them misses events, counted, and the others get theirs', async () => {
  const { id: teamId } = await world.newTeam();
  const workspaceId = await world.newWorkspace(teamId);
  const stuck = await newWebhook(teamId, ['month.closed']);
  await fillWith(sql, { teamId, webhookId: stuck, deliveries: 8 });
  const other = await newWebhook(teamId, ['month.closed']);
  const events = [closed(teamId, workspaceId, '2026-10'), closed(teamId, workspaceId, '2026-11')];
  await sql.begin((tx) => notifyWebhooks(tx, events, { ofTeam: 7, ofWebhook: 3 }));
  const [counts] = await sql`
    select count(*) filter (where webhook_id = ${stuck}) as stuck, count(*) filter (where webhook_id = ${other}) as other
    from webhook_deliveries where team_id = ${teamId}`;
  assert.equal({ ...counts }, { stuck: 8, other: 2 });
  const [{ missed }] = await sql<[{ missed: number }]>`select missed from webhooks where id = ${stuck}`;
  assert.is(missed, 2);
});

test('api and consumer may tell as their own roles, the api in the team of its transaction alone', async () => {
  const { id: teamId } = await world.newTeam();
  const stranger = await world.newTeam();
  const workspaceId = await world.newWorkspace(teamId);
  await newWebhook(teamId, ['month.closed']);
  const asRole = (role: string, team: string, month: string) =>
    sql.begin(async (tx) => {
      await tx`set local role ${tx(role)}`;
      await tx`select set_config('keytally.team', ${team}, true)`;
      await notifyWebhooks(tx, [closed(teamId, workspaceId, month)]);
    });
  await asRole('keytally_api', stranger.id, '2026-09');
  assert.equal(await told(teamId), []);
  await asRole('keytally_api', teamId, '2026-10');
  await asRole('keytally_consumer', '', '2026-11');
  assert.is((await told(teamId)).length, 2);
});
