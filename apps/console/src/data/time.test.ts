import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { fromNow, joined, lastDays, localMoment } from './time.ts';

test('a moment is told to its second, with its year where that is another one', () => {
  const year = new Date().getFullYear();
  assert.is(localMoment(new Date(year, 10, 26, 9, 5, 7).getTime()), '26 Nov, 09:05:07');
  assert.is(localMoment(new Date(year - 1, 0, 2, 23, 0, 59).getTime()), `2 Jan ${year - 1}, 23:00:59`);
});

test('how far a moment is from now is told in its largest unit', () => {
  const at = (seconds: number) => fromNow(Date.now() + seconds * 1_000);
  assert.equal([at(-59.9), at(-3_540), at(-7_300), at(-260_000)], ['1 min ago', '59 min ago', '2 h ago', '3 d ago']);
  assert.equal([at(90.2), at(190_000)], ['in 1 min', 'in 2 d']);
});

test('days of a zone that there is not are those of UTC', () => {
  assert.equal(lastDays('Atlantis', 2), lastDays('UTC', 2));
});

test('the days of a chart are those of the calendar, where one of them has 25 hours', () => {
  const late = Date.parse('2026-10-25T22:30:00Z');
  assert.equal(lastDays('Europe/Oslo', 2, late), { from: '2026-10-24', to: '2026-10-25' });
});

test('calls of before stay below newer ones, but not where some between them may be missing', () => {
  const [one, two, three] = ['1', '2', '3'].map((id) => ({ id, time: id }));
  assert.equal(joined([three!], [two!, one!], 2), [three, two, one]);
  assert.equal(joined([three!, two!], [two!, one!], 2), [three, two, one]);
  assert.equal(joined([three!, two!], [one!], 2), [three, two]);
});
