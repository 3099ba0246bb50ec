import { setTimeout as sleep } from 'node:timers/promises';
import { untold } from '../checks/told.ts';
import { casesOf } from '../checks/case.ts';
import type { Happened, History } from '../history.ts';
import type { Stage } from '../stage.ts';
import { call } from './client.ts';

const TOLD_WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 500;
const EVENTS = ['key.created', 'key.deleted', 'hold.expired'];

type Message = { type: string; data: { apiKeyId: string; holdEventId?: string } };

/** Makes a webhook for a workspace, on a stage that has a receiver. `noteTold` waits until it was told all, and records that. */
export async function listen(stage: Stage, history: History, workspaceId: string) {
  const { receiver } = stage;
  if (!receiver) return undefined;
  const path = `/in/${workspaceId}`;
  const body = { url: `https://${receiver.target}${path}`, events: EVENTS, workspaceId };
  const post = (token: string) => call('post', `${stage.url('api-1')}/api/v1/webhook`, { token, body });
  let made = await post(stage.token);
  // A token that a version without webhooks made may make none.
  if (made.http === 403) made = await post(await stage.moves.makeToken());
  if (made.http !== 201) throw new Error(`no webhook could be made: ${made.http ?? made.error}`);
  const since = history.now();

  const events = (): Happened[] =>
    receiver.got
      .filter((got) => got.path === path)
      .map((got) => {
        const { type, data } = JSON.parse(got.body) as Message;
        return { type, subject: data.holdEventId ?? data.apiKeyId };
      });
  return {
    async noteTold(phase: number): Promise<void> {
      const [one] = casesOf(history.lines.filter((line) => line.type !== 'run' && line.phase === phase));
      const until = performance.now() + TOLD_WITHIN_MS;
      while (untold(one!, { since, events: events() }).length > 0 && performance.now() < until)
        await sleep(LOOK_EVERY_MS);
      history.add({ type: 'told', phase, since, events: events() });
    },
  };
}
