import type { Logger } from '../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { MasterKeys } from '../../../shared/values/seal.ts';
import { sealedFor, signingKeySealer } from './signing-keys.ts';

const EVERY_MS = 600_000;

/**
 * Encrypts signing keys under the current master key that are encrypted under another one: at the start, and every ten
 * minutes, because a program that still has the old master key may make a key meanwhile. A key that opens under no known
 * master key is logged as an error.
 */
export function resealSigningKeys(sql: Sql, masterKeys: MasterKeys, log: Logger): Loop {
  const sealer = signingKeySealer(masterKeys);
  return startLoop(EVERY_MS, log, 'encrypting signing keys again', async () => {
    const rows = await sql<{ kid: string; teamId: string; privateEncrypted: Buffer }[]>`
      select kid, team_id, private_encrypted from signing_keys where sealed_under <> ${sealer.keyName}`;
    let sealed = 0;
    for (const { kid, teamId, privateEncrypted } of rows) {
      let pem: string;
      try {
        pem = sealer.unseal(privateEncrypted, sealedFor(teamId, kid));
      } catch {
        log.error({ kid }, 'a signing key opens neither under MASTER_KEY nor under MASTER_KEY_PREVIOUS');
        continue;
      }
      // Only if nobody changed the row meanwhile.
      const { count } = await sql`
        update signing_keys
        set private_encrypted = ${sealer.seal(pem, sealedFor(teamId, kid))}, sealed_under = ${sealer.keyName}
        where kid = ${kid} and private_encrypted = ${privateEncrypted}`;
      sealed += count;
    }
    if (sealed > 0) log.info({ keys: sealed }, 'signing keys were encrypted under the current master key');
  });
}
