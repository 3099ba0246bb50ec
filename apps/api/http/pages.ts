import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { ApiError } from '../../../shared/contract/errors.ts';

const CURSOR = 'd3NfMDFrYWZjNnYzbmYwcXRtaGQ3ZDVyeXgyczkuM2Y5dEtxX2ExYkM0';

/** The query parameters of every paged list; a list adds its own filters. */
export const pageParameters = {
  limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'maximum number of items in one answer' }),
  cursor: Type.Optional(
    Type.String({ maxLength: 256, description: '`nextCursor` of the previous answer', examples: [CURSOR] }),
  ),
};

export const nextCursor = Type.Optional(
  Type.String({ description: 'where the next page starts; absent on the last one', examples: [CURSOR] }),
);

/**
 * The page of a list that a query asks for. Read `take` items after the id `after`, one more than the page holds: `cut`
 * then knows whether a next page exists and makes its cursor. `list` names the list and its owner's id.
 */
export function pageOf({ limit, cursor }: { limit: number; cursor?: string }, list: string) {
  return {
    after: cursor === undefined ? '' : decode(cursor, list),
    take: limit + 1,
    cut<Row extends { id: string }>(rows: Row[]): { page: Row[]; next: { nextCursor?: string } } {
      if (rows.length <= limit) return { page: rows, next: {} };
      const page = rows.slice(0, limit);
      return { page, next: { nextCursor: encode(page.at(-1)!.id, list) } };
    },
  };
}

// A cursor is the last id of a page and a mark of its list. Without the mark, another list's cursor would silently give a
// page from the middle, or an empty one. It is opaque, so that its content may change one day.
function encode(id: string, list: string): string {
  const mark = createHash('sha256').update(`${list} ${id}`).digest('base64url').slice(0, 12);
  return Buffer.from(`${id}.${mark}`).toString('base64url');
}

function decode(cursor: string, list: string): string {
  const [id = ''] = Buffer.from(cursor, 'base64url').toString().split('.');
  if (encode(id, list) !== cursor) throw new ApiError('invalid_cursor');
  return id;
}
