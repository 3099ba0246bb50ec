import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeCustomers, must, newWorkspace, joinWorkspace } from '../../../tests/helpers/world.ts';

const { world, workspaceId, customers } = await joinWorkspace();
const { verify } = customers;
for (const representation of ['users', 'posts'])
  await must(201, world.call('post', `/api/v1/workspace/${workspaceId}/scope`, { name: 's', representation }));

test('the answer to a valid key holds everything about it', async () => {
  const externalMeterId = await customers.newMeter({ totalCredits: '10.5' });
  const scopes = [{ representation: 'users', create: false, read: true, update: false, del: false }];
  const known = {
    externalMeterId,
    metadata: { plan: 'pro', nested: { n: 1 } },
    expiresAt: Date.now() + 3_600_000,
    customerId: 'cus_1',
  };
  const { id, key } = await customers.newKey({ ...known, scopes, rateLimitPerSecond: 10 });
  const body = { key, requestedScopes: scopes, route: '/users', billing: { usage: '0.25', usageName: 'tokens' } };
  for (const [i, url] of [world.verify.url, world.api.url].entries()) {
    const { body: answer } = await must(200, customers.verify(body, { url }));
    const { billing, rateLimit, scopes: granted, ...rest } = answer;
    assert.equal(rest, { status: 'VALID', apiKeyId: id, ...known, requestedScopes: scopes });
    assert.match(granted[0].id, /^scope_/);
    assert.equal(granted, [{ ...scopes[0], id: granted[0].id }]);
    const { totalCredits, usedCredits, allowOverages } = billing;
    assert.equal([totalCredits, usedCredits, allowOverages], ['10.5', String(0.25 * (i + 1)), false]);
    assert.ok(rateLimit.remaining === 9 || rateLimit.remaining === 8);
    assert.type(rateLimit.resetAt, 'number');
  }
});

test('text that is no key, and an unknown key, are INVALID, and the answer says no more', async () => {
  assert.equal((await verify({ key: makeKeyText('key', 7) })).body, { status: 'INVALID', reason: 'NOT_FOUND' });
  for (const key of ['nonsense', ''])
    assert.equal((await verify({ key })).body, { status: 'INVALID', reason: 'MALFORMED' });
  // What is wrong for any key.
  await must(400, verify({ key: 'nonsense', billing: { usage: '9000000001' } }));
});

test('a scope grants its own representation alone, with its flags, and nothing that is named like its id', async () => {
  const path = `/api/v1/workspace/${workspaceId}/scope`;
  const { scope } = (await must(201, world.call('post', path, { name: 'a', representation: 'a' }))).body;
  await must(201, world.call('post', path, { name: 'b', representation: scope.id }));
  const { key } = await customers.newKey({ scopes: [{ representation: 'a', read: true }] });
  const ask = async (representation: string, flags: object = { read: true }) =>
    (await verify({ key, requestedScopes: [{ representation, ...flags }] })).body.status;
  assert.equal([await ask('a'), await ask(scope.id)], ['VALID', 'INVALID_SCOPES']);
  assert.is(await ask('a', { read: true, create: true }), 'INVALID_SCOPES', 'each flag must be granted');
  assert.equal([await ask('a', {}), await ask('b', {})], ['VALID', 'INVALID_SCOPES']);
});

test('the address comes from the body, or else from the connection, and never from a header of the client', async () => {
  const here = makeCustomers(world, await newWorkspace(world, { defaultAllowedIPs: ['2001:db8::/32'] }));
  const [inherits, open, local] = await Promise.all(
    [{}, { allowedIPs: [] }, { allowedIPs: ['127.0.0.0/8', '::1'] }].map((fields) => here.newKey(fields)),
  );
  const headers = { 'X-Forwarded-For': '2001:db8::1' };
  for (const [key, ip, expected] of [
    [inherits!, '2001:db8:1::1', undefined],
    [inherits!, '2001:db9::1', 'IP_NOT_ALLOWED'],
    [inherits!, undefined, 'IP_NOT_ALLOWED'],
    [open!, '203.0.113.9', undefined],
    [local!, undefined, undefined],
  ] as const)
    assert.is((await customers.verify({ key: key.key, ip }, { headers })).body.reason, expected, ip);
});

test('a metered key without its record passes at no cost, and the record may come later; a meter may have any name', async () => {
  for (const externalMeterId of ['-', '0', ' ', 'ü']) {
    const { key } = await customers.newKey({ externalMeterId });
    const spend = async () => (await verify({ key, billing: { usage: '1' } })).body;
    assert.is((await verify({ key })).body.status, 'VALID', externalMeterId);
    const refused = await spend();
    assert.equal([refused.status, refused.reason], ['USAGE_LIMITED', 'NO_BILLING_RECORD'], externalMeterId);
    await customers.newMeter({ externalMeterId, totalCredits: '1' });
    assert.is((await spend()).billing.usedCredits, '1', externalMeterId);
  }
});

test('requests whose clients left before verify could read them cost nothing', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const body = JSON.stringify({ key, billing: { usage: '7' } });
  const { hostname, port } = new URL(world.verify.url);
  const head = `POST ${VERIFY_PATH} HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer ${world.team.token}\\r\\nContent-Type: application/json`;
  const text = `${head}\\r\\nContent-Length: ${body.length}\\r\\n\\r\\n`;
  // This process, and verify in it, stands still meanwhile, until its kernel has seen the end of each connection (FIN_WAIT2).
  const script = `const hex = (port) => ':' + port.toString(16).toUpperCase().padStart(4, '0');
  for (let i = 0; i < 8; i++) {
    const socket = require('net').connect(${port}, '${hostname}');
    socket.write('${text}' + process.argv[1], () => {
      const ended = new RegExp(hex(socket.localPort) + ' \\\\w+' + hex(${port}) + ' 05 ');
      process.on('exit', () => { while (!ended.test(require('fs').readFileSync('/proc/net/tcp', 'latin1'))); });
      socket.destroy();
    });
  }`;
  const { status, stderr } = spawnSync(process.execPath, ['-e', script, body], { encoding: 'utf8' });
  assert.is(status, 0, stderr);
  // On a connection that is read later.
  await must(200, customers.verify({ key, billing: { usage: '1' } }));
  const within = (ms: string) =>
    customers.verify({ key, billing: { usage: '1' } }, { headers: { 'X-Keytally-Timeout-Ms': ms } });
  const { error } = (await must(400, within('0'))).body;
  assert.is(error.details[0].path, 'X-Keytally-Timeout-Ms');
  await must(200, within('60000'));
  assert.is((await customers.billing(meter)).usedCredits, '2');
});
