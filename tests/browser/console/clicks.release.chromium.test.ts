import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';
import { inTable, visit } from './helpers/browser.ts';
import { shownSuite } from './helpers/suite.ts';

// Ten tasks as a person does them, from the overview on: none takes more than four clicks.

const MOST_CLICKS = 4;
const { test, own, shown } = await shownSuite('what people do in the console');

/** What a person does on a page: clicks that are counted, and what they type. */
function personAt(page: Page) {
  let clicks = 0;
  return {
    page,
    click: async (name: string) => {
      clicks += 1;
      const named = { name, exact: true } as const;
      await page.getByRole('button', named).or(page.getByRole('link', named)).last().click();
    },
    fill: (label: string, text: string) => page.getByLabel(label, { exact: true }).fill(text),
    choose: (label: string, text: string) => page.getByLabel(label, { exact: true }).selectOption({ label: text }),
    find: async (text: string) => {
      await page.keyboard.press('Control+k');
      await page.getByLabel('Look for').fill(text);
      await page.getByRole('dialog').getByRole('listitem').first().getByText('customer').waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    },
    sees: (text: string) => page.getByText(text).first().waitFor(),
    clicks: () => clicks,
  };
}
type Person = ReturnType<typeof personAt>;

const tasks: Record<string, (person: Person) => Promise<unknown>> = {
  async 'a key with a limit and credits is made and copied'({ click, fill, sees }) {
    await click('Keys');
    await click('New key');
    await fill('Name', 'Tenth backend');
    await fill('Customer', 'tenth');
    await fill('Credits', '1000');
    await fill('At most so many requests', '500');
    await click('Create key');
    await click('Copy');
    await sees('Copied');
  },
  async 'why a customer was refused is read'({ find, click, sees }) {
    await find('fjord');
    await click('Calls');
    await sees('What would change it');
  },
  async '100 credits are added until Friday'({ click, fill, choose, sees }) {
    await click('Customers');
    await click('northwind-api');
    await click('Add credits');
    await fill('Credits', '100');
    await choose('They end', 'on Friday');
    await click('Add credits');
    await sees('left of credits');
  },
  async 'a leaked key is rotated, and its old secret ended'({ click, choose, sees }) {
    await click('Keys');
    await click('Harbour office');
    await click('Rotate');
    await choose('Keep the old secret working for', 'not at all: it leaked, or may have');
    await click('Rotate key');
    await sees('Store it now');
  },
  'the top customers of today are read against yesterday': ({ page }) =>
    inTable(page, 'Most used today', 'northwind-api'),
  async "a customer's month and statement are read"({ click, sees }) {
    await click('Customers');
    await click('northwind-api');
    await click('Statement');
    await sees('Remaining at the end');
  },
  async 'a webhook that fails is found, and told again'({ page, click }) {
    await click('Finance chat');
    await page.getByRole('button', { name: 'webhook.test' }).first().waitFor();
    await click('webhook.test');
    await click('Deliver again');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  },
  async 'a token for support is made that only reads'({ page, click, fill, sees }) {
    await click('Tokens');
    await click('New token');
    await fill('Name', 'Support');
    for (const one of ['workspace:read', 'key:read', 'usage:read']) await page.getByLabel(one).check();
    await click('Create token');
    await sees('Store it now');
  },
  async 'the portal is seen as a customer sees it'({ page, find, click }) {
    await find('northwind');
    await click('Portal link');
    await click('Make the link');
    const opened = page.context().waitForEvent('page');
    await click('Open it');
    await inTable(await opened, 'Keys', 'Northwind backend');
  },
  async 'keys that were not used for 90 days are disabled'({ click, choose, sees }) {
    await own.world.sql`update api_keys set created_at = now() - interval '91 days' where name = 'Tenth backend'`;
    await click('Keys');
    await choose('Show', 'those unused for 90 days');
    await click('Find');
    await click('Disable these 1 keys');
    await click('Disable them');
    await sees('No key fits');
  },
};

for (const [name, does] of Object.entries(tasks))
  test(`${name}, in at most ${MOST_CLICKS} clicks`, async () => {
    const { page, complaints } = await visit(own.browser, { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.request.post(`${own.world.api.url}/console/session`, {
      headers: { Authorization: `Bearer ${shown.token}`, 'X-Keytally-Session': '1', Origin: own.world.api.url },
    });
    await page.goto(`${own.world.api.url}/console/w/${shown.workspaceId}/overview`);
    await page.getByText('Customers with the least left').waitFor();
    const person = personAt(page);
    await does(person);
    assert.ok(person.clicks() <= MOST_CLICKS, `${person.clicks()} clicks`);
    assert.equal(complaints, []);
  });
