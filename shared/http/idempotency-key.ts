import { invalidField } from '../contract/errors.ts';

/** The Idempotency-Key of a request; undefined when it has none. An unusable one is a 400: it would silently protect nothing. */
export function idempotencyKey(given: string | undefined): string | undefined {
  if (given === undefined || /^[\x21-\x7e][\x20-\x7e]{0,254}$/.test(given)) return given;
  throw invalidField('Idempotency-Key', 'must be 1 to 255 printable ASCII characters');
}
