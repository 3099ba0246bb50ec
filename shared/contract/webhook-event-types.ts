/** Every type of event and when it comes, in the order of the documentation. */
export const webhookMeanings = {
  'credits.alert': 'a customer crosses an alert',
  'credits.top_up_due': 'credits are to be bought for a customer',
  'credits.exhausted': 'a customer has no credits left, or reached its cap',
  'credits.replenished': 'such a customer has credits again',
  'grant.began': 'granted credits begin',
  'grant.expiring': 'granted credits end in 7 days, or in one',
  'grant.expired': 'granted credits ended',
  'limit.reached': 'a limit of a minute or longer refuses a call',
  'key.created': 'a key is made or imported',
  'key.rotated': 'a key gets a new secret',
  'key.deleted': 'a key is deleted',
  'key.expiring': 'a key expires in 7 days, or in one',
  'hold.expired': 'nobody captured or released a hold',
  'books.different': 'a balance and its events differ',
  'month.closed': 'the statements of a month are final',
  'meter.failed': 'usage does not get through to a meter outside',
} as const;
export type WebhookEventType = keyof typeof webhookMeanings;
export const webhookEventTypes = Object.keys(webhookMeanings) as WebhookEventType[];
