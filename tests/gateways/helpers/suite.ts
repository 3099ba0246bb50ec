import { suite } from 'uvu';
import type { BeginGateway } from './gateway.ts';
import { testHeaders } from './headers.ts';
import { testHolds } from './holds.ts';
import { testMistakes } from './mistakes.ts';
import { testOutages } from './outages.ts';
import { testPasses } from './passes.ts';
import { testPolicies } from './policies.ts';
import { closeSetting, openSetting, type Quirks, type Setting, type Test } from './setting.ts';
import { testIdentity, testSmuggling } from './smuggling.ts';

/** Tests a gateway, started with the example of its page, between end clients and an API; `more` adds tests of its own. */
export function testGateway(
  name: string,
  begin: BeginGateway,
  quirks: Quirks = {},
  more?: (test: Test, setting: Setting) => void,
): void {
  const test = suite(`keytally behind ${name}`);
  const setting = {} as Setting;
  test.before(() => openSetting(setting, name, begin));
  test.after(() => closeSetting(setting));
  test.before.each(() => {
    setting.api.reached.length = 0;
    Object.assign(setting.api.answering, { cost: undefined, never: false });
  });
  testPasses(test, setting, quirks);
  testPolicies(test, setting, quirks);
  if (quirks.settles) testHolds(test, setting);
  testIdentity(test, setting);
  testSmuggling(test, setting);
  testMistakes(test, setting);
  testHeaders(test, setting);
  more?.(test, setting);
  testOutages(test, setting);
  test.run();
}
