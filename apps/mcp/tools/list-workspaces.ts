import { Type } from 'typebox';
import { cursor, nextCursor, object } from '../schemas.ts';
import { more, tool } from '../tool.ts';

const MOST = 100;

export default tool({
  name: 'list_workspaces',
  title: 'List workspaces',
  description:
    'Lists the workspaces that the access token may read, oldest first, with the time zone of their days and months.',
  input: Type.Object({ cursor }),
  output: Type.Object({ workspaces: Type.Array(object(['workspaceId', 'timezone'], ['name'])), nextCursor }),

  async run(input, reader) {
    const { workspaces, nextCursor } = await reader.workspaces.list({ ...input, limit: MOST });
    const named = workspaces.map((one) => ({ ...one, workspaceId: one.id }));
    const text = `${workspaces.length} workspaces.${more(nextCursor)}`;
    return { text, data: { workspaces: named, nextCursor } };
  },
});
