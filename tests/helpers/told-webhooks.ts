import { webhookEventTypes } from '../../shared/contract/webhook-events.ts';
import { must } from './customers.ts';
import { eventually, type World } from './world.ts';

export type ToldEvent = {
  id: string;
  type: string;
  subjectId: string;
  sequence: number;
  at: number;
  data: Record<string, string | number | object | undefined>;
};

/** Some fields of what each event says, as one text each, sorted. */
export function fieldsOf(events: ToldEvent[], ...names: string[]): string[] {
  return events.map(({ data }) => names.map((name) => JSON.stringify(data[name])).join(' ')).toSorted();
}

/** A webhook that wants all events of a workspace, and what it was told. */
export async function listenToAll(world: World, workspaceId: string) {
  const body = { url: 'https://hooks.example.com', events: webhookEventTypes, workspaceId };
  const { webhook } = (await must(201, world.call('post', '/api/v1/webhook', body))).body;
  async function told(type?: string): Promise<ToldEvent[]> {
    const rows = await world.sql<ToldEvent[]>`
      select e.id, e.type, e.subject_id, d.sequence, e.at, e.data from webhook_deliveries d join webhook_events e on e.id = d.event_id
      where d.webhook_id = ${webhook.id} order by e.subject_id, d.sequence`;
    return rows.filter((row) => type === undefined || row.type === type);
  }
  return {
    told,
    /** Waits until so many events of a type were told of a subject; gives them. */
    until: (type: string, subjectId: string, count = 1): Promise<ToldEvent[]> =>
      eventually(`${count} ${type} of ${subjectId}`, async () => {
        const found = (await told(type)).filter((one) => one.subjectId === subjectId);
        return found.length >= count ? found : undefined;
      }),
    types: async (subjectId: string): Promise<string[]> =>
      (await told()).filter((one) => one.subjectId === subjectId).map(({ type }) => type),
  };
}
