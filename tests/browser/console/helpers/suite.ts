import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { atEnd } from '../../../helpers/at-end.ts';
import { type Customers, makeCustomers, makeWorld, newWorkspace, type World } from '../../../helpers/world.ts';
import { launch, signIn, visit, type Visit } from './browser.ts';
import { makeShown } from './data.ts';

type Own = {
  world: World;
  browser: Browser;
  workspaceId: string;
  customers: Customers;
  /** Signs in, with the team's token if no other is given, and opens a page of the workspace. */
  open(path: string, token?: string): Promise<Visit>;
};

/** A suite of a world with a browser and an empty workspace. */
export async function consoleSuite(name: string) {
  const test = suite(name);
  const [world, browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
  const workspaceId = await newWorkspace(world, { name: 'Weather' });
  atEnd(() => browser.close());
  test.after.each(async () => void (await Promise.all(browser.contexts().map((context) => context.close()))));
  const own: Own = {
    world,
    browser,
    workspaceId,
    customers: makeCustomers(world, workspaceId),
    async open(path, token = world.team.token) {
      const visited = await visit(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
      await signIn(visited.page, world.api.url, token);
      await visited.page.goto(`${world.api.url}/console/w/${workspaceId}/${path}`);
      await visited.page.getByRole('heading', { level: 1 }).waitFor();
      return visited;
    },
  };
  return { test, own };
}

/** The same, for pages that show something of everything. */
export async function shownSuite(name: string) {
  const { test, own } = await consoleSuite(name);
  return { test, own, shown: await makeShown(own.world) };
}
