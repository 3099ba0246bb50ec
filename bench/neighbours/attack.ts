// Makes one attack until its parent says stop: node attack.ts NAME TARGET, where TARGET is JSON.
import { attacks, type Target } from './attacks.ts';
import { send } from './send.ts';

const [name = '', target = ''] = process.argv.slice(2);
const { atOnce, prepare } = attacks[name]!;
const answers: Record<number, number> = {};
let isStopped = false;
let sent = 0;
process.on('message', () => {
  isStopped = true;
  process.send!(answers);
});
process.on('disconnect', () => process.exit());
const callOf = await prepare(JSON.parse(target) as Target);
process.send!('ready');
for (let i = 0; i < atOnce; i++) void flood();

/** Sends a call as soon as another is answered. */
async function flood(): Promise<void> {
  while (!isStopped) {
    const { status } = await send(callOf(sent++));
    answers[status] = (answers[status] ?? 0) + 1;
    // A refused connection would be tried again without end.
    if (status === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
