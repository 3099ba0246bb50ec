import { Type } from 'typebox';
import { ApiError } from '../../shared/errors.ts';

/** Query parameters of a list, besides its own filters. */
export const pageParameters = {
  limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'most items in one answer' }),
  cursor: Type.Optional(Type.String({ maxLength: 256, description: '`nextCursor` of the answer before' })),
};

export const nextCursor = Type.Optional(
  Type.String({ description: 'where the next page starts; absent on the last one' }),
);

/** The page that a query asks for: items after this id, one more than wanted, to know whether there is a next page. */
export function pageOf({ limit, cursor }: { limit: number; cursor?: string }): { after: string; take: number } {
  return { after: cursor === undefined ? '' : decode(cursor), take: limit + 1 };
}

/** Cuts the extra item off and makes the cursor to it. */
export function cut<Row extends { id: string }>(
  rows: Row[],
  take: number,
): { page: Row[]; next: { nextCursor?: string } } {
  if (rows.length < take) return { page: rows, next: {} };
  const page = rows.slice(0, take - 1);
  return { page, next: { nextCursor: Buffer.from(page.at(-1)!.id).toString('base64url') } };
}

// A cursor is the last id of a page in base64url: opaque, so that it may become something else one day.
function decode(cursor: string): string {
  const id = Buffer.from(cursor, 'base64url').toString();
  if (!/^[a-z]+_[0-9a-z]{26}$/.test(id)) throw new ApiError('invalid_cursor');
  return id;
}
