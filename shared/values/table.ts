/** A table for the terminal. A heading that begins with `>` aligns its column to the right. */
export function table(headings: string[], rows: string[][]): string {
  const names = headings.map((heading) => heading.replace(/^>/, ''));
  const widths = names.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: string[]) =>
    cells
      .map((cell, i) => (headings[i]!.startsWith('>') ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [line(names), widths.map((width) => '─'.repeat(width)).join('──'), ...rows.map(line)].join('\n');
}
