/** A field of each row. */
export function column(rows: readonly any[], name: string): any[] {
  return rows.map((row) => row[name]);
}

/** Some fields of each row. */
export function columns(rows: readonly any[], ...names: string[]): any[][] {
  return rows.map((row) => names.map((name) => row[name]));
}
