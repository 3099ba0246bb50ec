import { createHmac, timingSafeEqual } from 'node:crypto';

const TOLERANCE_MS = 300_000;

/** The parts of a Stripe-Signature header; undefined where it is none, or of another time. */
export function readStripeSignature(header: string | undefined, nowMs: number) {
  const parts = (header ?? '').split(',').map((part) => part.trim().split('='));
  const of = (name: string) => parts.flatMap(([key, value = '']) => (key === name ? [value] : []));
  const [seconds = '', ...more] = of('t');
  const signatures = of('v1').filter((one) => /^[0-9a-f]{64}$/.test(one));
  if (!/^\d{1,12}$/.test(seconds) || more.length > 0 || signatures.length === 0) return undefined;
  return Math.abs(nowMs - Number(seconds) * 1_000) > TOLERANCE_MS ? undefined : { seconds, signatures };
}

/** Whether one of the secrets signed these bytes at that time. */
export function isSignedByStripe(
  { seconds, signatures }: { seconds: string; signatures: readonly string[] },
  bytes: Buffer,
  secrets: readonly string[],
): boolean {
  return secrets.some((secret) => {
    const wanted = createHmac('sha256', secret).update(`${seconds}.`).update(bytes).digest();
    return signatures.some((one) => timingSafeEqual(Buffer.from(one, 'hex'), wanted));
  });
}
