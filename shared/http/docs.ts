import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { DocumentServer } from '../contract/openapi.ts';
import { pageHeaders, staticFile, type File, type Files } from './static-files.ts';

const require = createRequire(import.meta.url);

/**
 * Answers `/openapi.json`, and `/docs`, where people read the document and try the operations: Swagger UI, served from its
 * package without any outside host. `document` makes the document of these servers when it is first asked for. `undefined` for
 * any other path.
 */
export function makeDocs(servers: readonly DocumentServer[], document: () => object): Files {
  const file = (name: string) => readFileSync(require.resolve(`swagger-ui-dist/${name}`));
  const origins = servers.flatMap(({ url }) => (URL.canParse(url) ? [new URL(url).origin] : []));
  const headers = { ...pageHeaders("'none'", origins), 'Cache-Control': 'max-age=3600' };
  const [bundle, styles] = [file('swagger-ui-bundle.js'), file('swagger-ui.css')];
  const page = (type: string, body: () => Buffer) => staticFile(`${type}; charset=utf-8`, body, headers);
  const pages = new Map<string, File>([
    // It tells of this release alone: a client asks each time whether it is still the same.
    [
      '/openapi.json',
      staticFile('application/json', () => Buffer.from(JSON.stringify(document())), { 'Cache-Control': 'no-cache' }),
    ],
    ['/docs', page('text/html', () => Buffer.from(HTML))],
    ['/docs/start.js', page('text/javascript', () => Buffer.from(START))],
    ['/docs/swagger-ui-bundle.js', page('text/javascript', () => bundle)],
    ['/docs/swagger-ui.css', page('text/css', () => styles)],
  ]);

  return (path, requestHeaders) => pages.get(path)?.(requestHeaders);
}

// Relative addresses: behind a proxy the pages may have a longer path.
const HTML = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>keytally</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="docs/swagger-ui.css" />
  </head>
  <body>
    <div id="docs"></div>
    <script src="docs/swagger-ui-bundle.js"></script>
    <script src="docs/start.js"></script>
  </body>
</html>
`;

// validatorUrl: by default Swagger UI sends the document's address to a host of its makers.
const START = `SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#docs',
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  validatorUrl: null,
});
`;
