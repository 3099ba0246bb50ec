import type { Row } from './rows.ts';
import type { Result } from './send.ts';

/** What became of the keys of a file. */
export type Tally = ReturnType<typeof makeTally>;

const PLACES_SHOWN = 5;
const DELETED = 'it was imported before and is deleted: --restore brings it back';

/** Counts what became of keys; of each kind of what was left out it keeps the first places. Each kind comes from our own texts. */
export function makeTally(report: (line: object) => void) {
  const counts = { rows: 0, imported: 0, existing: 0, restored: 0, failed: 0 };
  // Of each code the first message: others may name other things.
  const messages = new Map<number, string>();
  const kinds = new Map<string, { count: number; places: string[] }>();

  function note(what: string, place: string): void {
    const kind = kinds.get(what) ?? { count: 0, places: [] };
    kinds.set(what, kind);
    kind.count += 1;
    if (kind.places.length < PLACES_SHOWN) kind.places.push(place);
  }

  function refuse({ place }: Row, why: string, told: object): void {
    counts.failed += 1;
    note(`refused, ${why}`, place);
    report({ place, ...told });
  }

  return {
    counts,
    add(row: Row, result: Result | undefined): void {
      for (const field of row.lost) note(`not carried over: ${field}`, row.place);
      if ('aside' in row) return;
      counts.rows += 1;
      if ('skipped' in row) {
        note(`skipped, because ${row.skipped}`, row.place);
        report({ place: row.place, skipped: row.skipped });
      } else if ('refused' in row) refuse(row, `because ${row.refused}`, { refused: row.refused });
      else if (result?.error) {
        const { code, message } = result.error;
        if (!messages.has(code)) messages.set(code, message);
        refuse(row, `error ${code}: ${messages.get(code)}`, { name: row.item.name, ...result.error });
      } else if (result?.apiKey?.deleted && result.result === 'existing')
        refuse(row, `because ${DELETED}`, { name: row.item.name, refused: DELETED });
      else counts[result?.result ?? 'imported'] += 1;
    },
    lines(dryRun: boolean): string[] {
      const { rows, imported, existing, restored, failed } = counts;
      return [
        `${rows} keys read: ${imported} ${dryRun ? 'could be imported' : 'imported'}, ${existing} imported before, ${restored > 0 ? `${restored} brought back, ` : ''}${failed} refused`,
        ...[...kinds].map(
          ([what, { count, places }]) =>
            `${what}: ${count} (${places.join(', ')}${count > places.length ? ', …' : ''})`,
        ),
      ];
    },
  };
}
