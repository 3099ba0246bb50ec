import { formatCredits } from '../../../shared/values/credits.ts';
import { grouped, isLasting, type Case, type Say } from './case.ts';
import type { Changed, Granted, Record_ } from '../history.ts';

/**
 * total = used + available + held + expired, and no grant gives more than it has. All grants of a record together make its total
 * and what has expired of it, and the service has proved it from them.
 */
export function checkGrants(one: Case, say: Say): void {
  const changes = [...grouped(one.changed, (line) => line.change).values()];
  for (const record of one.records) {
    if (record.found === 'UNKNOWN') continue;
    checkIdentity(record, say);
    if (record.grants) checkRecord(one, record, record.grants, changes, say);
  }
}

function checkIdentity(
  { billing, totalMicros, usedMicros, availableMicros, heldMicros, expiredMicros }: Record_,
  say: Say,
) {
  const sum = usedMicros + availableMicros + heldMicros + expiredMicros;
  if (sum !== totalMicros)
    say(
      'total = used + available + held + expired',
      `${billing}: they make ${formatCredits(sum)} of ${formatCredits(totalMicros)}`,
    );
}

function checkRecord(one: Case, record: Record_, grants: Granted[], changes: Changed[][], say: Say): void {
  const { billing, proofMicros } = record;
  if (proofMicros !== 0)
    say(
      'the grants prove the balance',
      `${billing}: ${proofMicros === undefined ? 'not proved' : formatCredits(proofMicros)}`,
    );
  for (const grant of grants) checkGrant(billing, grant, say);
  const begun = grants.filter(({ state, expiredMicros, usedMicros }) =>
    state === 'VOIDED' ? expiredMicros + usedMicros > 0 : state !== 'PENDING',
  );
  const sum = (of: (grant: Granted) => number) => begun.reduce((total, grant) => total + of(grant), 0);
  const amounts = [
    ['credits', record.totalMicros, sum(({ micros }) => micros)],
    ['expired credits', record.expiredMicros, sum(({ expiredMicros }) => expiredMicros)],
  ] as const;
  for (const [what, has, make] of amounts) {
    if (has !== make)
      say(
        'the grants make the balance',
        `${billing} has ${formatCredits(has)} ${what}, its grants ${formatCredits(make)}`,
      );
  }
  const used = sum(({ usedMicros }) => usedMicros);
  if (used > record.usedMicros)
    say(
      'no grant gives more than it has',
      `${billing} used ${formatCredits(record.usedMicros)}, its grants gave ${formatCredits(used)}`,
    );
  checkChanges(one, billing, grants, changes, say);
}

function checkGrant(
  billing: string,
  { name, id, micros, usedMicros, expiredMicros, remainingMicros }: Granted,
  say: Say,
) {
  const parts = [usedMicros, expiredMicros, remainingMicros];
  if (parts.some((part) => part < 0) || usedMicros > micros)
    say('no grant gives more than it has', `${billing}: ${name || id} of ${micros} has ${parts.join(', ')}`);
}

/** Every grant that was answered is there once, and one that was voided stays voided. */
function checkChanges(one: Case, billing: string, grants: Granted[], changes: Changed[][], say: Say): void {
  const rule = 'no answered change is lost';
  for (const attempts of changes) {
    const [{ what, of, detail }] = attempts as [Changed];
    if (of !== billing || (what !== 'grant.create' && what !== 'grant.void')) continue;
    const found = grants.filter(({ name }) => name === detail.name);
    const isAnswered = attempts.some((line) => isLasting(one, line));
    if (found.length > 1) say(rule, `${billing}: ${detail.name} is there ${found.length} times`);
    if (isAnswered && what === 'grant.create' && found[0]?.micros !== detail.amountMicros)
      say(rule, `${billing}: ${detail.name} was answered and is ${found[0] ? 'another' : 'not there'}`);
    if (isAnswered && what === 'grant.void' && found[0]?.state !== 'VOIDED')
      say(rule, `${billing}: ${detail.name} was voided and is ${found[0]?.state ?? 'not there'}`);
  }
}
