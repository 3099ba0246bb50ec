import type { Clock } from '../../../shared/runtime/clock.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import type { MasterKeys } from '../../../shared/values/seal.ts';
import { webhookSealer, webhookSecretPlace } from '../../../shared/values/webhook-secret.ts';

const EVERY_MS = 600_000;
const WEBHOOKS_AT_ONCE = 500;

/**
 * Encrypts secrets of webhooks under the current master key that are encrypted under another one, as
 * reseal-signing-keys.ts does with signing keys, and for the same reasons again and again.
 */
export function resealWebhookSecrets(sql: Sql, masterKeys: MasterKeys, log: Logger, clock: Clock): Loop {
  return startLoop(clock, EVERY_MS, log, 'encrypting secrets of webhooks again', () =>
    resealOnce(sql, masterKeys, log),
  );
}

/** Encrypts all of them once. */
export async function resealOnce(sql: Query, masterKeys: MasterKeys, log: Logger): Promise<void> {
  const sealer = webhookSealer(masterKeys);
  let sealed = 0;
  for (let page = await nextPage(''); page.length > 0; page = await nextPage(page.at(-1)!.id))
    for (const row of page) sealed += await reseal(row);
  if (sealed > 0) log.info({ webhooks: sealed }, 'secrets of webhooks were encrypted under the current master key');

  function nextPage(after: string) {
    return sql<SealedWebhook[]>`
      select id, secret_sealed, previous_sealed from webhooks
      where sealed_under <> ${sealer.keyName} and deleted_at is null and id > ${after} order by id limit ${WEBHOOKS_AT_ONCE}`;
  }

  async function reseal({ id, secretSealed, previousSealed }: SealedWebhook): Promise<number> {
    const place = webhookSecretPlace(id);
    const again = (sealed: Buffer) => sealer.seal(sealer.unseal(sealed, place), place);
    let sealed: (Buffer | null)[];
    try {
      sealed = [again(secretSealed), previousSealed && again(previousSealed)];
    } catch {
      log.error(
        { webhookId: id },
        'a secret of a webhook opens neither under MASTER_KEY nor under MASTER_KEY_PREVIOUS',
      );
      return 0;
    }
    // Only if nobody changed the row meanwhile.
    const { count } = await sql`
      update webhooks set secret_sealed = ${sealed[0]!}, previous_sealed = ${sealed[1] ?? null}, sealed_under = ${sealer.keyName}
      where id = ${id} and secret_sealed = ${secretSealed}`;
    return count;
  }
}

type SealedWebhook = { id: string; secretSealed: Buffer; previousSealed: Buffer | null };
