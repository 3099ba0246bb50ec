import * as fc from 'fast-check';
import { makeCustomers, must } from '../helpers/customers.ts';
import { eventually, type ProcessWorld } from '../helpers/world.ts';
import type { Compared, Run } from './compare.ts';
import { stackSequences, type StackCommand } from './stack-commands.ts';
import { recordOfStack } from './stack-record.ts';

const AT_ONCE = 8;

/**
 * Sends random commands to records of a whole stack (api, verify and consumer on real servers, by the real clock), several records
 * at once, and proves each of them by its books, its grants and what its client was answered.
 */
export async function compareStack(
  world: ProcessWorld,
  { sequences, most = 50, seed, onSequence }: Run,
): Promise<Compared> {
  const { body } = await must(201, world.call('post', '/api/v1/workspace', { name: 'random' }));
  const workspaceId: string = body.workspace.id;
  const customers = makeCustomers(world, workspaceId);
  await untilHoldsWork(world, customers);
  const chosen = seed ?? Math.floor(Math.random() * 1e9);
  const queue = fc.sample(stackSequences(most), { numRuns: sequences, seed: chosen });
  const done = { sequences: 0, steps: 0 };
  const ends: string[] = [];
  for (const name of ['api', 'verify', 'consumer'] as const)
    world[name]!.process.once('exit', (code, signal) => ends.push(`${name} ended with ${code ?? signal}`));
  let failure: string | undefined;

  async function work(): Promise<void> {
    for (let commands = queue.pop(); commands && failure === undefined; commands = queue.pop()) {
      const at = { step: 0 };
      try {
        const record = await recordOfStack(world, customers, workspaceId);
        for (const command of commands) {
          at.step += 1;
          await record.run(command);
        }
        await record.prove();
      } catch (error) {
        failure ??= failureText(chosen, error, ends, commands.slice(0, at.step));
      }
      done.sequences += 1;
      done.steps += commands.length;
      onSequence?.(commands.length);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return { ...done, ...(failure !== undefined && { failure }) };
}

/** A process learns soon after its start what ids of holds are signed with. */
async function untilHoldsWork(world: ProcessWorld, customers: ReturnType<typeof makeCustomers>): Promise<void> {
  const { key } = await customers.meteredKey('1');
  const hold = { key, billing: { usage: '0', hold: { expiresIn: 1 } } };
  for (const { url } of [world.verify!, world.api])
    await eventually('holds work', async () => (await customers.verify(hold, { url })).status === 200);
}

function failureText(seed: number, error: unknown, ends: string[], commands: StackCommand[]): string {
  // The cause of a call that failed says which.
  const said =
    error instanceof Error
      ? `${error.message} ${error.cause instanceof Error ? error.cause.message : ''}`
      : String(error);
  return [
    `seed ${seed}: ${said}`,
    ...ends,
    'after:',
    ...commands.map((command) => `  ${JSON.stringify(command)}`),
  ].join('\n');
}
