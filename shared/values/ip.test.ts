import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addressBits, blockBits } from './ip.ts';

const v4Bytes = fc.uint8Array({ minLength: 4, maxLength: 4 });
const v6Words = fc
  .uint16Array({ minLength: 8, maxLength: 8 })
  .filter((words) => words.slice(0, 5).some((word) => word > 0));
const v4Text = (bytes: Uint8Array) => [...bytes].join('.');
const v6Text = (words: Uint16Array) => [...words].map((word) => word.toString(16)).join(':');
const v4Bits = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
const v6Bits = (words: Uint16Array) => [...words].map((word) => word.toString(2).padStart(16, '0')).join('');

test('an address lies in a block exactly when their first bits are equal', () => {
  const liesAsItsBitsSay = <Address>(of: fc.Arbitrary<Address>, text: (of: Address) => string, bits: typeof text) => {
    const longest = bits(fc.sample(of, 1)[0]!).length;
    fc.assert(
      fc.property(of, of, fc.integer({ min: 0, max: longest }), (address, block, length) => {
        const inside = addressBits(text(address))!.startsWith(blockBits(`${text(block)}/${length}`)!);
        assert.is(inside, bits(address).slice(0, length) === bits(block).slice(0, length));
        assert.is(blockBits(text(address)), addressBits(text(address)), 'an address is a block of one');
      }),
    );
  };
  liesAsItsBitsSay(v4Bytes, v4Text, v4Bits);
  liesAsItsBitsSay(v6Words, v6Text, v6Bits);
});

test('an IPv4-mapped IPv6 address counts as IPv4, and the families never mix', () => {
  assert.is(addressBits('::ffff:10.1.2.3'), addressBits('10.1.2.3'));
  assert.is(blockBits('::ffff:10.0.0.0/104'), blockBits('10.0.0.0/8'));
  assert.not.ok(addressBits('10.1.2.3')!.startsWith(blockBits('::/0')!));
  assert.not.ok(addressBits('2001:db8::1')!.startsWith(blockBits('0.0.0.0/0')!));
});

test('text that is not an address or a block is refused', () => {
  const words =
    'a 10.1 010.0.0.1 1.2.3.4.5 256.1.1.1 0x7f.0.0.1 ::: 10.0.0.0/33 ::/129 10.0.0.0/08 ::/000 10.0.0.0/ 10.0.0.0/-1 1.1.1.1/8/8';
  for (const text of ['', '1.2.3.4 ', ...words.split(' ')]) {
    assert.is(blockBits(text), undefined, text);
    assert.is(addressBits(text), undefined, text);
  }
  assert.is(addressBits('10.0.0.0/8'), undefined);
});
