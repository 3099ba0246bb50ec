#!/usr/local/bin/node
// The front of one machine in the place of ClickHouse's server, with the passwords that docker-compose.yml gives it. It answers to this
// machine's names alone, so what comes by the container's name is passed on under one of those.
import { createServer, request } from 'node:http';

const { KEYTALLY_PASSWORD, KEYTALLY_API_PASSWORD, KEYTALLY_CONSUMER_PASSWORD } = process.env;
process.env.CLICKHOUSE_PASSWORDS = JSON.stringify({
  keytally: KEYTALLY_PASSWORD,
  keytally_api: KEYTALLY_API_PASSWORD,
  keytally_consumer: KEYTALLY_CONSUMER_PASSWORD,
});
const inner = { host: '127.0.0.1', port: 8124 };
process.argv.splice(2, Infinity, '--folder', '/var/lib/clickhouse', '--port', String(inner.port));
await import('/opt/clickhouse/apps/stack/servers/clickhouse/main.ts');

createServer({ maxHeaderSize: 1024 * 1024 }, (asked, answer) => {
  const headers = { ...asked.headers, host: inner.host };
  const passed = request({ ...inner, path: asked.url, method: asked.method, headers }, (given) => {
    answer.writeHead(given.statusCode, given.headers);
    given.pipe(answer);
  });
  passed.on('error', () => answer.destroy());
  answer.on('close', () => passed.destroy());
  asked.pipe(passed);
}).listen(8123);
