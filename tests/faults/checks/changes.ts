import { formatCredits } from '../../../shared/values/credits.ts';
import { grouped, isLasting, type Case, type Say } from './case.ts';
import type { Changed, Entity, Record_ } from '../history.ts';

/** Every answered change of the management API is there, in the settings and in verifications. */
export function checkChanges(one: Case, say: Say): void {
  const changes = [...grouped(one.changed, (line) => line.change).values()];
  for (const entity of one.entities) checkEntity(one, entity, changes, say);
  for (const record of one.records) checkRefills(one, record, changes, say);
}

const rule = 'no answered change is lost';

function checkEntity(one: Case, entity: Entity, changes: Changed[][], say: Say): void {
  const { id, http, name, deleted } = entity;
  const ofThis = changes.filter((attempts) => attempts.some(({ of }) => of === id));
  const isAnswered = (attempts: Changed[]) => attempts.some((line) => isLasting(one, line));
  if (http === 404 && !ofThis.some(isAnswered)) return;
  if (http !== 200) return say(rule, `${id} is not there: ${http}`);

  const namings = ofThis.filter((attempts) => attempts[0]!.detail.name !== undefined);
  const last = namings.findLast(isAnswered);
  const undecided = namings.filter((attempts) => !isAnswered(attempts));
  if (![last, ...undecided].some((attempts) => attempts?.[0]!.detail.name === name))
    say(rule, `${id} is named ${name}, not ${last?.[0]!.detail.name}`);

  const deletions = ofThis.filter((attempts) => attempts[0]!.what === 'key.delete');
  if (deletions.some(isAnswered) && !deleted) say(rule, `${id} was deleted and is not`);
  if (deletions.length === 0 && deleted) say(rule, `${id} is deleted, and no client deleted it`);
}

function checkRefills(one: Case, record: Record_, changes: Changed[][], say: Say): void {
  const { billing, totalMicros, refillsMicros } = record;
  const isAnswered = (attempts: Changed[]) => attempts.some((line) => isLasting(one, line));
  const refills = changes.filter(([first]) => first!.what === 'billing.refill' && first!.of === billing);
  for (const attempts of refills) {
    const { amountMicros = 0 } = attempts[0]!.detail;
    const lines = refillsMicros.filter((amount) => amount === amountMicros).length;
    if (lines > 1) say(rule, `${billing}: a refill of ${formatCredits(amountMicros)} is there ${lines} times`);
    if (lines === 0 && isAnswered(attempts))
      say(rule, `${billing}: a refill of ${formatCredits(amountMicros)} was answered and is not there`);
  }
  const made = changes.find(([first]) => first!.what === 'billing.create' && first!.of === billing);
  const initial = made?.[0]!.detail.totalMicros ?? 0;
  // Grants that end are in no ledger: checkGrants has them all.
  if (record.grants) return;
  const sum = initial + refillsMicros.reduce((total, amount) => total + amount, 0);
  if (sum !== totalMicros)
    say(rule, `${billing} has ${formatCredits(totalMicros)} credits, its ledger makes ${formatCredits(sum)}`);

  // An answered refill holds for the very next verification.
  for (const line of one.verified) {
    if (line.billing !== billing || line.totalMicros === undefined) continue;
    const inForce = refills.filter((attempts) =>
      attempts.some((attempt) => attempt.to < line.from && isLasting(before(one, line), attempt)),
    );
    const least = inForce.reduce((total, [first]) => total + (first!.detail.amountMicros ?? 0), initial);
    if (line.totalMicros < least)
      say(
        rule,
        `${line.call} saw ${formatCredits(line.totalMicros)} credits where ${formatCredits(least)} were answered`,
      );
  }
}

/** The case as it was at a call: what was restored only later had not happened yet. */
function before(one: Case, { to }: { to: number }): Case {
  return { ...one, restored: one.restored.filter(({ at }) => at < to) };
}
