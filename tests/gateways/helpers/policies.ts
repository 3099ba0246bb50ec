import * as assert from 'uvu/assert';
import { bearer, newestEvent, type Cases, type Setting } from './setting.ts';

// The policies of every example in deploy/gateways.
const documents = { path: '/documents/1', micros: 1_000_000, usageName: 'requests' };
const reports = { path: '/reports/1', micros: 5_000_000, usageName: 'reports' };

/** The second location of an example has a policy of its own. */
export const policies: Cases = {
  async 'each location has its own cost, usage name and scope'(setting) {
    const { clients, gateway, api } = setting;
    const before = await clients.usedCredits();
    for (const { path, micros, usageName } of [documents, reports]) {
      const { status } = await gateway.send(path, { headers: bearer(clients.good.key) });
      const { c, n, r } = await newestEvent(setting, clients.good.key);
      assert.equal([status, c, n, r], [200, micros, usageName, `GET ${path}`]);
    }
    assert.is(await clients.usedCredits(), before + 1 + 5);
    api.reached.length = 0;
    for (const [representation, own, other] of [
      ['documents', documents, reports],
      ['reports', reports, documents],
    ] as const) {
      const { key } = await clients.customers.newKey({ scopes: [{ representation, read: true }] });
      assert.is((await gateway.send(own.path, { headers: bearer(key) })).status, 200);
      assert.is((await gateway.send(other.path, { headers: bearer(key) })).status, 403);
    }
    assert.is(api.reached.length, 2);
  },

  async 'no spelling of a path passes at the cheap cost that some API reads as one of the dear location'(setting) {
    const { clients, api } = setting;
    for (const path of [
      '/Reports/1',
      '/%72eports/1',
      '//reports/1',
      '/x/../reports/1',
      '/./reports/1',
      '/reports',
      '//x/reports/1',
      '/\\x/reports/1',
      '/\\reports/1',
      '/%2Freports/1',
      '/%5creports/1',
      '/;x/reports/1',
      '/reports/../documents',
      '/reports/1/..%2f..%2fdocuments',
      '/reports/%2e%2e/documents',
    ]) {
      // A gateway may also refuse such a path, redirect it, or pass on what it resolves to.
      if ((await sendAnew(setting, path)) !== 200) assert.is(api.reached.length, 0, path);
      else if ((await newestEvent(setting, clients.good.key)).n === documents.usageName)
        for (const read of readingsOf(api.reached[0]!.url)) assert.not.match(read, /^\/reports/i, path);
    }
  },

  async 'a path with a malformed escape is refused'(setting) {
    const { clients, api } = setting;
    const before = await clients.usedCredits();
    for (const path of ['/reports/1%', '/%72eports%', '//reports/1%', '/%52eports/%zz', '/REPORTS%u0031'])
      assert.equal([await sendAnew(setting, path), api.reached.length], [400, 0], path);
    assert.is(await clients.usedCredits(), before);
    assert.is(await sendAnew(setting, '/documents/%25?q=1%'), 200);
  },
};

/** The status of a request with a good key. What reached the API is its own alone. */
async function sendAnew({ clients, gateway, api }: Setting, path: string): Promise<number> {
  api.reached.length = 0;
  return (await gateway.send(path, { headers: bearer(clients.good.key) })).status;
}

/** What APIs make of a path: as Node's URL reads it, and without parameters, merged, with every separator decoded. */
function readingsOf(url: string): string[] {
  const decoded = decodeURIComponent(url).replaceAll('\\', '/');
  return [new URL(url, 'http://api').pathname, decoded.replaceAll(/;[^/]*/g, '').replaceAll(/\/+/g, '/'), url];
}
