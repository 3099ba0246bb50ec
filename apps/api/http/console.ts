import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pageHeaders, staticFile, type Files } from '../../../shared/http/static-files.ts';
import type { Logger } from '../../../shared/runtime/log.ts';

const FOLDER = join(import.meta.dirname, '../../console/dist');
const ASSETS = '/console/assets/';
const types: Record<string, string> = { js: 'text/javascript', css: 'text/css', txt: 'text/plain' };
const headers = pageHeaders("'self'");

/**
 * Serves the console and the portal: one page at every path of the one and at that of the other, and their files. A file's name has the hash of its content, so a browser
 * keeps it for good; the page is asked for each time, and says the host of the `provider` where people sign in.
 */
export function makeConsole(log: Logger, provider = '', folder = FOLDER): Files {
  if (!existsSync(join(folder, 'index.html'))) {
    log.warn('the pages of the console are not built, so /console and /portal are not there: run npm run console');
    return () => undefined;
  }
  // Read now: while this program runs, a newer release may take the place of the files.
  const html = readFileSync(join(folder, 'index.html'), 'utf8').replace('<body>', `<body data-provider="${provider}">`);
  const bytes = Buffer.from(html);
  const page = staticFile('text/html; charset=utf-8', () => bytes, headers);
  const assets = new Map(
    readdirSync(join(folder, 'assets')).map((name) => {
      const kind = name.split('.').at(-1)!;
      const cacheControl = kind === 'txt' ? 'no-cache' : 'public, max-age=31536000, immutable';
      const body = readFileSync(join(folder, 'assets', name));
      return [
        ASSETS + name,
        staticFile(`${types[kind]!}; charset=utf-8`, () => body, { ...headers, 'Cache-Control': cacheControl }),
      ];
    }),
  );

  return function console(path, requestHeaders) {
    if (path.startsWith(ASSETS)) return assets.get(path)?.(requestHeaders);
    const isPage = path === '/portal' || path === '/console' || path.startsWith('/console/');
    return isPage && !/^\/console\/session(\/|$)/.test(path) ? page(requestHeaders) : undefined;
  };
}
