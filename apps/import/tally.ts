import type { Row } from './rows.ts';
import type { Result } from './send.ts';

/** What became of the keys of a file. */
export type Tally = ReturnType<typeof makeTally>;

const PLACES_SHOWN = 5;
const DELETED = 'it was imported before and is deleted: --restore brings it back';

type Kind = { count: number; places: string[] };

/** Counts what became of keys; of each kind of failure it keeps the first places. Each kind comes from our own texts. */
export function makeTally(report: (line: object) => void) {
  let [rows, imported, existing, restored, failed] = [0, 0, 0, 0, 0];
  // Of each code the first message: others may name other things.
  const messages = new Map<number, string>();
  const failures = new Map<string, Kind>();
  const skipped = new Map<string, Kind>();
  const lost = new Map<string, Kind>();

  function note(kinds: Map<string, Kind>, what: string, place: string): void {
    const kind = kinds.get(what) ?? { count: 0, places: [] };
    kinds.set(what, kind);
    kind.count += 1;
    if (kind.places.length < PLACES_SHOWN) kind.places.push(place);
  }

  function refuse({ place }: Row, why: string, told: object): void {
    failed += 1;
    note(failures, why, place);
    report({ place, ...told });
  }

  return {
    add(row: Row, result: Result | undefined): void {
      for (const field of row.lost) note(lost, field, row.place);
      if ('aside' in row) return;
      rows += 1;
      if ('skipped' in row) {
        note(skipped, row.skipped, row.place);
        report({ place: row.place, skipped: row.skipped });
      } else if ('refused' in row) refuse(row, `because ${row.refused}`, { refused: row.refused });
      else if (result?.error) {
        const { code, message } = result.error;
        if (!messages.has(code)) messages.set(code, message);
        refuse(row, `error ${code}: ${messages.get(code)}`, { name: row.item.name, ...result.error });
      } else if (result?.apiKey?.deleted && result.result === 'existing')
        refuse(row, `because ${DELETED}`, { name: row.item.name, refused: DELETED });
      else if (result?.result === 'existing') existing += 1;
      else if (result?.result === 'restored') restored += 1;
      else imported += 1;
    },
    counts: () => ({ rows, imported, existing, failed }),
    lines(dryRun: boolean): string[] {
      const told = (title: string, kinds: Map<string, Kind>) =>
        [...kinds].map(
          ([what, { count, places }]) =>
            `${title}${what}: ${count} (${places.join(', ')}${count > places.length ? ', …' : ''})`,
        );
      return [
        `${rows} keys read: ${imported} ${dryRun ? 'could be imported' : 'imported'}, ${existing} imported before, ${restored > 0 ? `${restored} brought back, ` : ''}${failed} refused`,
        ...told('refused, ', failures),
        ...told('skipped, because ', skipped),
        ...told('not carried over: ', lost),
      ];
    },
  };
}
