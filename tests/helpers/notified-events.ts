import { Ajv2020 } from 'ajv/dist/2020.js';
import type { ValidateFunction } from 'ajv';
import { formats } from '../../shared/contract/validate.ts';
import { describeWebhooks } from '../../shared/contract/webhook-events.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { note } from './contract.ts';

const ajv = new Ajv2020({ strict: false, formats });
const validators = new Map<string, ValidateFunction>(
  Object.entries(describeWebhooks()).map(([type, { post }]) => [
    type,
    ajv.compile(post.requestBody.content['application/json'].schema),
  ]),
);

/**
 * Throws unless each event that webhooks of a team, or of all teams, were told is as the OpenAPI document says. Writes down its type: a
 * run of all tests must see each.
 */
export async function checkNotifiedEvents(sql: Sql, teamId?: string): Promise<void> {
  const rows = await sql<{ type: string; data: object }[]>`
    select type, (array_agg(data))[1] as data from webhook_events where ${teamId ?? null}::text is null or team_id = ${teamId ?? null}
    group by type, data::text limit 5000`;
  for (const { type, data } of rows) {
    const validate = validators.get(type);
    const event = { type, timestamp: '2026-11-20T09:30:00.000Z', sequence: 1, data };
    if (!validate?.(event)) {
      const problem = validate ? ajv.errorsText(validate.errors) : 'there is no such type';
      throw new Error(`webhooks were told ${JSON.stringify(event)}\nand that is not as documented: ${problem}`);
    }
    note(type);
  }
}
