import { globSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { recordFields } from '../stores/records.ts';
import { cancelFields, cancelledFields } from './cancel-calls.ts';
import { captureFields, settledFields } from './capture-protocol.ts';
import {
  answerFields,
  callFields,
  lookupFields,
  newLookupFields,
  questionFields,
  TICKS_PER_SECOND,
} from './script-protocol.ts';

// Compares the tables of script-protocol.ts and records.ts with the text of the Lua scripts; script-answers.test.ts runs them.

const lua = new URL('../stores/lua/', import.meta.url);
const files = globSync('**/*.lua', { cwd: lua.pathname }).toSorted();
const textOf = (file: string) => readFileSync(new URL(file, lua), 'utf8');
const codeOf = (file: string) => textOf(file).replace(/--.*/g, '');
const headOf = (file: string) => /^(--.*\n)*/.exec(textOf(file))![0];

// What a Lua variable holds, by its name. A position inside a text is named for what begins there: questionAt.
const tables: Record<string, readonly string[]> = {
  packedCall: callFields.flatMap((name) => (name === 'lookup' ? [...lookupFields] : [name])),
  lookup: lookupFields,
  question: questionFields,
  keyRecord: recordFields.key,
  workspaceRecord: [...recordFields.workspace, 'alerts'],
  alerts: ['alertsMark', 'declared'],
  billingRecord: [...recordFields.billing, 'grants', 'alerts'],
  grants: ['grants', 'alerts'],
  packedCapture: captureFields,
  packedCancel: cancelFields,
  // The script alone writes and reads what it keeps for an Idempotency-Key.
  onceRecord: ['usageThen', 'rateLimitThen', 'holdThen', 'limits'],
};

test('a script unpacks records and calls by the names and the order of the tables', () => {
  const seen: string[] = [];
  for (const file of files) {
    const statements = codeOf(file).matchAll(
      /^\s*(?:local\s+)?((?:\w+,\s*)*\w+)\s*=\s*unpackFields\('(s+)', (\w+)(?:, (\w+)At)?\)/gm,
    );
    for (const [, list = '', format = '', variable = '', place] of statements) {
      const table = place ?? variable;
      const fields = tables[table];
      assert.ok(fields, `${file}: no table says what ${table} holds`);
      const names = list.split(/,\s*/);
      assert.equal(names.slice(0, format.length), fields.slice(0, format.length), `${file}: ${table}`);
      // After the fields may come the place where the next one begins.
      const next = fields[format.length] ?? 'scopes';
      assert.ok([format.length, format.length + 1].includes(names.length), `${file}: ${table} by ${format}`);
      if (names.length > format.length) assert.is(names.at(-1), `${next}At`, `${file}: ${table}`);
      seen.push(table);
    }
  }
  const expected = Object.keys(tables).filter((name) => name !== 'lookup');
  assert.equal([...new Set(seen)].toSorted(), expected.toSorted());
});

test('the heads of the scripts name the fields in the order of the tables, and their clock ticks as ours', () => {
  const ofVerify = [[...callFields, ...questionFields], answerFields, newLookupFields];
  const tablesOf = {
    'verify.lua': ofVerify,
    'capture.lua': [captureFields, settledFields],
    'cancel.lua': [cancelFields, cancelledFields],
  };
  for (const [file, lists] of Object.entries<(readonly string[])[]>(tablesOf)) {
    const head = headOf(file).replace(/\n--\s+/g, ' ');
    for (const fields of lists) {
      const [, said = ''] = new RegExp(`\\b(${fields[0]}\\b[^:]*?\\b${fields.at(-1)}\\b)`).exec(head) ?? [];
      const named = said.split(/\W+/).filter((word) => fields.includes(word));
      assert.equal(named, [...fields]);
    }
  }
  assert.is(Number(/TICKS_PER_SECOND = (\S+)/.exec(codeOf('parts/time.lua'))![1]), TICKS_PER_SECOND);
});
