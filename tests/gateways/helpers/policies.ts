import * as assert from 'uvu/assert';
import { bearer, newestEvent, type Quirks, type Setting, type Test } from './setting.ts';

// The policies of every example on the page.
const documents = { path: '/documents/1', micros: 1_000_000, usageName: 'requests' };
const reports = { path: '/reports/1', micros: 5_000_000, usageName: 'reports' };

/** The second location of an example has a policy of its own. */
export function testPolicies(test: Test, setting: Setting, quirks: Quirks): void {
  /** The status of a request with a good key. What reached the API is its own alone. */
  async function sendAnew(path: string): Promise<number> {
    const { clients, gateway, api } = setting;
    api.reached.length = 0;
    return (await gateway.send(path, { headers: bearer(clients.good.key) })).status;
  }

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
    const { clients, api } = setting;
    for (const path of ['/Reports/1', '/%72eports/1', '//reports/1', '/x/../reports/1', '/./reports/1', '/reports']) {
      const status = await sendAnew(path);
      // A gateway may also refuse such a path, or redirect it.
      if (status !== 200) assert.is(api.reached.length, 0, path);
      else assert.is((await newestEvent(setting, clients.good.key)).n, reports.usageName, path);
    }
  });

  test('no path passes at the cheap cost that some API reads as one of the dear location', async () => {
    const { clients, api } = setting;
    for (const path of [
      '//x/reports/1',
      '/\\x/reports/1',
      '/\\reports/1',
      '/%2Freports/1',
      '/%5creports/1',
      '/;x/reports/1',
    ]) {
      const status = await sendAnew(path);
      if (status !== 200) assert.is(api.reached.length, 0, path);
      else if ((await newestEvent(setting, clients.good.key)).n === documents.usageName)
        for (const read of readingsOf(api.reached[0]!.url)) assert.not.match(read, /^\/reports/i, path);
    }
  });

  test('a path with a malformed escape is refused, or gets the policy of the rest of it', async () => {
    const { clients, gateway, api } = setting;
    for (const path of [
      '/reports/1%',
      '/%72eports%',
      '//reports/1%',
      '/reports/%2',
      '/%52eports/%zz',
      '/REPORTS%u0031',
    ]) {
      const before = await clients.usedCredits();
      const { status } = await gateway.send(path, { headers: bearer(clients.good.key) });
      if (quirks.takesMalformed) {
        assert.equal([status, (await newestEvent(setting, clients.good.key)).n], [200, reports.usageName], path);
      } else {
        assert.equal([status, api.reached.length, await clients.usedCredits()], [400, 0, before], path);
      }
    }
    assert.is((await gateway.send('/documents/%25?q=1%', { headers: bearer(clients.good.key) })).status, 200);
  });

  test('no path of the dear location that resolves to the cheap one reaches the API as it is', async () => {
    const { clients, api } = setting;
    for (const path of ['/reports/../documents', '/reports/1/..%2f..%2fdocuments', '/reports/%2e%2e/documents']) {
      const status = await sendAnew(path);
      // A gateway may also pass on what it resolves to.
      if (status === 200 && (await newestEvent(setting, clients.good.key)).n === documents.usageName)
        assert.is(api.reached[0]!.url, '/documents', path);
      if (status !== 200) assert.is(api.reached.length, 0, path);
    }
  });
}

/** What APIs make of a path: as Node's URL reads it, and without parameters, merged, with every separator decoded. */
function readingsOf(url: string): string[] {
  const decoded = decodeURIComponent(url).replaceAll('\\', '/');
  return [new URL(url, 'http://api').pathname, decoded.replaceAll(/;[^/]*/g, '').replaceAll(/\/+/g, '/')];
}
