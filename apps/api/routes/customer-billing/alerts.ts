import { alertTold, type Alert } from '../../../../shared/contract/alerts.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireBilling } from '../../resources/billings/billings.ts';

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/alerts',
  tag: 'Customer billing',
  operationId: 'listAlerts',
  summary: 'List the alerts that a billing record has crossed, newest first',
  description: 'Each line is one crossing, within two seconds of it and for 90 days.',
  permission: 'billing:read',
  params: object({ bid: id('billing record') }),
  query: object(pageParameters),
  response: object({ alerts: pageItems(alertTold), nextCursor }),
  errors: ['billing_not_found'],

  async handle({ sql, params, query, caller }) {
    const { id: billingId } = await requireBilling(sql, caller, params.bid);
    const read = (after: string, take: number) => sql<ToldRow[]>`
      select id, name, "when", at, used_micros, event_id from alerts_told
      where billing_id = ${billingId} ${after === '' ? sql`` : sql`and id < ${after}`}
      order by id desc limit ${take}`;
    const present = ({ usedMicros, ...told }: ToldRow) => ({ ...told, usedCredits: formatCredits(usedMicros) });
    const { items, next } = await readPage(query, `alerts of ${billingId}`, read, present);
    return { alerts: items, ...next };
  },
});

type ToldRow = Pick<Alert, 'name' | 'when'> & { id: string; at: number; usedMicros: number; eventId: string };
