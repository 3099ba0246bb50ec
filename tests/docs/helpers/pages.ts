import { globSync } from 'node:fs';
import { checkout } from '../../../apps/stack/process/home.ts';
import { readText } from '../../helpers/read-text.ts';

/** One page of documentation, by its path in the checkout. */
export type Page = { path: string; text: string };

/** A fenced block of a page; `expected` is the `text` block right after it, which says what it prints. */
export type Block = { language: string; text: string; expected: string | undefined };

/** All pages for people, the README first. */
export function readPages(): Page[] {
  const globs = ['*.md', 'docs/**/*.md', 'clients/*/README.md'];
  const paths = globs.flatMap((glob) => globSync(glob, { cwd: checkout }).toSorted());
  const sorted = paths.toSorted((a, b) => Number(b === 'README.md') - Number(a === 'README.md'));
  return sorted.map((path) => ({ path, text: readText(path) }));
}

/** The fenced blocks of a page, in order. */
export function blocksOf({ text }: Page): Block[] {
  const found = [...text.matchAll(/^```(\S*)\n([^]*?)^```$/gm)];
  return found.map(({ 1: language = '', 2: block = '', index, 0: whole }, i) => {
    const next = found[i + 1];
    const between = next && text.slice(index + whole.length, next.index);
    const expected = next?.[1] === 'text' && between?.trim() === '' ? next[2] : undefined;
    return { language, text: block, expected };
  });
}

/** A page without its fenced blocks. */
export function proseOf({ text }: Page): string {
  return text.replace(/^```[^]*?^```$/gm, '');
}

/** The anchors of a page's headings, as GitHub makes them. */
export function anchorsOf(page: Page): Set<string> {
  const headings = [...proseOf(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
  return new Set(headings);
}
