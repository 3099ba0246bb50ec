import * as assert from 'uvu/assert';
import { bearer, newestEvent, type Setting, type Test } from './setting.ts';

// The policies of every example on the page.
const documents = { path: '/documents/1', micros: 1_000_000, usageName: 'requests' };
const reports = { path: '/reports/1', micros: 5_000_000, usageName: 'reports' };

/** The second location of an example has a policy of its own. */
export function testPolicies(test: Test, setting: Setting): void {
  test('each location is billed with its own cost and usage name', async () => {
    const { clients, gateway } = setting;
    const before = await clients.usedCredits();
    for (const { path, micros, usageName } of [documents, reports, documents, reports, reports]) {
      const { status } = await gateway.send(path, { headers: bearer(clients.good.key) });
      const { c, n, r } = await newestEvent(setting, clients.good.key);
      assert.equal([status, c, n, r], [200, micros, usageName, `GET ${path}`]);
    }
    assert.is(await clients.usedCredits(), before + 2 * 1 + 3 * 5);
  });

  test('each location needs its own scope', async () => {
    const { clients, gateway, api } = setting;
    const keyFor = async (representation: string) =>
      (await clients.customers.newKey({ scopes: [{ representation, read: true }] })).key;
    const reader = await keyFor('documents');
    const analyst = await keyFor('reports');
    for (const [key, path, expected] of [
      [reader, documents.path, 200],
      [reader, reports.path, 403],
      [analyst, documents.path, 403],
      [analyst, reports.path, 200],
    ] as const) {
      assert.is((await gateway.send(path, { headers: bearer(key) })).status, expected, path);
    }
    assert.is(api.reached.length, 2);
  });

  test('no other spelling of a path reaches the dear location at the cheap cost', async () => {
    const { clients, gateway, api } = setting;
    for (const path of ['/Reports/1', '/%72eports/1', '//reports/1', '/x/../reports/1', '/./reports/1', '/reports']) {
      api.reached.length = 0;
      const { status } = await gateway.send(path, { headers: bearer(clients.good.key) });
      // A gateway may also refuse such a path, or redirect it.
      if (status !== 200) assert.is(api.reached.length, 0, path);
      else assert.is((await newestEvent(setting, clients.good.key)).n, reports.usageName, path);
    }
  });

  test('no path of the dear location that resolves to the cheap one reaches the API as it is', async () => {
    const { clients, gateway, api } = setting;
    for (const path of ['/reports/../documents', '/reports/1/..%2f..%2fdocuments', '/reports/%2e%2e/documents']) {
      api.reached.length = 0;
      const { status } = await gateway.send(path, { headers: bearer(clients.good.key) });
      // A gateway may also pass on what it resolves to.
      if (status === 200 && (await newestEvent(setting, clients.good.key)).n === documents.usageName)
        assert.is(api.reached[0]!.url, '/documents', path);
      if (status !== 200) assert.is(api.reached.length, 0, path);
    }
  });
}
