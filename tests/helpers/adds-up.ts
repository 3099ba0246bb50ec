import * as assert from 'uvu/assert';

/** Micro-credits of a text, by an arithmetic of its own. */
export function micros(text: string): bigint {
  const [whole = '', fraction = ''] = text.replace('-', '').split('.');
  return BigInt(whole + fraction.padEnd(6, '0')) * (text.startsWith('-') ? -1n : 1n);
}

/** Whether the movements of a statement lead from its opening to its closing balances. */
export function addsUp({ opening, movements, closing }: any): void {
  const sums = ['total', 'used', 'expired'].map((balance) =>
    movements
      .filter((one: any) => one.balance === balance)
      .reduce((all: bigint, { amount }: any) => all + micros(amount), micros(opening[balance])),
  );
  const [total, used, expired] = sums;
  const said = ['total', 'used', 'expired', 'remaining'].map((one) => micros(closing[one]));
  assert.equal([...sums, total - used - expired], said);
}
