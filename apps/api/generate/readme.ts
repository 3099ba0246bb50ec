import { readFileSync, writeFileSync } from 'node:fs';
import { variables } from '../../../shared/runtime/variables.ts';
import { errors } from '../../../shared/contract/errors.ts';
import { routes } from '../routes/index.ts';

const file = new URL('../../../README.md', import.meta.url);

/** The README with its reference tables made anew from the code that they describe. */
export function renderReadme(text = readFileSync(file, 'utf8')): string {
  return Object.entries(tables).reduce((readme, [name, table]) => {
    const place = new RegExp(`(<!-- ${name} -->\n)[^]*?(<!-- /${name} -->)`);
    if (!place.test(readme)) throw new Error(`the README has no place for its table of ${name}`);
    return readme.replace(place, (_, begin: string, end: string) => `${begin}\n${table()}\n\n${end}`);
  }, text);
}

const tables = {
  operations: () =>
    markdown(
      ['Operation', 'Permission', 'What it does'],
      routes.map(({ method, path, permission, summary }) => [
        `\`${method.toUpperCase()} ${path}\``,
        permission ? `\`${permission}\`` : 'none',
        summary,
      ]),
    ),
  errors: () =>
    markdown(
      ['Code', 'Message'],
      Object.values(errors).map(([code, message]) => [String(code), message]),
    ),
  configuration: () =>
    markdown(
      ['Variable', 'Preset', 'What it is'],
      Object.entries(variables).map(([name, { about, default: value }]) => [
        `\`${name}\``,
        value === undefined ? 'must be set' : value === '' ? 'empty' : `\`${value}\``,
        about,
      ]),
    ),
};

// Columns are padded as prettier does it, so that formatting the README changes nothing.
function markdown(headings: string[], rows: string[][]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = headings.map((heading, i) => Math.max(heading.length, ...escaped.map((row) => row[i]!.length)));
  const line = (cells: string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`;
  return [line(headings), line(widths.map((width) => '-'.repeat(width))), ...escaped.map(line)].join('\n');
}

if (import.meta.main) writeFileSync(file, renderReadme());
