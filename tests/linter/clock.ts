// A rule of oxlint (.oxlintrc.json): programs take time and chance as arguments (shared/runtime/clock.ts), so that a test can give its own.

const message = 'time and chance are arguments: take a Clock (shared/runtime/clock.ts), or `random`, from the caller';

// What looks at the time, waits for it, or decides by chance.
const members = ['Date.now', 'performance.now', 'Math.random', 'AbortSignal.timeout'];
const calls = ['setTimeout', 'setInterval'];

type Context = { report(problem: { node: unknown; message: string }): void };
type Name = { type: string; name?: string };
type Member = { object: Name; property: Name; computed: boolean };

export default {
  meta: { name: 'clock' },
  rules: {
    given: {
      create(context: Context) {
        const report = (node: unknown) => context.report({ node, message });
        return {
          MemberExpression(node: Member) {
            if (!node.computed && members.includes(`${node.object.name}.${node.property.name}`)) report(node);
          },
          CallExpression(node: { callee: Name }) {
            if (node.callee.type === 'Identifier' && calls.includes(node.callee.name!)) report(node);
          },
          NewExpression(node: { callee: Name; arguments: unknown[] }) {
            if (node.callee.name === 'Date' && node.arguments.length === 0) report(node);
          },
          ImportDeclaration(node: { source: { value: unknown }; specifiers: { imported?: Name }[] }) {
            if (node.source.value !== 'node:timers/promises') return;
            if (node.specifiers.some(({ imported }) => imported?.name !== 'setImmediate')) report(node);
          },
        };
      },
    },
  },
};
