/**
 * Inside the service credits are whole micro-credits, outside they are decimal text. A record holds at most 9e15
 * micro-credits. That is below 2^53, so a double holds every amount exactly; no code divides one into a fraction.
 */
export const MAX_MICROS = 9_000_000_000_000_000;
export const CREDITS_PATTERN = '^\\d{1,10}(\\.\\d{1,6})?$';

const creditsPattern = new RegExp(CREDITS_PATTERN);

/** Decimal text to micro-credits; `undefined` unless it is an amount of at most 9000000000 with at most six decimals. */
export function parseCredits(text: string): number | undefined {
  if (!creditsPattern.test(text)) return undefined;
  const [whole = '', fraction = ''] = text.split('.');
  const micros = Number(whole) * 1_000_000 + Number(fraction.padEnd(6, '0'));
  return micros <= MAX_MICROS ? micros : undefined;
}

/** The same for text that may begin with a minus. */
export function parseSignedCredits(text: string): number | undefined {
  if (!text.startsWith('-')) return parseCredits(text);
  const micros = parseCredits(text.slice(1));
  return micros === undefined ? undefined : -micros;
}

/** Micro-credits to canonical decimal text: no leading or trailing zeros. Negative amounts are corrections. */
export function formatCredits(micros: number): string {
  if (micros < 0) return `-${formatCredits(-micros)}`;
  const rest = micros % 1_000_000;
  const whole = String((micros - rest) / 1_000_000);
  if (rest === 0) return whole;
  const fraction = String(1_000_000 + rest).slice(1);
  let end = fraction.length;
  while (fraction[end - 1] === '0') end -= 1;
  return `${whole}.${fraction.slice(0, end)}`;
}

/** The same for sums, which may be larger than any record's amount. */
export function formatSum(micros: bigint): string {
  if (micros < 0n) return `-${formatSum(-micros)}`;
  const fraction = formatCredits(Number(micros % 1_000_000n)).slice(1);
  return `${micros / 1_000_000n}${fraction}`;
}

/**
 * A JSON number of credits to micro-credits; `undefined` unless it is above 0 and has at most six decimals. Below 2^33 its
 * shortest decimal text is what the client wrote. Above, several amounts of six decimals share one double (IEEE 754), so
 * a number of more than 15 significant digits is refused: the client may have written a different amount.
 */
export function creditsFromNumber(value: number): number | undefined {
  // From 1e-6 up to 1e21 a number prints without an exponent; a number outside that range is not an amount.
  const text = String(value);
  const exact = value < 2 ** 33 || text.replace('.', '').length <= 15;
  const micros = exact ? parseCredits(text) : undefined;
  return micros === undefined || micros === 0 ? undefined : micros;
}

/** How many micro-credits of a record may be used in all. Overages go beyond what was bought, up to the spend cap. */
export function creditLimit(record: { totalMicros: number; allowOverages: boolean; spendCapMicros: number | null }) {
  const cap = record.spendCapMicros ?? MAX_MICROS;
  return record.allowOverages ? cap : Math.min(record.totalMicros, cap);
}
