import type { Caller } from '../contract/caller.ts';
import type { Flags } from '../contract/schemas.ts';
import { END, packFields, readFields } from '../stores/fields.ts';
import { packWantedScopes } from '../stores/scope-mark.ts';

// What is sent to verify.lua and what it answers. Each table says the order of some fields; nothing else knows a place.
// The script calls its fields by the same names: script-protocol.test.ts compares them, script-answers.test.ts runs the script.

/** What a call is asked with, packed; several that have it in common are asked as one group, each with the start of its event. */
export const callFields = [
  /** What the script found for this question and this secret before (`lookupFields`), or `NO_LOOKUP`. */
  'lookup',
  /** The list of addresses in which the caller searched the client's, by the name that a lookup gave it; empty: none. */
  'searchedList',
  /** `1` when it holds the address, else empty. */
  'listed',
  /** Or the hold that is asked for (verify.lua). */
  'costMicros',
  /** Hash of access token and Idempotency-Key; empty without one. */
  'idempotencyHash',
  /** Hash of cost and usage name, with which an Idempotency-Key must come again; empty without one. Never longer: it is kept. */
  'usageHash',
  /** Who asks for what (`questionFields`): a lookup is good for the same question only. */
  'question',
] as const;

/** The question. */
export const questionFields = [
  'callerTeamId',
  /** The workspaces that the caller is limited to, each between spaces; empty: all of the team. */
  'callerWorkspaceIds',
  /** The mark (scope-mark.ts) and the flags of each wanted scope, without anything between them. */
  'wantedScopes',
] as const;

/** A lookup: what the records say to a question. */
export const lookupFields = [
  /** Epoch of the shard and its count of writes: while these stay, the records stay. */
  'epoch',
  'writes',
  /** Redis time in ms at which it ends all the same; 0: never. */
  'holdsUntilMs',
  /** The name of the list of addresses that may use the key (address-lists.ts); empty: every address. */
  'addressList',
  /** Status and reason of a refusal, whatever is asked; else empty. */
  'knownRefusal',
  /**
   * Verifications a second; empty: no limit. With limits over windows (limits.ts) `@` and, as the script found them, those of the
   * key or of its workspace and those of the record; as it is sent back, `@`, how many bytes they take at the end of the call
   * in three digits, and the rate.
   */
  'ratePerSecond',
  /** Names in Redis: the key's rate, its billing record (empty when it is not metered). */
  'rateKey',
  'billingKey',
  /**
   * Most micro-credits that may be used; empty without a billing record. Of settings with classes of credits: `@` and the
   * version of these settings.
   */
  'limitMicros',
  /** Key, billing record, workspace and customer as a part of the event's JSON. */
  'eventIds',
] as const;

/** What the answer of a script begins with. */
export const batchFields = ['ok', 'nowMs', 'nowTicks'] as const;

/** Then the answer to each call, its fields between `\x1f`. */
export const answerFields = [
  /** A status of verification; or why there is none: CLOSED, LATE, OUTBOX_FULL, HOLDS_FULL, CONFLICT, CANCELLED, SEARCH, AGAIN, ELSEWHERE, CORRUPT. */
  'status',
  /** Why it was refused; of CORRUPT the error, of ELSEWHERE the shard. */
  'reason',
  /**
   * Used micro-credits after this call; empty without a billing record. Of an account: used, held, total and expired ones, with
   * spaces between; and after these of a hold its 26 characters, when it was opened and when it ends in ms, its epoch, and the
   * number of the account's moment.
   */
  'usedMicros',
  /** The sequence number of this call's debit in its epoch; empty when it made none. */
  'sequence',
  /** The rate limit in force, and the theoretical arrival time after this call; empty without a limit. */
  'ratePerSecond',
  'arrivalTicks',
  /** For a repeated Idempotency-Key: the time of the first call, to which `arrivalTicks` belongs. */
  'askedAtTicks',
] as const;

/** Behind them, where the key or its record has limits over windows, these, each after `\x1e`. */
export const limitAnswerFields = [
  /** The place of the one that refused, from 1; empty: none of them. */
  'limitedBy',
  /** The places of those that only watch and would have refused, each ended by a space. */
  'wouldRefuse',
  /** For a repeated Idempotency-Key: the time of the first call, to which the counters belong. */
  'askedAtTicks',
  /** What each has counted, in millionths: the level of a sliding window at that time; each ended by a space. */
  'levels',
] as const;

