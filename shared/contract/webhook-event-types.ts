/** Every type of event, in the order of the documentation. */
export const webhookEventTypes = [
  'credits.alert',
  'credits.exhausted',
  'credits.replenished',
  'grant.began',
  'grant.expiring',
  'grant.expired',
  'limit.reached',
  'key.created',
  'key.rotated',
  'key.deleted',
  'key.expiring',
  'hold.expired',
  'books.different',
  'month.closed',
  'meter.failed',
] as const;
export type WebhookEventType = (typeof webhookEventTypes)[number];
