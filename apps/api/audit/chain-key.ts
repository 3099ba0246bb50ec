import { randomBytes } from 'node:crypto';
import type { Query, Transaction } from '../../../shared/stores/postgres.ts';
import { makeSealer, type MasterKeys, type Sealer } from '../../../shared/values/seal.ts';

/** The row of `audit_chain_state`. */
export type ChainState = {
  keySealed: Buffer | null;
  sealedUnder: string | null;
};

const BOUND = 'audit chain';

/** The chain has lines, and its key was taken away. */
export class ChainKeyGone extends Error {}

/**
 * The key of the chain, in the transaction that holds the state's row. The first call makes it; never a chain with
 * lines, which would go on under a key that proves none of them. It is stored encrypted, so it outlives a change of the master
 * key: if it is encrypted under an earlier one, it is encrypted again.
 */
export async function keepChainKey(tx: Transaction, masterKeys: MasterKeys, state: ChainState): Promise<Buffer> {
  const sealer = chainSealer(masterKeys);
  const key = openChainKey(masterKeys, state) ?? (await makeChainKey(tx));
  if (state.sealedUnder !== sealer.keyName)
    await tx`
      update audit_chain_state
      set key_sealed = ${sealer.seal(key.toString('hex'), BOUND)}, sealed_under = ${sealer.keyName}`;
  return key;
}

/** The key of the chain; undefined before the first line was chained. Throws if no master key opens it. */
export function openChainKey(masterKeys: MasterKeys, { keySealed }: Pick<ChainState, 'keySealed'>): Buffer | undefined {
  if (!keySealed) return undefined;
  try {
    return Buffer.from(chainSealer(masterKeys).unseal(keySealed, BOUND), 'hex');
  } catch (error) {
    throw new Error('the key of the audit log opens neither under MASTER_KEY nor under MASTER_KEY_PREVIOUS', {
      cause: error,
    });
  }
}

/** Reads the state without holding it. */
export async function readChainState(sql: Query): Promise<ChainState> {
  const [state] = await sql<ChainState[]>`
    select key_sealed, sealed_under from audit_chain_state`;
  if (!state) throw new Error('audit_chain_state has lost its row, and with it the key of the audit log');
  return state;
}

async function makeChainKey(tx: Transaction): Promise<Buffer> {
  const [line] = await tx`select from audit_chain limit 1`;
  if (line) throw new ChainKeyGone('the key of the audit log is gone, though its chain has lines: put key_sealed back');
  return randomBytes(32);
}

function chainSealer(masterKeys: MasterKeys): Sealer {
  return makeSealer(masterKeys, 'audit chain');
}
