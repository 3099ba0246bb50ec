// What pages and dashboards say about other pages, files, metrics and log lines must be there.
import { existsSync, globSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readText } from '../helpers/read-text.ts';
import { verifyOperation } from '../../shared/verification/operation.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { anchorsOf, proseOf, readPages, type Page } from './helpers/pages.ts';

const pages = readPages();
const page = (path: string): Page => pages.find((one) => one.path === path)!;

test('every link of every page leads to a file, and every anchor to a heading', () => {
  const broken = pages.flatMap(({ path, text }) =>
    linksOf(text).flatMap((link) => {
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? path : normalize(join(dirname(path), file));
      if (!existsSync(join(checkout, target))) return [`${path}: ${link}`];
      if (anchor === undefined) return [];
      const there = page(target) ?? { path: target, text: readText(target) };
      return anchorsOf(there).has(anchor) ? [] : [`${path}: ${link}`];
    }),
  );
  assert.equal(broken, []);
});

test('every path that a page names exists', () => {
  const missing = pages.flatMap((one) =>
    [...proseOf(one).matchAll(/`([^`\n]+)`/g)]
      .map(([, code = '']) => code)
      .filter((code) => /^(apps|bench|clients|deploy|docs|shared|sql|tests)\/[\w./*-]+$/.test(code))
      .filter((path) => globSync(path, { cwd: checkout }).length === 0)
      .map((path) => `${one.path}: ${path}`),
  );
  assert.equal(missing, []);
});

test('every make target and npm script that a page names exists', () => {
  const targets = new Set([...readText('Makefile').matchAll(/^([a-z0-9-]+):/gm)].map(([, name]) => name!));
  const { scripts } = JSON.parse(readText('package.json')) as { scripts: Record<string, string> };
  const unknown = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/`[^`\n]+`|^```(?:sh|console)\n[^]*?^```$/gm)].flatMap(([code]) =>
      [
        ...named(code, /\bmake ([a-z0-9-]+)/g, (name) => targets.has(name)),
        ...named(code, /\bnpm run (?:-s )?([a-z-]+)/g, (name) => Object.hasOwn(scripts, name)),
      ].map((name) => `${path}: ${name}`),
    ),
  );
  assert.equal(unknown, []);
});

test('every metric that a page names is one that a program has', () => {
  const { registry } = makeMetrics('docs');
  const unknown = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/keytally_\w+_(?:total|seconds|bytes|entries|events|differences|undecided|older)\b/g)]
      .filter(([name]) => !registry.getSingleMetric(name))
      .map(([name]) => `${path}: ${name}`),
  );
  assert.equal(unknown, []);
});

test('every metric of ours stands on a dashboard', () => {
  const { registry } = makeMetrics('docs');
  const dashboards = sources(['deploy/grafana/dashboards/*.json']);
  const names = registry.getMetricsAsArray().map(({ name }) => name);
  const ours = names.filter((name) => name.startsWith('keytally_'));
  assert.ok(ours.length > 0);
  const hidden = ours.filter((name) => !new RegExp(`\\b${name}(_bucket|_sum|_count)?\\b`).test(dashboards));
  assert.equal(hidden, []);
});

test('every log line that the operations page names is one that a program writes', () => {
  const [, part = ''] = page('docs/operations.md').text.split('\n## Alerts');
  const lines = [...part.split('\n## ')[0]!.matchAll(/\((?:log: )?`([^`]+ [^`]+)`\)/g)].map(([, line]) => line!);
  assert.ok(lines.length >= 5);
  const source = sources(['apps/**/*.ts', 'shared/**/*.ts']);
  for (const line of lines) assert.ok(source.includes(line), line);
});

test('the page of verify says what a 503 of a verification promises as the contract does', () => {
  const promise = verifyOperation.description.split('. ').at(-1)!;
  assert.match(promise, /503.*never debited later/);
  assert.ok(page('docs/verify.md').text.includes(promise));
});

function linksOf(text: string): string[] {
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!).filter((link) => !/^[a-z]+:/.test(link));
}

function named(code: string, pattern: RegExp, exists: (name: string) => boolean): string[] {
  return [...code.matchAll(pattern)].filter(([, name]) => !exists(name!)).map(([whole]) => whole);
}

function sources(globs: string[]): string {
  const files = globs.flatMap((glob) => globSync(glob, { cwd: checkout }));
  return files.map(readText).join('\n');
}
