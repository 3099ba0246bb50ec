// Installs the client and its framework from PyPI, as the page does.
import { testGuide } from './helpers/guide.ts';

const settings = Object.entries(process.env).filter(([name]) => name.startsWith('PIP_') || /_proxy$/i.test(name));

testGuide({
  page: 'docs/protect-python.md',
  program: { language: 'python', file: 'server.py' },
  // Compiling what is installed would take a third of the time.
  env: { ...Object.fromEntries(settings), PIP_NO_COMPILE: '1' },
});
