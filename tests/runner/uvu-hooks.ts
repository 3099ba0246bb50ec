import { registerHooks } from 'node:module';

// uvu drops what a hook throws: its runner returns from the `finally` behind it, so a file that failed in `before` says only
// how many of its tests did not run. As it is loaded, that error is made a failure with its message and its place.
const BEFORE = `} finally {
		state.__test__ = '';`;
const AFTER = `} catch (err) {
		errors += format(state.__test__ || 'before its tests', err, name);
		write(FAIL);
	${BEFORE}`;

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!url.endsWith('/uvu/dist/index.mjs')) return loaded;
    const source = Buffer.from(loaded.source as Uint8Array).toString();
    if (!source.includes(BEFORE)) throw new Error(`${url} has changed: see whether it still drops the errors of hooks`);
    return { ...loaded, source: source.replace(BEFORE, () => AFTER) };
  },
});
