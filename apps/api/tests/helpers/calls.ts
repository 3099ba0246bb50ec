import * as assert from 'uvu/assert';
import { type Answer, type World, must } from '../../../../tests/helpers/world.ts';

// What most test files of the api need beside their calls.
export { column, columns } from '../../../../tests/helpers/columns.ts';
export { makeCustomers, must, newWorkspace, type Customers } from '../../../../tests/helpers/customers.ts';
export { joinWorkspace, joinWorld, makeWorld, once, type Answer } from '../../../../tests/helpers/world.ts';

type Headers = Record<string, string>;

/**
 * Calls of the api by one token. All but `ask` must succeed, and give the one thing that is in the answer, such as a workspace or a list;
 * `headers` are those of a call that names none.
 */
export function callsOf(world: Pick<World, 'call' | 'team'>, token = world.team.token, headers?: Headers) {
  const ask = (method: string, path: string, body?: object, own = headers) =>
    world.call(method, path, body, { token, ...(own && { headers: own }) });
  const thing = async (status: number, answer: Promise<Answer>): Promise<any> =>
    Object.values((await must(status, answer)).body)[0];
  return {
    ask,
    read: (path: string) => thing(200, ask('get', path)),
    make: (path: string, body?: object, own?: Headers) => thing(201, ask('post', path, body, own)),
    /** A POST that makes nothing, as a rotation. */
    post: (path: string, body?: object, own?: Headers) => thing(200, ask('post', path, body, own)),
    change: (path: string, body: object) => thing(200, ask('patch', path, body)),
    remove: (path: string) => thing(200, ask('delete', path)),
  };
}

/** Fails unless a request is refused with an error code; gives the error. */
export async function refused(code: number, answer: Answer | Promise<Answer>, what = '') {
  const { body, text } = await answer;
  assert.is(body?.error?.code, code, `${what} ${text}`);
  return body.error;
}

/** The statuses of answers, or the error codes of those that have one, from the smallest on. */
export function codesOf(answers: Answer[]): number[] {
  return answers.map(({ status, body }) => (body?.error?.code ?? status) as number).toSorted((a, b) => a - b);
}
