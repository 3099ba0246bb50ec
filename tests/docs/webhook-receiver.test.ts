import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../apps/stack/process/home.ts';
import { testReceiver } from './helpers/webhook-receiver.ts';

testReceiver({
  language: 'js',
  file: 'receiver.mjs',
  command: process.execPath,
  prepare(folder) {
    mkdirSync(join(folder, 'node_modules'), { recursive: true });
    const name = 'node_modules/standardwebhooks';
    symlinkSync(join(checkout, name), join(folder, name));
  },
});
