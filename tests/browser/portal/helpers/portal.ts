import type { Page } from 'playwright-core';
import { must } from '../../../helpers/customers.ts';
import type { World } from '../../../helpers/world.ts';

/** The heading of the portal. */
export const TITLE = 'Your API keys and usage';

/** Makes links, of the customer `northwind` unless another is named, and opens them as their customer does. */
export function makeLinks(own: { world: World }, workspaceId: string) {
  async function link(fields: object = {}): Promise<string> {
    const body = { workspaceId, customerId: 'northwind', ...fields };
    return (await must(201, own.world.call('post', '/api/v1/link-token', body))).body.linkToken.token;
  }
  async function go(page: Page, token: string): Promise<void> {
    await page.goto('about:blank');
    await page.goto(`${own.world.api.url}/portal#${token}`);
  }
  return {
    link,
    go,
    async open(page: Page, fields: object): Promise<void> {
      await go(page, await link(fields));
      await page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
    },
  };
}
