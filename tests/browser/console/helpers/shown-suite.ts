import type { Browser } from 'playwright-core';
import { suite } from 'uvu';
import { makeWorld, type World } from '../../../helpers/world.ts';
import { launch } from './browser.ts';
import { makeShown, type Shown } from './data.ts';

/** A suite for pages that show something of everything, and what its tests have of it: a world, a browser, and what is shown. */
export function shownSuite(name: string) {
  const own = {} as { world: World; browser: Browser; shown: Shown };
  const test = suite(name);
  test.before(async () => {
    [own.world, own.browser] = await Promise.all([makeWorld(['verify', 'consumer']), launch()]);
    own.shown = await makeShown(own.world);
  });
  test.after(async () => {
    await own.browser?.close();
    await own.world?.stop();
  });
  return { test, own };
}
