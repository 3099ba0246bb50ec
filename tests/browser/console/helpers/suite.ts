import type { Browser, BrowserContextOptions } from 'playwright-core';
import { suite } from 'uvu';
import { makeCustomers, must, type Customers } from '../../../helpers/customers.ts';
import { makeWorld, type World } from '../../../helpers/world.ts';
import { launch, signedIn, type Visit } from './browser.ts';
import { makeShown, type Shown } from './data.ts';

type Own = {
  world: World;
  browser: Browser;
  workspaceId: string;
  customers: Customers;
  /** Signs in, with the team's token if no other is given, and opens a page of the workspace. */
  open(path: string, token?: string, options?: BrowserContextOptions): Promise<Visit>;
};

/** A suite of a world with a browser and an empty workspace. */
export function consoleSuite(name: string, programs: ('verify' | 'consumer')[] = ['verify', 'consumer']) {
  const own = {} as Own;
  const test = suite(name);
  test.before(async () => {
    [own.world, own.browser] = await Promise.all([makeWorld(programs), launch()]);
    const made = await must(201, own.world.call('post', '/api/v1/workspace', { name: 'Weather' }));
    own.workspaceId = made.body.workspace.id;
    own.customers = makeCustomers(own.world, own.workspaceId);
  });
  test.after(async () => {
    await own.browser?.close();
    await own.world?.stop();
  });
  own.open = async (path, token, options) => {
    const visited = await signedIn(own.browser, own.world, options, token);
    await visited.page.goto(`${own.world.api.url}/console/w/${own.workspaceId}/${path}`);
    await visited.page.getByRole('heading', { level: 1 }).waitFor();
    return visited;
  };
  return { test, own };
}

/** The same, for pages that show something of everything. */
export function shownSuite(name: string) {
  const { test, own } = consoleSuite(name);
  const shown = {} as Shown;
  test.before(async () => void Object.assign(shown, await makeShown(own.world)));
  return { test, own, shown };
}
