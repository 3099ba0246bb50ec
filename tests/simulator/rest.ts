import { HOUR_MS } from '../../shared/values/meter-kinds.ts';
import type { Seed } from './crew.ts';
import { asksOf, proveBooks, proveRest } from './proofs.ts';

/** After the faults: everything runs, and what was begun comes to its end; then the proofs. */
export async function rest({ simulation, stage, crew, work, others, pass, settle }: Seed): Promise<void> {
  const { servers, beginning } = stage;
  const { api, verify, consumer } = await crew.keepOne();
  const asked = new Set<Promise<unknown>>();
  others.receiver.recover();
  await crew.startDelivering(others);
  for (let round = 0; !(await until('telling what was paid', others.billed.tellAll())); round++) {
    if (round > 60) return work.breaks('what was paid is not taken');
    await pass(1_000);
  }
  await comeToRest();
  if (work.broken.length > 0) return;
  for (const name of ['rollup', 'close-months']) await doJob(name);
  let unproved = await reconciled();
  // A consumer may have died, after a loss, between the insert of late events and their notes, and nobody has the events any more:
  // reconciling notes them.
  const mayLackNotes = work.model.losses > 0 && crew.mayLackNotes();
  const lacksNotes = (one: string) => / ON_ITS_WAY |(MISSING|TOO_MUCH) 0 0$/.test(one);
  if (mayLackNotes && unproved.length > 0 && unproved.every(lacksNotes)) {
    await comeToRest();
    unproved = await reconciled();
  }
  if (unproved.length > 0) work.breaks(`reconcile finds ${unproved.join(', ')}`);
  const leftovers = await servers.redis.leftovers();
  if (leftovers.length > 0) work.breaks(`redis still has ${leftovers.join(', ')}`);
  const asks = asksOf(beginning, api, verify);
  const booked = await until(
    'proving the books',
    proveBooks(servers.books.real, work, async (bid) => (await asks.read('getBilling', { bid })).billing),
  );
  await until('proving what is at rest', proveRest(work, booked, asks));
  await settle();
  others.receiver.prove();
  await others.billed.prove(asAdmin);
  if (!others.billed.hasMeters()) return;
  const proofOf = (mid: string, month: string) => asks.read('getMeterProof', { mid }, { month });
  // The hours that run end.
  const endMs = simulation.nowMs();
  await pass(2 * HOUR_MS);
  for (let round = 0, left = 'all'; left !== ''; round++) {
    if (round > 30) return work.breaks(`meters come to no rest: ${left}`);
    await settle();
    await doJob('plan-meters');
    await pass(130_000);
    await settle();
    left = await until('sending what failed', others.billed.sendFailed(asAdmin, endMs));
    if (left === '') left = await until('asking what is to be planned', others.billed.pending(asAdmin, proofOf));
  }
  await until('proving what meters have', others.billed.proveMeters(asAdmin, booked.days, proofOf));

  async function comeToRest(): Promise<void> {
    let left: string | undefined;
    for (let round = 0, idle = 0; idle < 4; round++) {
      if (round > 60) return work.breaks(`it comes to no rest: ${left}`);
      await settle();
      // What was asked is answered once nothing was left twice. The longest hold ends then, and the longest pause of a webhook.
      await pass(idle === 2 ? 130_000 : round < 2 ? 1_000 : Math.max(5_000, await longestPause()));
      await settle();
      const now = await unrest();
      if (now !== left) simulation.say(`left: ${now || 'nothing'}`);
      left = now;
      idle = idle === 2 || left === '' ? idle + 1 : idle < 2 ? 0 : 3;
    }
  }

  async function doJob(name: string): Promise<void> {
    const job = consumer.jobs.find((each) => each.name === name)!;
    await until(`the job ${name}`, job.work(new AbortController().signal));
  }

  async function reconciled(): Promise<string[]> {
    await doJob('reconcile');
    const rows = await asAdmin<{ unproved: string }[]>(
      `select billing_id || ' ' || status || ' ' || difference_micros || ' ' || held_difference_micros as unproved from unproved_records`,
    );
    return rows.map(({ unproved }) => unproved);
  }

  async function until<T>(what: string, doing: Promise<T>): Promise<T> {
    let isDone = false;
    const done = doing.finally(() => (isDone = true));
    done.catch(() => {});
    for (let round = 0; ; round++) {
      await settle();
      // What is read past the simulation takes none of its time.
      for (; asked.size > 0; await settle()) await Promise.allSettled(asked);
      if (isDone) return done;
      if (round > 100) throw new Error(`${what} does not end`);
      // Most of it waits for no loop.
      await (round < 3 ? pass(200, 0) : pass(1_000));
    }
  }

  async function unrest(): Promise<string> {
    const [{ waiting }] = await asAdmin<[{ waiting: string }]>(`
      select concat_ws(', ',
        (select count(*) || ' changes' from changes where applied_at is null having count(*) > 0),
        (select count(*) || ' unsettled' from unsettled_records having count(*) > 0),
        (select count(*) || ' deliveries' from webhook_deliveries where state = 'WAITING' having count(*) > 0)) as waiting`);
    return [waiting, await servers.redis.unrest(), servers.kafka.unrest()].filter(Boolean).join(', ');
  }

  async function longestPause(): Promise<number> {
    const [{ ms }] = await asAdmin<[{ ms: number }]>(
      `select coalesce(extract(epoch from max(next_at) - sim.now()) * 1000, 0)::bigint as ms from webhook_deliveries where state = 'WAITING'`,
    );
    return ms;
  }

  function asAdmin<Rows>(query: string): Promise<Rows> {
    const answer = Promise.resolve(servers.postgres.admin.unsafe(query) as unknown as Promise<Rows>);
    asked.add(answer);
    return answer.finally(() => asked.delete(answer));
  }
}
