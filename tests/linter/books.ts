// A rule of oxlint (.oxlintrc.json): queries on the books stand where they name the workspace that somebody was allowed.

const QUERY = /\b(?:from|into|join|table)\s+(?:usage_events|usage_days|booked_days)\b/i;

// Who says that a workspace was allowed.
const ALLOWS = /\/allowed-workspace\.ts$/;

type Context = { report(problem: { node: unknown; message: string }): void };
type Text = { value: unknown };
type Import = { source: Text; specifiers: { imported?: { name: string } }[] };
type Piece = { value: { raw: string } };

const message =
  'only shared/books, and the jobs that own the tables, query usage_events, usage_days and booked_days: readUsage answers for a workspace that was allowed';

const allowMessage =
  'only the check of what an access token may use, and jobs for every workspace, say that a workspace was allowed: take an AllowedWorkspace';

export default {
  meta: { name: 'books' },
  rules: {
    'no-queries': {
      create(context: Context) {
        const look = (node: unknown, text: unknown) => {
          if (typeof text === 'string' && QUERY.test(text)) context.report({ node, message });
        };
        return {
          Literal: (node: Text) => look(node, node.value),
          TemplateElement: (node: Piece) => look(node, node.value.raw),
        };
      },
    },
    'no-allowing': {
      create(context: Context) {
        return {
          ImportDeclaration(node: Import) {
            const { source, specifiers } = node;
            const allows = specifiers.some(({ imported }) => imported?.name === 'allowWorkspace');
            if (allows && ALLOWS.test(String(source.value))) context.report({ node, message: allowMessage });
          },
        };
      },
    },
  },
};
