// A rule of oxlint (.oxlintrc.json): words that had several meanings, and have gone, name no file and nothing that is exported.
// docs/concepts.md#words-of-the-inside has those that are used.

const tell = 'notify (webhooks, alerts), log, send, or a callback';
const gone = new Map([
  ...['tell', 'tells', 'teller', 'telling', 'told'].map((word) => [word, tell] as const),
  ['places', 'slots'],
]);

type Context = { filename: string; report(problem: { node: unknown; message: string }): void };
type Named = { id?: { type: string; name?: string } | null; declarations?: Named[] };

export default {
  meta: { name: 'words' },
  rules: {
    'one-meaning': {
      create(context: Context) {
        const require = (name: string, node: unknown) => {
          for (const word of wordsOf(name))
            if (gone.has(word))
              context.report({ node, message: `${word} has had several meanings: ${gone.get(word)}` });
        };
        return {
          Program: (node: unknown) => require(context.filename.split(/[/\\]/).at(-1)!, node),
          ExportNamedDeclaration({ declaration }: { declaration?: Named | null }) {
            for (const one of declaration?.declarations ?? (declaration ? [declaration] : []))
              if (one.id?.name) require(one.id.name, one);
          },
        };
      },
    },
  },
};

/** The words of a name in camelCase, kebab-case or the like. */
function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/);
}
