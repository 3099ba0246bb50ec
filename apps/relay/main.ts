import '../../shared/runtime/require-node.ts';
import { begin, run } from '../../shared/runtime/run.ts';
import { startRelaying } from './start.ts';

await run('relay', (config, log) => begin('relay', config, log, startRelaying));
