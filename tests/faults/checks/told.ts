import type { Case, Say } from './case.ts';
import type { Told } from '../history.ts';

/** Webhooks are told of every key that was made or deleted, and of every hold that ended by itself. */
export function checkTold(one: Case, say: Say): void {
  for (const told of one.told) {
    for (const what of untold(one, told)) say('webhooks are told what happens', `no webhook was told of ${what}`);
  }
}

/** What a webhook should have been told and was not. */
export function untold({ changed, held, settled }: Case, { since, events }: Pick<Told, 'since' | 'events'>): string[] {
  const told = new Set(events.map(({ type, subject }) => `${type} ${subject}`));
  const changes = changed.filter(({ from, http = 500 }) => from > since && http < 300);
  const ofKeys = ['create', 'delete'].flatMap((verb) =>
    changes.filter(({ what }) => what === `key.${verb}`).map(({ of }) => `key.${verb}d ${of}`),
  );
  // The id of a hold, decoded, has the characters of its event's id.
  const ended = events.filter(({ type }) => type === 'hold.expired').map(({ subject }) => subject.replace('evt_', ''));
  const asked = new Set(settled.map(({ call }) => call));
  const left = held.filter(({ from, call, hold }) => from > since && hold !== undefined && !asked.has(call));
  const ofHolds = [...new Set(left.map(({ hold = '' }) => hold))].filter((hold) => {
    const said = Buffer.from(hold.replace('hold_', ''), 'base64url').toString('latin1');
    return !ended.some((characters) => said.includes(characters));
  });
  return [...ofKeys.filter((what) => !told.has(what)), ...ofHolds.map((hold) => `the end of ${hold}`)];
}
