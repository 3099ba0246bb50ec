/** The flags of a scope entry. */
export type Flags = { create?: boolean; read?: boolean; update?: boolean; del?: boolean };

/** The flags create, read, update and delete as bits 1, 2, 4 and 8, as they are stored and passed to verify.lua. */
export function flagBits(flags: Flags): number {
  return (flags.create ? 1 : 0) | (flags.read ? 2 : 0) | (flags.update ? 4 : 0) | (flags.del ? 8 : 0);
}

/** A key's scope entry from its stored form. */
export function scopeEntryOf(representation: string, bits: number, scopeId: string) {
  return {
    representation,
    create: (bits & 1) > 0,
    read: (bits & 2) > 0,
    update: (bits & 4) > 0,
    del: (bits & 8) > 0,
    id: scopeId,
  };
}