/** Then, for each call whose key was found by looking it up, these as elements of the answer. */
export const newLookupFields = [
  /** The place of its group, from 0. */
  'group',
  'lookup',
  /** The records as they are (records.ts): the key's, the billing record's settings ('' without). */
  'keyRecord',
  'billingRecord',
  /** The workspace's defaults, and then its scopes that the key was granted. */
  'scopes',
] as const;

/** What stands for a lookup where there is none. */
export const NO_LOOKUP = END.repeat(lookupFields.length - 1);

/** Ticks of the script's clock. */
export const TICKS_PER_SECOND = 8e6;

/** What all calls of a script share. */
export type BatchArguments = { runId: string; notAfterMs: number; outboxFull: boolean };
/** An answer of the script to one call. */
export type ScriptAnswer = {
  nowMs: number;
  nowTicks: number;
  fields: Record<(typeof answerFields)[number], string>;
  limits: Record<(typeof limitAnswerFields)[number], string> | undefined;
  newLookup: NewLookup | undefined;
};
export type NewLookup = Record<Exclude<(typeof newLookupFields)[number], 'scopes'>, string> & { scopes: string[] };

/** Packs what a call is asked with. */
export function packCall(values: Readonly<Record<(typeof callFields)[number], string | number>>): string {
  return packFields(callFields, values);
}

/** Packs a question, as a field of a call: without the end that a field gets there. */
export function packQuestion(
  caller: Pick<Caller, 'teamId' | 'workspaceIds'>,
  scopes: readonly ({ representation: string } & Flags)[],
): string {
  const callerWorkspaceIds = workspacesOf(caller);
  const values = { callerTeamId: caller.teamId, callerWorkspaceIds, wantedScopes: packWantedScopes(scopes) };
  return packFields(questionFields, values).slice(0, -END.length);
}

/** The workspaces that a caller is limited to, as scripts take them. */
export function workspacesOf({ workspaceIds }: Pick<Caller, 'workspaceIds'>): string {
  return workspaceIds ? ` ${workspaceIds.join(' ')} ` : '';
}

/** The script's ARGV: calls as they are packed, those of verify.lua each followed by the starts of its events. */
export function scriptArguments(batch: BatchArguments, packedCalls: readonly string[]): (string | number)[] {
  return [batch.runId, batch.notAfterMs, batch.outboxFull ? '1' : '', ...packedCalls];
}

/** Reads what the script answered to groups of so many calls. */
export function readScriptAnswers(answer: readonly (string | string[])[], sizes: readonly number[]): ScriptAnswer[] {
  const calls = sizes.reduce((sum, size) => sum + size, batchFields.length);
  const newLookups: NewLookup[] = [];
  for (let at = calls; at < answer.length; at += newLookupFields.length) {
    const newLookup = Object.fromEntries(newLookupFields.map((name, i) => [name, answer[at + i]])) as NewLookup;
    newLookups[Number(newLookup.group)] = newLookup;
  }
  const nowMs = Number(answer[batchFields.indexOf('nowMs')]);
  const nowTicks = Number(answer[batchFields.indexOf('nowTicks')]);
  const answers: ScriptAnswer[] = [];
  for (const [group, size] of sizes.entries()) {
    for (let i = 0; i < size; i++) {
      const text = answer[batchFields.length + answers.length] as string;
      const end = text.indexOf('\x1e');
      answers.push({
        nowMs,
        nowTicks,
        fields: readFields(answerFields, end < 0 ? text : text.slice(0, end), '\x1f'),
        limits: end < 0 ? undefined : readFields(limitAnswerFields, text.slice(end + 1), '\x1e'),
        newLookup: newLookups[group],
      });
    }
  }
  return answers;
}

/** Packs the fields of a lookup, as `packCall` takes it. */
export function packLookup(fields: Record<(typeof lookupFields)[number], string>): string {
  return packFields(lookupFields, fields).slice(0, -END.length);
}

/** The fields of a lookup. */
export function readLookup(lookup: string): Record<(typeof lookupFields)[number], string> {
  return readFields(lookupFields, lookup);
}
