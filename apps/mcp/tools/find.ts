import { Type } from 'typebox';
import { keyShard, maskKeyText } from '../../../shared/values/key-text.ts';
import { ids, key, keyFrom, record, recordFrom } from '../schemas.ts';
import { tool, type Reader } from '../tool.ts';

const MOST = 20;
const MOST_WORKSPACES = 20;
// A page of a search reads 1,000 keys.
const MOST_PAGES = 5;

export default tool({
  name: 'find',
  title: 'Find keys, customers and billing records',
  description: `Finds API keys whose name, customer id or masked form (such as acme_17aT****JpQ1) holds a text, in any case, and billing records of exactly that meter or customer. At most ${MOST} of each. Without workspaceId it searches the first ${MOST_WORKSPACES} workspaces. Start here: explain_refusals, usage, balance and books take the ids that it gives.`,
  input: Type.Object({
    text: Type.String({ minLength: 1, maxLength: 128, description: 'what to look for' }),
    workspaceId: Type.Optional(ids.workspace),
  }),
  output: Type.Object({
    keys: Type.Array(key),
    records: Type.Array(record),
    searched: Type.Array(ids.workspace, { description: 'the workspaces that were searched' }),
    complete: Type.Boolean({ description: 'false: there may be more; give a longer text, or a workspaceId' }),
  }),
  masks: 'text',

  async run({ text, workspaceId }, reader) {
    const isSecret = keyShard(text) !== undefined;
    const wanted = isSecret ? maskKeyText(text) : text;
    const places = workspaceId === undefined ? await workspacesOf(reader) : { ids: [workspaceId], more: false };
    const found = [];
    for (const id of places.ids)
      found.push(await Promise.all([keysLike(reader, id, wanted), recordsOf(reader, id, wanted)]));
    const keys = found.flatMap(([one]) => one.items);
    const records = found.flatMap(([, one]) => one.items);
    const isAll = !places.more && found.flat().every(({ more }) => !more);
    const data = {
      keys: keys.slice(0, MOST),
      records: records.slice(0, MOST),
      searched: places.ids,
      complete: isAll && keys.length <= MOST && records.length <= MOST,
    };
    const counts = `${data.keys.length} keys and ${data.records.length} billing records in ${data.searched.length} workspaces${data.complete ? '' : '; there may be more'}.`;
    const warning =
      ' The text was a whole API key: only its masked form was looked for. Whoever has seen it can use it, so advise to rotate it.';
    return { text: isSecret ? counts + warning : counts, data };
  },
});

async function workspacesOf(reader: Reader) {
  const { workspaces, nextCursor } = await reader.workspaces.list({ limit: MOST_WORKSPACES });
  return { ids: workspaces.map(({ id }) => id), more: nextCursor !== undefined };
}

async function keysLike(reader: Reader, id: string, search: string) {
  const items: ReturnType<typeof keyFrom>[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES && items.length < MOST; pages++) {
    const page = await reader.apiKeys.list({ id, search, limit: MOST, cursor });
    items.push(...page.apiKeys.map((one) => keyFrom(id, one)));
    cursor = page.nextCursor;
    if (cursor === undefined) break;
  }
  return { items, more: cursor !== undefined };
}

async function recordsOf(reader: Reader, id: string, wanted: string) {
  const pages = await Promise.all(
    [{ externalMeterId: wanted }, { customerId: wanted }].map((filter) =>
      reader.billing.list({ id, ...filter, limit: MOST }),
    ),
  );
  const items = new Map(pages.flatMap(({ billings }) => billings.map((one) => [one.id, recordFrom(one)] as const)));
  return { items: [...items.values()], more: pages.some(({ nextCursor }) => nextCursor !== undefined) };
}
