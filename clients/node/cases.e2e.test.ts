import { join } from 'node:path';
import { runCases } from '../helpers/cases.ts';
import { frameworks } from './helpers/frameworks.ts';

const app = join(import.meta.dirname, 'helpers/case-app.ts');
const apps = Object.keys(frameworks).map((name, i) => [
  name,
  { command: [process.execPath, app, name], isOfFirstClient: i > 0 },
]);

await runCases('what all clients promise, by the Node client', Object.fromEntries(apps));
