import type { Clock } from '../../../../shared/runtime/clock.ts';
import type { Logger } from '../../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../../shared/runtime/loop.ts';
import type { Sql } from '../../../../shared/stores/postgres.ts';
import type { MasterKeys } from '../../../../shared/values/seal.ts';
import { sealedFor, signingKeySealer } from './signing-keys.ts';

const EVERY_MS = 600_000;
const KEYS_AT_ONCE = 500;

/**
 * Encrypts signing keys under the current master key that are encrypted under another one: at the start, and every ten
 * minutes, because a program that still has the old master key may make a key meanwhile. A key that opens under no known
 * master key is logged as an error.
 */
export function resealSigningKeys(sql: Sql, masterKeys: MasterKeys, log: Logger, clock: Clock): Loop {
  const sealer = signingKeySealer(masterKeys);
  return startLoop(clock, EVERY_MS, log, 'encrypting signing keys again', async () => {
    let sealed = 0;
    for (let page = await nextPage(''); page.length > 0; page = await nextPage(page.at(-1)!.kid))
      for (const row of page) sealed += await reseal(row);
    if (sealed > 0) log.info({ keys: sealed }, 'signing keys were encrypted under the current master key');
  });

  function nextPage(after: string) {
    return sql<SealedKey[]>`
      select kid, team_id, private_encrypted from signing_keys
      where sealed_under <> ${sealer.keyName} and kid > ${after} order by kid limit ${KEYS_AT_ONCE}`;
  }

  async function reseal({ kid, teamId, privateEncrypted }: SealedKey): Promise<number> {
    let pem: string;
    try {
      pem = sealer.unseal(privateEncrypted, sealedFor(teamId, kid));
    } catch {
      log.error({ kid }, 'a signing key opens neither under MASTER_KEY nor under MASTER_KEY_PREVIOUS');
      return 0;
    }
    // Only if nobody changed the row meanwhile.
    const { count } = await sql`
      update signing_keys
      set private_encrypted = ${sealer.seal(pem, sealedFor(teamId, kid))}, sealed_under = ${sealer.keyName}
      where kid = ${kid} and private_encrypted = ${privateEncrypted}`;
    return count;
  }
}

type SealedKey = { kid: string; teamId: string; privateEncrypted: Buffer };
