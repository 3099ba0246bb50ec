import { suite } from 'uvu';
import type { BeginGateway } from './gateway.ts';
import { holds } from './holds.ts';
import { outages } from './outages.ts';
import { passes } from './passes.ts';
import { policies } from './policies.ts';
import { openSetting, type Cases, type Quirks, type Setting } from './setting.ts';
import { smuggling } from './smuggling.ts';

/** Tests a gateway, started with the example of its page, between end clients and an API, with all cases. */
export async function testGateway(name: string, begin: BeginGateway, quirks: Quirks): Promise<void> {
  await run(name, begin, quirks, { ...passes, ...policies, ...holds, ...smuggling, ...outages });
}

/** Tries another gateway: good keys, refused ones, what it settles, and keytally down; `more` adds tests of its own. */
export async function tryGateway(name: string, begin: BeginGateway, quirks: Quirks, more: Cases = {}): Promise<void> {
  const [good, refused] = Object.entries(passes);
  const [captured] = Object.entries(holds);
  const [down] = Object.entries(outages);
  const tried = [good!, refused!, ...(quirks.settles ? [captured!] : []), down!];
  await run(name, begin, quirks, { ...Object.fromEntries(tried), ...more });
}

async function run(name: string, begin: BeginGateway, quirks: Quirks, cases: Cases): Promise<void> {
  const test = suite(`keytally behind ${name}`);
  const setting: Setting = await openSetting(name, begin, quirks);
  test.before.each(() => {
    setting.api.reached.length = 0;
    Object.assign(setting.api.answering, { cost: undefined, never: false });
  });
  for (const [title, check] of Object.entries(cases)) test(title, () => check(setting));
}
