import { recordId, type Plan } from './fill.ts';

/** What is asked many times, and how long the middle one of its answers may take. */
export type Question = {
  name: string;
  path: string;
  query: Record<string, string>;
  withinMs: number;
  /** What the answer must add up to: usage, or calls that were decided. */
  sums: { timezone: string; first: string; last: string; billingId?: string; of?: 'calls' };
};

/** The questions, each with the time that it has with 20,000,000 events of 10,000 records. */
export function questionsOf({ workspaceId, records, days }: Plan): Question[] {
  const month = lastWholeMonth(days);
  const [from, to] = [month.toString(), month.add({ months: 1 }).subtract({ days: 1 }).toString()];
  const ofWorkspace = (timezone: string, withinMs: number): Question => ({
    name: `a workspace's month by day and record as CSV, ${timezone}`,
    path: '/api/v1/usage',
    query: { workspaceId, from, to, timezone, format: 'csv' },
    withinMs,
    sums: { timezone, first: from, last: to },
  });
  const billingId = recordId(Math.floor(records / 2));
  return [
    ofWorkspace('UTC', 1_000),
    ofWorkspace('Europe/Berlin', 2_500),
    ofWorkspace('Asia/Kathmandu', 2_500),
    ofWorkspace('Australia/Lord_Howe', 2_500),
    {
      name: "a record's month by hour",
      path: `/api/v1/usage/${billingId}`,
      query: { from, to, interval: 'hour', timezone: 'America/St_Johns' },
      withinMs: 50,
      sums: { timezone: 'America/St_Johns', first: from, last: to, billingId },
    },
    {
      name: "a day's outcomes by minute",
      path: '/api/v1/verifications',
      query: { workspaceId, from: to, to, interval: 'minute', timezone: 'America/St_Johns' },
      withinMs: 150,
      sums: { timezone: 'America/St_Johns', first: to, last: to, of: 'calls' },
    },
  ];
}

/** Everything of every day, in the smallest pieces that there are. */
export function exportQuery({ workspaceId, days }: Plan): Record<string, string> {
  const groupBy = 'billing,usageName,key,route,customer';
  return { workspaceId, from: days[0]!, to: days.at(-1)!, interval: 'hour', groupBy };
}

function lastWholeMonth(days: string[]): Temporal.PlainDate {
  return Temporal.PlainDate.from(days.at(-1)!).with({ day: 1 }).subtract({ months: 1 });
}
