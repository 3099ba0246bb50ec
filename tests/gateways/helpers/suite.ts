import { suite } from 'uvu';
import type { BeginGateway } from './gateway.ts';
import { testMistakes } from './mistakes.ts';
import { testOutages } from './outages.ts';
import { testPasses } from './passes.ts';
import { testPolicies } from './policies.ts';
import { closeSetting, openSetting, type Quirks, type Setting } from './setting.ts';
import { testIdentity, testSmuggling } from './smuggling.ts';

/** Tests a gateway, started with the example of its page, between end clients and an API. */
export function testGateway(name: string, begin: BeginGateway, quirks: Quirks = {}): void {
  const test = suite(`keytally behind ${name}`);
  const setting = {} as Setting;
  test.before(() => openSetting(setting, name, begin));
  test.after(() => closeSetting(setting));
  test.before.each(() => void (setting.api.reached.length = 0));
  testPasses(test, setting, quirks);
  testPolicies(test, setting);
  testIdentity(test, setting);
  testSmuggling(test, setting);
  testMistakes(test, setting);
  testOutages(test, setting);
  test.run();
}
