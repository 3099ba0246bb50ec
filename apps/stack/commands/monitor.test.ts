import { mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openHome } from '../process/home.ts';
import { settings } from './monitor.ts';

test('make monitor asks each program of the stack on its port, also one that is just being started again', () => {
  const folder = process.env.TEST_FOLDER!;
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/ports.json`, '{"postgres":1,"relay":2,"consumer":3,"webhooks":4}');
  for (const [BUS, relay] of [
    ['redis', []],
    ['kafka', [['relay', '127.0.0.1:2']]],
  ] as const) {
    const asked = settings(openHome({ KEYTALLY_HOME: folder, KEYTALLY_PORT: '80', BUS })).scrape_configs;
    assert.equal(
      asked.map(({ job_name, static_configs }) => [job_name, static_configs[0]!.targets[0]]),
      [
        ['verify', '127.0.0.1:81'],
        ['api', '127.0.0.1:80'],
        ...relay,
        ['consumer', '127.0.0.1:3'],
        ['webhooks', '127.0.0.1:4'],
      ],
    );
  }
});
