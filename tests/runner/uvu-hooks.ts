import { registerHooks } from 'node:module';

const FINALLY = `} finally {
		state.__test__ = '';`;
// What is changed in uvu as it is loaded.
const changes: [from: string, to: string][] = [
  // uvu drops what a hook throws: its runner returns from the `finally` behind it, so a file that failed in `before` says only how
  // many of its tests did not run. That error is made a failure with its message and its place.
  [
    FINALLY,
    `} catch (err) {
		errors += format(state.__test__ || 'before its tests', err, name);
		write(FAIL);
	${FINALLY}`,
  ],
  // Of a file that hangs one wants to know where.
  ['state.__test__ = test.name;', 'globalThis.UVU_TEST = state.__test__ = test.name;'],
  // Each suite is run once its file has been read.
  ['return test;\n}', '(globalThis.UVU_SUITES ??= []).push(test);\n\treturn test;\n}'],
];

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith('/uvu/dist/index.mjs')) return loaded;
    let source = Buffer.from(loaded.source as Uint8Array).toString();
    for (const [from, to] of changes) {
      if (!source.includes(from))
        throw new Error(`${url} has changed: see whether it still needs what is changed in it`);
      source = source.replace(from, () => to);
    }
    return { ...loaded, source };
  },
});
