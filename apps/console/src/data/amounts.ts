// Decimal text in whole millionths: sums are exact to the last decimal.
const DECIMALS = 6;

/** Decimal text in millionths. */
export function microsIn(text: string): bigint {
  const [whole = '', decimals = ''] = text.split('.');
  return BigInt(whole + decimals.padEnd(DECIMALS, '0'));
}

/** Millionths as decimal text, without zeros at its end. */
export function textOf(micros: bigint): string {
  const digits = String(micros < 0n ? -micros : micros).padStart(DECIMALS + 1, '0');
  const decimals = digits.slice(-DECIMALS).replace(/0+$/, '');
  return `${micros < 0n ? '-' : ''}${digits.slice(0, -DECIMALS)}${decimals && `.${decimals}`}`;
}

/** Decimal text as people read it: whole digits in groups, every decimal kept. */
export function grouped(text: string): string {
  const [whole = '', decimals] = text.split('.');
  const inGroups = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return decimals === undefined ? inGroups : `${inGroups}.${decimals}`;
}
