import { randomBytes } from 'node:crypto';
import { makeSealer, type MasterKeys, type Sealer } from './seal.ts';

const BYTES = 32;

/** A new secret, in the form of Standard Webhooks. */
export function newWebhookSecret(): string {
  return `whsec_${randomBytes(BYTES).toString('base64')}`;
}

/** Seals secrets of webhooks for Postgres. */
export function webhookSealer(masterKeys: MasterKeys): Sealer {
  return makeSealer(masterKeys, 'webhook secret');
}

/** Where a sealed secret belongs: in the row of another webhook it does not open. */
export function webhookSecretPlace(webhookId: string): string {
  return `webhook ${webhookId}`;
}
