// A rule of oxlint (.oxlintrc.json): all connect with the mended driver (docs/decisions/mended-postgres-driver.md).

const message =
  "the driver, as it is published, can wait for ever for a connection that has ended: import shared/stores/postgres-driver.ts, and only types of 'postgres'";

type Context = { report(problem: { node: unknown; message: string }): void };
type Import = { source: { value: unknown }; importKind: 'type' | 'value' };

export default {
  meta: { name: 'postgres' },
  rules: {
    'mended-driver': {
      create(context: Context) {
        return {
          ImportDeclaration(node: Import) {
            if (node.source.value === 'postgres' && node.importKind !== 'type') context.report({ node, message });
          },
        };
      },
    },
  },
};
