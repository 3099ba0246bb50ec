import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeClientAddress } from './client-address.ts';

const clientAddress = makeClientAddress(['10.0.0.0/8', '127.0.0.1']);

test('it is the last address that no trusted proxy has', () => {
  for (const [forwardedFor, address] of [
    [undefined, '127.0.0.1'],
    ['', '127.0.0.1'],
    ['203.0.113.9', '203.0.113.9'],
    ['198.51.100.1,203.0.113.9', '203.0.113.9'],
    [' 198.51.100.1 ,\t203.0.113.9 , 10.1.2.3,10.0.0.1 ', '203.0.113.9'],
    ['2001:db8::1', '2001:db8::1'],
    ['10.1.2.3', '10.1.2.3'],
    ['198.51.100.1,,10.0.0.1', '10.0.0.1'],
    ['198.51.100.1,', '127.0.0.1'],
    [',', '127.0.0.1'],
    ['nonsense, 10.0.0.1', 'nonsense'],
  ] as const) {
    assert.is(clientAddress('127.0.0.1', forwardedFor), address, forwardedFor);
    assert.is(clientAddress('198.51.100.7', forwardedFor), '198.51.100.7', 'its header counts only from a proxy');
  }
});

test('text that is no address, and a chain of more proxies than anybody has, are no address', () => {
  assert.is(clientAddress('127.0.0.1', 'x'.repeat(65)), '');
  assert.is(clientAddress('127.0.0.1', '203.0.113.9, '.concat('10.0.0.1, '.repeat(31), '10.0.0.1')), '');
  assert.is(clientAddress('127.0.0.1', '203.0.113.9, '.concat('10.0.0.1, '.repeat(30), '10.0.0.1')), '203.0.113.9');
});
