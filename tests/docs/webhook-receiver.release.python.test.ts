import { testReceiver } from './helpers/webhook-receiver.ts';

testReceiver({
  language: 'py',
  file: 'receiver.py',
  command: process.env.TEST_PYTHON ?? '',
  env: { PYTHONPATH: process.env.PYTHONPATH ?? '' },
});
