import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { errors } from '../../../shared/contract/errors.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { variables } from '../../../shared/runtime/variables.ts';
import { portalRoutes, routes, signedRoutes } from '../routes/index.ts';

const tables = { operations, errors: errorTable, configuration };

/** The pages of docs/reference, each with one table that is made from the code. */
export const referencePages = Object.keys(tables) as (keyof typeof tables)[];

/** Where a reference page lies. */
export function referenceFile(page: (typeof referencePages)[number]): URL {
  return new URL(`../../../docs/reference/${page}.md`, import.meta.url);
}

/** A reference page with its table made again from the code; the text around the table stays. */
export async function renderReference(
  page: (typeof referencePages)[number],
  text = readFileSync(referenceFile(page), 'utf8'),
): Promise<string> {
  const place = new RegExp(`(<!-- ${page} -->\n)[^]*?(<!-- /${page} -->)`);
  if (!place.test(text)) throw new Error(`docs/reference/${page}.md has no place for its table`);
  const whole = text.replace(place, (_, begin: string, end: string) => `${begin}\n${tables[page]()}\n\n${end}`);
  const file = fileURLToPath(referenceFile(page));
  return await format(whole, { ...(await resolveConfig(file)), filepath: file });
}

function operations(): string {
  const byTag = Object.entries(Object.groupBy([...routes, ...portalRoutes, ...signedRoutes], (route) => route.tag));
  return byTag
    .map(([tag, some]) => {
      const rows = some.map(({ method, path, permission, alsoPermission, portal, summary }) => [
        `\`${method.toUpperCase()} ${path}\``,
        [permission, alsoPermission].flatMap((one) => (one ? `\`${one}\`` : [])).join(', ') ||
          (portal ? 'a session of the portal' : 'none'),
        summary,
      ]);
      return `### ${tag}\n\n${markdown(['Operation', 'Permission', 'What it does'], rows)}`;
    })
    .join('\n\n');
}

function errorTable(): string {
  return markdown(
    ['Code', 'Message'],
    Object.values(errors).map(([code, message]) => [String(code), message]),
  );
}

function configuration(): string {
  return markdown(
    ['Variable', 'Default', 'Read by', 'What it is'],
    Object.entries(variables).map(([name, { about, default: value }]) => [
      `\`${name}\``,
      value === undefined ? 'must be set' : value === '' ? 'empty' : `\`${value}\``,
      readersOf(name),
      about,
    ]),
  );
}

function readersOf(variable: string): string {
  const readers = Object.entries(programs).filter(([, read]) => variable in read);
  if (readers.length === 0) throw new Error(`no program reads ${variable}`);
  if (readers.length === Object.keys(programs).length) return 'all';
  const names = readers.map(([name]) => name).join(', ');
  return names.replace('api, verify, relay, consumer, webhooks', 'programs');
}

function markdown(headings: string[], rows: string[][]): string {
  const escaped = rows.map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const line = (cells: string[]) => `| ${cells.join(' | ')} |`;
  return [line(headings), line(headings.map(() => '---')), ...escaped.map(line)].join('\n');
}

if (import.meta.main)
  for (const page of referencePages) writeFileSync(referenceFile(page), await renderReference(page));
