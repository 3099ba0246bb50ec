import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { finish, type FinishOptions } from './finish.ts';
import type { Found, Row } from './rows.ts';

const item = { name: 'n', key: 'k', customerId: 'c' };
const budget = { fields: ['max_budget'], billing: { credits: '3' } };
const partly = { ...budget, without: ['budget_id'] };
const nowhere = { fields: ['max_budget', 'budget_duration'] };
const billed = (externalMeterId: string, billing: object = { allowOverages: true }) => ({
  item: { ...item, externalMeterId, billing },
});
const tooLarge = { customerId: 'c'.repeat(257), metadata: { tags: 'x'.repeat(4_096) } };
const leftOut = ['metadata of more than 4096 bytes', 'customerId of more than 256 characters'];
const flags = { allowWeak: true, restore: true };
const lost = /^max_budget would be lost: take --meter-from customerId or key, or --without-credits$/;
const cases: [Omit<Extract<Found, { item: object }>, 'lost'>, Partial<FinishOptions>, object | RegExp][] = [
  [{ item }, {}, { item }],
  [{ item, budget }, {}, lost],
  [{ item, budget }, { withoutCredits: true }, { item, lost: ['max_budget'] }],
  [{ item, budget }, { meterFrom: 'customerId' }, billed('c', budget.billing)],
  [{ item }, { meterFrom: 'customerId' }, billed('c')],
  [{ item: { name: 'n', key: 'k' } }, { meterFrom: 'customerId' }, /no customer .+ --meter-from key$/],
  [{ item, id: 'i' }, { meterFrom: 'key' }, billed('i')],
  [{ item, budget: partly }, { meterFrom: 'key' }, /^budget_id would be lost: keytally has no such credits/],
  [
    { item, id: 'i', budget: partly },
    { meterFrom: 'key', withoutCredits: true },
    { ...billed('i', budget.billing), lost: ['budget_id'] },
  ],
  [
    { item, id: 'i', budget: nowhere },
    { meterFrom: 'key', withoutCredits: true },
    { ...billed('i'), lost: nowhere.fields },
  ],
  [
    { item: { externalMeterId: 'own' } },
    { meterFrom: 'key', ...flags },
    { item: { externalMeterId: 'own', ...flags } },
  ],
  [{ item: { ...item, ...tooLarge } }, {}, { item: { name: 'n', key: 'k' }, lost: leftOut }],
];

test('a key gets its meter and its credits as asked, and one whose credits would be lost is refused unless that is meant', () => {
  for (const [found, options, wanted] of cases) {
    const { place, ...row } = finished({ place: 'line 2', lost: [], ...found }, options);
    assert.is(place, 'line 2');
    if (wanted instanceof RegExp) assert.match('refused' in row ? row.refused : JSON.stringify(row), wanted);
    else assert.equal(row, { lost: [], ...wanted });
  }
});

test('the meter of a key without an id is the same by its text and by its hash, and another one for another key', () => {
  const sha256 = 'ecd71870d1963316a97e3ac3408c9835ad8cf0f3c1bc703527c30265534f75ae'; // of test123
  const meterOf = (secret: object) => {
    const row = finished({ place: '', lost: [], item: secret } as Row, { meterFrom: 'key' });
    return 'item' in row ? row.item['externalMeterId'] : '';
  };
  const meter = meterOf({ key: 'test123' });
  assert.match(String(meter), /^key-[0-9a-f]{32}$/);
  assert.is(meterOf({ hash: { encoding: 'hex', value: sha256 } }), meter);
  assert.is.not(meterOf({ key: 'test124' }), meter);
});

function finished(row: Row, options: Partial<FinishOptions>): Row {
  return finish(row, { meterFrom: 'none', withoutCredits: false, allowWeak: false, restore: false, ...options });
}
