// Makes one attack until its parent says stop: node main.ts NAME TARGET, where TARGET is JSON.
import type { Target } from './attack.ts';
import { attacks, type AttackName } from './attacks.ts';
import { answers } from './flood.ts';

const [name = '', target = ''] = process.argv.slice(2);
const stopping = new AbortController();
process.on('message', () => {
  stopping.abort();
  process.send!(Object.fromEntries(answers));
});
process.on('disconnect', () => process.exit());
const attack = await attacks[name as AttackName].prepare(JSON.parse(target) as Target);
answers.clear();
process.send!('ready');
await attack(stopping.signal);
