import type { Browser } from 'playwright-core';
import { must } from '../../../helpers/customers.ts';
import type { World } from '../../../helpers/world.ts';
import { visit, type Visit } from '../../console/helpers/browser.ts';

/** The heading of the portal. */
export const TITLE = 'Your API keys and usage';

/** Makes a link token, of the customer `northwind` unless another is named. */
export async function newLink(
  world: World,
  fields: { workspaceId: string } & Record<string, unknown>,
): Promise<string> {
  const body = { customerId: 'northwind', ...fields };
  return (await must(201, world.call('post', '/api/v1/link-token', body))).body.linkToken.token;
}

/** Opens a link as its customer does. */
export async function opened(browser: Browser, world: World, link: string): Promise<Visit> {
  const visited = await visit(browser);
  await visited.page.goto(`${world.api.url}/portal#${link}`);
  await visited.page.getByRole('heading', { level: 1, name: TITLE }).waitFor();
  return visited;
}
