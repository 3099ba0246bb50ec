import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { makeCustomers, must } from '../../../helpers/customers.ts';
import { eventually, type World } from '../../../helpers/world.ts';

// What somebody writes into a name who wants it to run in the browser of whoever reads it: each way out of a text once. What would
// become an element has the attribute data-x, by which a test finds it.
export const payloads: readonly string[] = [
  '<script data-x>alert(1)</script>',
  '</title></style></script><ScRiPt data-x src=//evil.example/>',
  '"><img data-x src=x onerror="alert(1)">',
  "'><img/data-x/src=x/onerror=alert`1`>",
  '-->]]><img data-x src=x onerror=alert(1)>',
  '<svg data-x/onload=alert(1)><a xlink:href="javascript:1">x</a>',
  '<math data-x href="javascript:alert(1)">x</math>',
  '<iframe data-x srcdoc="<script>alert(1)</script>"></iframe>',
  '<object data-x data="javascript:alert(1)"></object>',
  '<input data-x autofocus onfocus=alert(1)>',
  '<a data-x href="java&#115;cript:alert(1)">x</a>',
  '<base data-x href="//evil.example/">',
  '<meta data-x http-equiv=refresh content="0;url=//evil.example">',
  '<style data-x>*{background:url(//evil.example/)}</style>',
  '<template data-x><img src=x onerror=alert(1)></template>',
  '&lt;img data-x src=x onerror=alert(1)&gt;',
  'javascript:alert(1)//data-x',
  '{{constructor.constructor("alert(1)")()}}<b data-x>${alert(1)}',
];

const SCREEN_PX = 400;

/** Fails where a text has become an element. */
export async function requireHarmless(page: Page, where: string): Promise<void> {
  const found = await page.evaluate<string[]>(
    `[...document.querySelectorAll('[data-x], script:not([src]), iframe, object, embed, base, a[href^="javascript"], [srcdoc]')].map(({ outerHTML }) => outerHTML)`,
  );
  assert.equal(found, [], where);
}

/** Fails where a text has become an element in any row of a page's tables, or where a payload stands in none. */
export async function requireAllHarmless(page: Page, where: string): Promise<void> {
  let text = '';
  for (let isWhole = false; !isWhole;) {
    await requireHarmless(page, where);
    text += await page.evaluate<string>('document.body.textContent');
    isWhole = await page.evaluate<boolean>(`(async () => {
      const tables = [...document.querySelectorAll('.table')];
      const before = tables.map((one) => one.scrollTop);
      for (const one of tables) one.scrollTop += ${SCREEN_PX};
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return tables.every((one, i) => one.scrollTop === before[i]);
    })()`);
  }
  const missing = payloads.filter((one) => !text.includes(one));
  assert.equal(missing, [], `${where} has not`);
}

/** A workspace with a payload in every field that takes text, and every payload in some field of every page; all of one customer. */
export async function makeHostile(world: World) {
  const at = (i: number) => payloads[i % payloads.length]!;
  const api = async (path: string, body: object, i = 0, method = 'post') => {
    const key = `hostile-${path}-${i}`.slice(-120);
    return (
      await must(
        method === 'post' ? 201 : 200,
        world.call(method, `/api/v1/${path}`, body, {
          headers: { 'Idempotency-Key': key, 'User-Agent': encodeURI(at(i)) },
        }),
      )
    ).body;
  };
  const workspaceId = (await api('workspace', { name: payloads[0] })).workspace.id as string;
  const limits = [0, 1].map((i) => ({ name: at(i), unit: 'credits', limit: '1000', per: 'day', usageName: at(i + 4) }));
  await api(`workspace/${workspaceId}`, { defaultLimits: limits }, 0, 'patch');
  const { newKey, newMeter, billing, verify } = makeCustomers(world, workspaceId);
  const own = await newKey({
    name: payloads[1],
    customerId: payloads[3],
    externalMeterId: payloads[2],
    metadata: { [payloads[3]!]: payloads },
  });
  let scopeId = '';
  for (const [i, name] of payloads.entries()) {
    const scope = { name, description: at(i + 1), representation: `s${i}` };
    scopeId = (await api(`workspace/${workspaceId}/scope`, scope, i)).scope.id;
    await newKey({ name, customerId: payloads[3] });
    await newMeter({ externalMeterId: name, totalCredits: '100' });
    await api('workspace', { name }, i + 1);
    await api('access-token', { name, permissions: ['key:read'], workspaceIds: [workspaceId] }, i);
  }
  const billingId = (await billing(payloads[2]!)).id;
  const record = `customer-billing/${billingId}`;
  let grantId = '';
  for (const [i, name] of payloads.entries()) {
    grantId = (await api(`${record}/grant`, { credits: '1', name }, i)).grant.id;
    await api(`${record}/adjustment`, { amount: '0.1', usageName: name, reason: at(i + 1) }, i);
    await must(200, verify({ key: own.key, route: name, billing: { usage: '0.1', usageName: name } }));
  }
  await api(`${record}/grant-schedule`, { credits: '1', name: at(7), every: 'day', timezone: 'UTC' });
  const alerts = [0, 1].map((i) => ({ name: at(i), when: { usedPercent: i + 1 } }));
  await api(record, { limits, alerts }, 0, 'patch');
  const hold = { usage: '1', usageName: at(9), hold: { expiresIn: 3_600 } };
  await must(200, verify({ key: own.key, billing: hold }));
  await eventually('the books have them', async () => {
    const { data } = (await world.call('get', `/api/v1/usage/${billingId}`)).body as { data: { events: number }[] };
    return data.reduce((sum, { events }) => sum + events, 0) >= payloads.length;
  });
  const url = `https://hooks.example.com/${encodeURIComponent(payloads[3]!)}`;
  const target = { workspaceId, url, events: ['key.created'], description: payloads[0] };
  const webhookId = (await api('webhook', target)).webhook.id as string;
  return { workspaceId, billingId, webhookId, keyId: own.id, ids: [own.id, scopeId, grantId] };
}
