import { join } from 'node:path';
import { runCases } from '../helpers/cases.ts';

// The guards of the other frameworks have tests of their own.
const app = join(import.meta.dirname, 'helpers/case-app.ts');

await runCases('what all clients promise, by the Node client', { Express: { command: [process.execPath, app] } });
