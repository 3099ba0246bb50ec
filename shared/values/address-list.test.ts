import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isListed, packAddressList } from './address-list.ts';
import { addressBits, blockBits } from './ip.ts';

// Few different bytes, so that blocks meet, touch and repeat.
const byte = fc.constantFrom(0, 1, 127, 128, 255);
const v4 = fc.tuple(byte, byte, byte, byte).map((bytes) => bytes.join('.'));
const word = fc.constantFrom('0', '1', '8000', 'ffff');
const v6 = fc.tuple(word, word, word).map((words) => `2001:${words.join(':')}::${words[0]}`);
const address = fc.oneof(v4, v6);
const block = fc.oneof(
  address,
  fc.tuple(v4, fc.integer({ min: 0, max: 32 })).map(([text, length]) => `${text}/${length}`),
  fc.tuple(v6, fc.integer({ min: 0, max: 128 })).map(([text, length]) => `${text}/${length}`),
);

test('a packed list holds exactly the addresses of its blocks, however these overlap, touch or repeat', () => {
  fc.assert(
    fc.property(fc.array(block, { minLength: 1, maxLength: 30 }), fc.array(address), (texts, addresses) => {
      const list = packAddressList(texts);
      const blocks = texts.map((text) => blockBits(text)!);
      for (const one of addresses) {
        const expected = blocks.some((bits) => addressBits(one)!.startsWith(bits));
        assert.is(isListed(list, one), expected, `${one} in ${texts.join(' ')}`);
      }
    }),
    { numRuns: 1_000 },
  );
});

test('a list takes 5 bytes for an IPv4 block and 17 for an IPv6 block, whatever their order, and none for a block within another', () => {
  const many = (count: number, text: (i: number) => string) => Array.from({ length: count }, (_, i) => text(i));
  const v4s = many(1_000, (i) => `10.0.${i >> 7}.${2 * (i & 127)}`);
  assert.is(packAddressList(v4s).length, 2 + 5 * 1_000);
  const v6s = many(1_000, (i) => `2001:db8::${(2 * i).toString(16)}`);
  assert.is(packAddressList(v6s).length, 2 + 17 * 1_000);
  assert.equal(packAddressList(v6s.toReversed()), packAddressList(v6s));
  assert.is(packAddressList(['10.0.0.0/8', '10.1.0.0/16', '10.1.2.3', '10.0.0.0/8']).length, 2 + 5);
  assert.equal(packAddressList(many(256, (i) => `192.0.2.${i}`)), packAddressList(['192.0.2.0/24']));
  assert.equal(packAddressList(['0.0.0.0/1', '128.0.0.0/1']), packAddressList(['0.0.0.0/0']));
});

test('a list of all addresses of one family holds none of the other, and nothing that is no address', () => {
  const asked = ['1.2.3.4', '::1', '::ffff:1.2.3.4', '', 'x'];
  const found = (list: string[]) => asked.filter((one) => isListed(packAddressList(list), one));
  assert.equal(found(['0.0.0.0/0']), ['1.2.3.4', '::ffff:1.2.3.4']);
  assert.equal(found(['::/0']), ['::1']);
});
