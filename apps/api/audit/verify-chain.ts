import type { Query } from '../../../shared/stores/postgres.ts';
import { hasHead } from './chain.ts';
import { BEGINNING, headText, lineFields, nextHead, type Head, type LineFields } from './line-mac.ts';

/** What a proof found. `broken` says what is wrong with the first line that is; the lines before it are proved. */
export type Proof = { head: Head; lines: number; broken?: string };

type ProofOptions = {
  sql: Query;
  /** Undefined while no line was ever chained. */
  key: Buffer | undefined;
  /** A head up to which the chain was proved before; by default its beginning. */
  since?: Head | undefined;
  /** Other heads that the chain had: it must still have them. */
  known: Head[];
  onProgress(text: () => string): void;
};

// A line may have 128 KiB.
const PLACES_AT_ONCE = 1_000;
const IDS_AT_ONCE = 10_000;

/** Proves the chain page by page, so that its length costs time alone; reads nothing twice and stops at the first fault. */
export async function proveAuditLog(options: ProofOptions): Promise<Proof> {
  const { sql, since, known } = options;
  const start = since ?? BEGINNING;
  for (const head of [...known, ...(since ? [since] : [])]) {
    if (await hasHead(sql, head)) continue;
    return { head: start, lines: 0, broken: `the chain had the head ${headText(head)}, and has it no more` };
  }
  const proof = await provePlaces(options, start);
  if (proof.broken) return proof;
  const loose = await findUnchained(options, start);
  return loose ? { ...proof, broken: loose } : proof;
}

type Place = Partial<LineFields> & { number: number; lineId: string; mac: string };

async function provePlaces({ sql, key, onProgress }: ProofOptions, start: Head): Promise<Proof> {
  const [{ last }] = await sql<[{ last: number }]>`select coalesce(max(number), 0) as last from audit_chain`;
  let head = start;
  const proved = (broken?: string): Proof => ({
    head,
    lines: head.number - start.number,
    ...(broken !== undefined && { broken }),
  });
  if (last > 0 && !key) return proved('the key of the chain is gone');
  for (;;) {
    const places = await sql<Place[]>`
      select c.number, c.line_id, encode(c.mac, 'hex') as mac, line.*
      from audit_chain c
      left join lateral (select ${lineFields(sql)} from audit_log l where l.id = c.line_id offset 0) as line on true
      where c.number > ${head.number} order by c.number limit ${PLACES_AT_ONCE}`;
    for (const place of places) {
      const broken = faultOf(key!, head, place);
      if (broken !== undefined) return proved(broken);
      head = place;
    }
    head = { number: head.number, mac: head.mac };
    if (places.length < PLACES_AT_ONCE) return proved();
    onProgress(() => `proved ${head.number.toLocaleString('en')} of ${last.toLocaleString('en')} lines`);
  }
}

function faultOf(key: Buffer, head: Head, place: Place): string | undefined {
  const { number, lineId, mac } = place;
  if (number !== head.number + 1) return `line ${head.number + 1} of the chain is gone`;
  if (typeof place.id !== 'string') return `line ${number}, ${lineId}, is gone`;
  if (nextHead(key, head, place as LineFields).mac !== mac)
    return `line ${number}, ${lineId}, is not as it was written`;
  return undefined;
}

// As in chain.ts, each query looks lines up one by one, however little Postgres knows of the tables.
// A line is in the chain, or noted for it. Any other came past the triggers, or lost its place in the chain.
async function findUnchained({ sql, onProgress }: ProofOptions, start: Head): Promise<string | undefined> {
  const [vanished] = await sql<{ id: string }[]>`
    select line_id as id from audit_unchained u
    where not exists (select from audit_log l where l.id = u.line_id) order by line_id limit 1`;
  if (vanished) return `${vanished.id}, which was not chained yet, is gone`;
  const [first] = await sql<{ lineId: string }[]>`select line_id from audit_chain where number = ${start.number}`;
  let after = first?.lineId ?? '';
  for (let seen = 0, more = true; more;) {
    const [page] = await sql<[{ last: string | null; ids: number; loose: string | null }]>`
      with page as (select l.id from audit_log l where l.id > ${after} order by l.id limit ${IDS_AT_ONCE})
      select max(id) as last, count(*) as ids,
             min(id) filter (where (select c.number from audit_chain c where c.line_id = id) is null
                               and (select u.noted_at from audit_unchained u where u.line_id = id) is null) as loose
      from page`;
    if (page.loose !== null) return `${page.loose} is in the audit log and not in its chain`;
    after = page.last ?? after;
    more = page.ids === IDS_AT_ONCE;
    seen += page.ids;
    onProgress(() => `looked ${seen.toLocaleString('en')} lines up in the chain`);
  }
  return undefined;
}

/** How many lines wait to be chained. */
export async function countWaiting(sql: Query): Promise<number> {
  const [{ waiting }] = await sql<[{ waiting: number }]>`select count(*) as waiting from audit_unchained`;
  return waiting;
}
