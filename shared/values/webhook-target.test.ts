import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isPublicAddress, readAllowedTarget, readWebhookTarget } from './webhook-target.ts';

const refused: Record<string, string> = {
  'must begin with https://': 'http://hooks.example.com/ ftp://hooks.example.com/ file:///etc/passwd',
  'must be a URL, such as https://example.com/hooks': 'hooks.example.com',
  'must have no user name and no password': 'https://user@hooks.example.com/ https://:secret@hooks.example.com/',
  'must have no fragment (#…)': 'https://hooks.example.com/#x',
  'must have the name of a host, not an address': `https://127.0.0.1/ https://93.184.216.34/ https://2130706433/
    https://0x7f000001/ https://0x7f.1/ https://0177.0.0.1/ https://017700000001/ https://127.1/ https://127.0.0.1./
    https://%31%32%37.0.0.1/ https://①②⑦.⓪.⓪.①/ https://169.254.169.254/latest/meta-data/ https://[::1]/
    https://[::ffff:127.0.0.1]/ https://[::ffff:7f00:1]/ https://[64:ff9b::a00:1]/ https://[fd00:ec2::254]/
    https://127.0.0.1../`,
  'must have a name that can be reached from outside': `https://localhost/ https://LOCALHOST./ https://localhost../
    https://a.localhost/ https://metadata.google.internal/ https://metadata.google.internal./ https://printer.local/
    https://router.lan/ https://box.home.arpa/ https://postgres/ https://clickhouse:8123/`,
};

test('a target is refused that is no https URL, or names an address or a host inside', () => {
  for (const [why, urls] of Object.entries(refused))
    for (const url of urls.split(/\s+/)) assert.is(readWebhookTarget(url, []), why, url);
});

test('a public name is taken, with its port and path', () => {
  const target = readWebhookTarget('https://Hooks.Example.com:8443/in?x=1', []);
  assert.type(target, 'object');
  const { url, host, port, isAllowed } = target as Exclude<typeof target, string>;
  const expected = ['https://hooks.example.com:8443/in?x=1', 'hooks.example.com', 8443, false];
  assert.equal([url.href, host, port, isAllowed], expected);
});

test('a name that only begins like one from inside is taken, and what the operator allows: exact targets, and plain HTTP to a host on one port or on all', () => {
  const names = 'localhost.example.com internal.example.com mylocal.dev api.mylocal arpanet.example.org';
  for (const [allowed, taken, others] of [
    [[], names.replaceAll(/\S+/g, 'https://$&/'), ''],
    [
      ['127.0.0.1:9443', 'receiver:443', '[::1]:9443'],
      'https://127.0.0.1:9443/ https://0x7f.1:9443/ https://receiver/ https://[::1]:9443/',
      'https://127.0.0.1:8123/ https://127.0.0.2:9443/ http://127.0.0.1:9443/ https://receiver:9443/',
    ],
    [
      ['http://127.0.0.1:3000', 'http://host.docker.internal:*'],
      'http://127.0.0.1:3000/ http://host.docker.internal/ http://host.docker.internal:4000/in',
      'http://127.0.0.1/ http://127.0.0.1:3001/ https://127.0.0.1:3000/ ftp://127.0.0.1:3000/',
    ],
  ] as const) {
    for (const url of taken.split(' ')) assert.type(readWebhookTarget(url, [...allowed]), 'object', url);
    for (const url of others.split(' ')) assert.type(readWebhookTarget(url, [...allowed]), 'string', url);
  }
});

test('an allowed target is of one team, or of all, and is a host and a port, and nothing else', () => {
  assert.equal(readAllowedTarget('team_01a=Receiver:443'), { team: 'team_01a', target: 'receiver:443' });
  assert.equal(readAllowedTarget('*=[0:0::1]:9443'), { team: '*', target: '[::1]:9443' });
  assert.equal(readAllowedTarget('*=http://Localhost:*'), { team: '*', target: 'http://localhost:*' });
  assert.equal(readAllowedTarget('*=http://localhost:80'), { team: '*', target: 'http://localhost:80' });
  for (const text of ['receiver:443', 'acme=receiver:443', '=receiver:443', 'team_=a:1'])
    assert.is(readAllowedTarget(text), undefined, text);
  for (const text of [
    '',
    ...'receiver :443 receiver: receiver:99999 a/b:1 u@a:1 *:443 a:* http://*:1 http://a'.split(' '),
  ])
    assert.is(readAllowedTarget(`*=${text}`), undefined, text);
});

const inside = `
  0.0.0.0 0.1.2.3 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 169.254.169.254
  172.16.0.1 172.31.255.255 192.168.0.1 192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1
  203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
  :: ::1 ::127.0.0.1 ::ffff:10.0.0.1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b::8.8.8.8 64:ff9b:1::1
  100::1 2001::1 2001:db8::1 2002:7f00:1:: 2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254
  fe80::1 fe80::1%eth0 febf::1 fec0::1 ff02::1 4000::1`;

test('an address of a private, local, reserved or translated network, or none, is not one that everybody can reach', () => {
  for (const address of [...inside.trim().split(/\s+/), 'not an address', ''])
    assert.not(isPublicAddress(address), address);
  const addresses = '8.8.8.8 93.184.216.34 172.32.0.1 100.128.0.1 2606:4700::1111 2a00:1450:4001::1';
  for (const address of addresses.split(' ')) assert.ok(isPublicAddress(address), address);
});
