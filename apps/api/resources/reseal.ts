import type { Logger } from '../../../shared/runtime/log.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { MasterKeys, Sealer } from '../../../shared/values/seal.ts';
import { webhookSealer, webhookSecretPlace } from '../../../shared/values/webhook-secret.ts';
import { sealedFor, signingKeySealer } from './jwts/signing-keys.ts';

/** A row with one or two sealed texts. */
type Sealed = { id: string; teamId: string; first: Buffer; second: Buffer | null };

type Kind = {
  what: string;
  table: string;
  /** Its columns: the id, and the sealed texts; without a second one nothing. */
  columns: [id: string, first: string, second?: string];
  sealer(masterKeys: MasterKeys): Sealer;
  /** What the texts of a row are bound to. */
  place(row: Sealed): string;
  /** Its rows stay when they are deleted, without what was sealed. */
  stays?: true;
};

const ROWS_AT_ONCE = 500;

const ofSecrets = { sealer: webhookSealer, place: ({ id }: Sealed) => webhookSecretPlace(id), stays: true } as const;
const two: Kind['columns'] = ['id', 'secret_sealed', 'previous_sealed'];
const kinds: Kind[] = [
  {
    what: 'signing keys',
    table: 'signing_keys',
    columns: ['kid', 'private_encrypted'],
    sealer: signingKeySealer,
    place: ({ teamId, id }) => sealedFor(teamId, id),
  },
  { what: 'secrets of webhooks', table: 'webhooks', columns: two, ...ofSecrets },
  {
    what: 'secrets of meter destinations',
    table: 'meter_destinations',
    columns: ['id', 'secret_sealed'],
    ...ofSecrets,
  },
  { what: 'secrets of payment sources', table: 'payment_sources', columns: two, ...ofSecrets },
];

/** Encrypts what is stored under another master key than the current one. What opens under no known master key is logged as an error. */
export async function resealOnce(sql: Query, masterKeys: MasterKeys, log: Logger): Promise<void> {
  for (const kind of kinds) {
    const { keyName, seal, unseal } = kind.sealer(masterKeys);
    const [id, first, second] = kind.columns;
    const pageAfter = (after: string) => sql<Sealed[]>`
      select ${sql(id)} as id, team_id, ${sql(first)} as first, ${second ? sql(second) : sql`null`} as second from ${sql(kind.table)}
      where sealed_under <> ${keyName} and ${sql(first)} is not null and ${sql(id)} > ${after}
        ${kind.stays ? sql`and deleted_at is null` : sql``}
      order by ${sql(id)} limit ${ROWS_AT_ONCE}`;
    let sealed = 0;
    for (let page = await pageAfter(''); page.length > 0;) {
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
        // Only if nobody changed the row meanwhile.
        const stored = await sql`
          update ${sql(kind.table)}
          set ${sql({ [first]: now.first, ...(second && { [second]: now.second }), sealed_under: keyName })}
          where ${sql(id)} = ${row.id} and ${sql(first)} = ${row.first}`;
        sealed += stored.count;
      }
      page = await pageAfter(page.at(-1)!.id);
    }
    if (sealed > 0) log.info({ sealed }, `${kind.what} were encrypted under the current master key`);
  }
}
