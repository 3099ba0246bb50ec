import { join } from 'node:path';
import { runCases } from '../../helpers/cases.ts';

const app = join(import.meta.dirname, '../helpers/case_app.py');
const command = (mode: string) => ({ command: [process.env.TEST_PYTHON ?? 'python3', app, mode] });

await runCases('what all clients promise, by the Python client', {
  'ASGI middleware': command('middleware'),
  'FastAPI dependency': { ...command('dependency'), isOfFirstClient: true },
  'WSGI middleware': { ...command('wsgi'), gathersNone: true },
});
