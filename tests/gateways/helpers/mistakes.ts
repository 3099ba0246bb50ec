import * as assert from 'uvu/assert';
import { bearer, type Setting, type Test } from './setting.ts';

/** A gateway whose own access token is wrong blames nobody else. */
export function testMistakes(test: Test, setting: Setting): void {
  test('with a wrong access token nobody passes, and an end client reads of an error, not of a token or a wrong key', async () => {
    const wrong = await setting.startWith('kt_nobody');
    try {
      const { status, headers, text } = await wrong.send('/documents', { headers: bearer(setting.clients.good.key) });
      assert.ok(status === 500 || status === 503, `answered ${status}`);
      assert.not.match(`${JSON.stringify(headers)} ${text}`, /token|policy|invalid|www-authenticate/i);
      assert.is(setting.api.reached.length, 0);
    } finally {
      await wrong.stop();
    }
  });
}
