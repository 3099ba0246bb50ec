// Says which lines of the input are secrets of keytally, by their checksum alone: without a network, and without this
// project. A line that is one is printed again.
import { createInterface } from 'node:readline';
import { crc32 } from 'node:zlib';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const FORM = /^[A-Za-z][0-9A-Za-z_]{0,31}_(?:[0-5][0-9]|6[0-3])[0-9A-Za-z]{32}$/;

for await (const line of createInterface({ input: process.stdin }))
  if (isSecret(line)) process.stdout.write(`${line}\n`);

function isSecret(text) {
  if (!FORM.test(text)) return false;
  let checksum = 0;
  for (const digit of text.slice(-6)) checksum = checksum * 62 + DIGITS.indexOf(digit);
  return crc32(text.slice(0, -6)) === checksum;
}
