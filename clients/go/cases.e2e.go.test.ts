import { join } from 'node:path';
import { runCases } from '../helpers/cases.ts';
import { raceFlag, runGo } from './helpers/go.ts';

const app = join(process.env.TEST_FOLDER ?? '', 'case-app');
await runGo(['build', ...(await raceFlag()), '-o', app, './helpers/caseapp']);

await runCases('what all clients promise, by the Go client', {
  'net/http': { command: ['env', 'GORACE=halt_on_error=1', app] },
});
