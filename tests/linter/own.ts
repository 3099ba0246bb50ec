import { basename } from 'node:path';

// Rules of our own for oxlint (oxlint.config.ts).

type Context = { filename: string; report(problem: { node: unknown; message: string }): void };
type Text = { value: unknown };
type Name = { type: string; name?: string };
type Import = { source: Text; importKind: 'type' | 'value'; specifiers: { imported?: { name: string } }[] };
type Member = { object: Name; property: Name; computed: boolean };

const QUERY = /\b(?:from|into|join|table)\s+(?:usage_events|usage_days|booked_days)\b/i;
// What looks at the time, or decides by chance, and what waits.
const members = ['Date.now', 'performance.now', 'Math.random', 'AbortSignal.timeout'];
const calls = ['setTimeout', 'setInterval'];

// Words that had several meanings: docs/concepts.md#words-of-the-inside has those that are used.
const gone = ['tell', 'tells', 'teller', 'telling', 'told', 'places'];
type Exported = { declaration?: (Named & { declarations?: Named[] }) | null };
type Named = { id?: { name?: string } | null };

function hasGoneWord(name = ''): boolean {
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').toLowerCase();
  return words.split(/[^a-z]+/).some((word) => gone.includes(word));
}

function rule(message: string, visit: (report: (node: unknown) => void, file: string) => object) {
  return { create: (context: Context) => visit((node) => context.report({ node, message }), context.filename) };
}

export default {
  meta: { name: 'own' },
  rules: {
    'no-queries': rule(
      'only shared/books, and the jobs that own the tables, query usage_events, usage_days and booked_days: readUsage answers for a workspace that was allowed',
      (report) => ({
        Literal: (node: Text) => typeof node.value === 'string' && QUERY.test(node.value) && report(node),
        TemplateElement: (node: { value: { raw: string } }) => QUERY.test(node.value.raw) && report(node),
      }),
    ),
    'no-allowing': rule(
      'only the check of what an access token may use, and jobs for every workspace, say that a workspace was allowed: take an AllowedWorkspace',
      (report) => ({
        ImportDeclaration(node: Import) {
          const allows = node.specifiers.some(({ imported }) => imported?.name === 'allowWorkspace');
          if (allows && String(node.source.value).endsWith('/allowed-workspace.ts')) report(node);
        },
      }),
    ),
    // docs/decisions/mended-postgres-driver.md
    'mended-driver': rule(
      "the driver, as it is published, can wait for ever for a connection that has ended: import shared/stores/postgres-driver.ts, and only types of 'postgres'",
      (report) => ({
        ImportDeclaration: (node: Import) =>
          node.source.value === 'postgres' && node.importKind !== 'type' && report(node),
      }),
    ),
    'gone-words': rule(
      'the name has a word of several meanings: take notify, log, send, callback, or slot',
      (report, file) => ({
        Program: (node: unknown) => hasGoneWord(basename(file)) && report(node),
        ExportNamedDeclaration: ({ declaration: one }: Exported) =>
          [...(one?.declarations ?? []), one].some((named) => hasGoneWord(named?.id?.name)) && report(one),
      }),
    ),
    // So that a test can give its own.
    'given-time': rule(
      'time and chance are arguments: take a Clock (shared/runtime/clock.ts), or `random`, from the caller',
      (report) => ({
        MemberExpression: (node: Member) =>
          !node.computed && members.includes(`${node.object.name}.${node.property.name}`) && report(node),
        CallExpression: (node: { callee: Name }) =>
          node.callee.type === 'Identifier' && calls.includes(node.callee.name!) && report(node),
        NewExpression: (node: { callee: Name; arguments: unknown[] }) =>
          node.callee.name === 'Date' && node.arguments.length === 0 && report(node),
        ImportDeclaration: (node: Import) =>
          node.source.value === 'node:timers/promises' &&
          node.specifiers.some(({ imported }) => imported?.name !== 'setImmediate') &&
          report(node),
      }),
    ),
  },
};
