import type { Logger } from '../../../shared/runtime/log.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { MasterKeys, Sealer } from '../../../shared/values/seal.ts';
import { webhookSealer, webhookSecretPlace } from '../../../shared/values/webhook-secret.ts';
import { sealedFor, signingKeySealer } from './jwts/signing-keys.ts';

/** A row with one or two sealed texts. */
type Sealed = { id: string; teamId: string; first: Buffer; second: Buffer | null };

type Kind = {
  what: string;
  sealer(masterKeys: MasterKeys): Sealer;
  /** What the texts of a row are bound to. */
  place(row: Sealed): string;
  page(sql: Query, keyName: string, after: string): PromiseLike<Sealed[]>;
  /** Stores the texts as they are now, only if nobody changed the row meanwhile. */
  store(sql: Query, row: Sealed, now: Omit<Sealed, 'id' | 'teamId'>, keyName: string): PromiseLike<{ count: number }>;
};

const ROWS_AT_ONCE = 500;

const kinds: Kind[] = [
  {
    what: 'signing keys',
    sealer: signingKeySealer,
    place: ({ teamId, id }) => sealedFor(teamId, id),
    page: (sql, keyName, after) => sql<Sealed[]>`
      select kid as id, team_id, private_encrypted as first, null as second from signing_keys
      where sealed_under <> ${keyName} and kid > ${after} order by kid limit ${ROWS_AT_ONCE}`,
    store: (sql, { id, first }, now, keyName) => sql`
      update signing_keys set private_encrypted = ${now.first}, sealed_under = ${keyName}
      where kid = ${id} and private_encrypted = ${first}`,
  },
  {
    what: 'secrets of webhooks',
    sealer: webhookSealer,
    place: ({ id }) => webhookSecretPlace(id),
    page: (sql, keyName, after) => sql<Sealed[]>`
      select id, team_id, secret_sealed as first, previous_sealed as second from webhooks
      where sealed_under <> ${keyName} and deleted_at is null and id > ${after} order by id limit ${ROWS_AT_ONCE}`,
    store: (sql, { id, first }, now, keyName) => sql`
      update webhooks set secret_sealed = ${now.first}, previous_sealed = ${now.second}, sealed_under = ${keyName}
      where id = ${id} and secret_sealed = ${first}`,
  },
  {
    what: 'secrets of meter destinations',
    sealer: webhookSealer,
    place: ({ id }) => webhookSecretPlace(id),
    page: (sql, keyName, after) => sql<Sealed[]>`
      select id, team_id, secret_sealed as first, null as second from meter_destinations
      where sealed_under <> ${keyName} and secret_sealed is not null and deleted_at is null and id > ${after} order by id limit ${ROWS_AT_ONCE}`,
    store: (sql, { id, first }, now, keyName) => sql`
      update meter_destinations set secret_sealed = ${now.first}, sealed_under = ${keyName}
      where id = ${id} and secret_sealed = ${first}`,
  },
  {
    what: 'secrets of payment sources',
    sealer: webhookSealer,
    place: ({ id }) => webhookSecretPlace(id),
    page: (sql, keyName, after) => sql<Sealed[]>`
      select id, team_id, secret_sealed as first, previous_sealed as second from payment_sources
      where sealed_under <> ${keyName} and secret_sealed is not null and deleted_at is null and id > ${after} order by id limit ${ROWS_AT_ONCE}`,
    store: (sql, { id, first }, now, keyName) => sql`
      update payment_sources set secret_sealed = ${now.first}, previous_sealed = ${now.second}, sealed_under = ${keyName}
      where id = ${id} and secret_sealed = ${first}`,
  },
];

/** Encrypts what is stored under another master key than the current one. What opens under no known master key is logged as an error. */
export async function resealOnce(sql: Query, masterKeys: MasterKeys, log: Logger): Promise<void> {
  for (const kind of kinds) {
    const { keyName, seal, unseal } = kind.sealer(masterKeys);
    let sealed = 0;
    for (let page = await kind.page(sql, keyName, ''); page.length > 0;) {
      for (const row of page) {
        const again = (text: Buffer) => seal(unseal(text, kind.place(row)), kind.place(row));
        let now;
        try {
          now = { first: again(row.first), second: row.second && again(row.second) };
        } catch {
          log.error(
            { id: row.id },
            `one of the ${kind.what} opens neither under MASTER_KEY nor under MASTER_KEY_PREVIOUS`,
          );
          continue;
        }
        sealed += (await kind.store(sql, row, now, keyName)).count;
      }
      page = await kind.page(sql, keyName, page.at(-1)!.id);
    }
    if (sealed > 0) log.info({ sealed }, `${kind.what} were encrypted under the current master key`);
  }
}
