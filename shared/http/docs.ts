import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { ProbeAnswer } from './probes.ts';

const require = createRequire(import.meta.url);
const types: Record<string, string> = { 'swagger-ui-bundle.js': 'text/javascript', 'swagger-ui.css': 'text/css' };

/**
 * Answers `/openapi.json`, and `/docs`, where people read the document and try the operations: Swagger UI, served from its
 * package without any outside host. `undefined` for any other path.
 */
export function makeDocs(document: object, serverUrl: string) {
  const text = JSON.stringify(document);
  const headers = securityHeaders(serverUrl);
  const page = (type: string, text: string): ProbeAnswer => ({
    status: 200,
    type: `${type}; charset=utf-8`,
    text,
    headers,
  });

  return async function docs(path: string): Promise<ProbeAnswer | undefined> {
    if (path === '/openapi.json') return { status: 200, type: 'application/json', text };
    if (path === '/docs') return page('text/html', HTML);
    if (path === '/docs/start.js') return page('text/javascript', START);
    const file = path.startsWith('/docs/') ? path.slice('/docs/'.length) : '';
    const type = Object.hasOwn(types, file) ? types[file] : undefined;
    return type === undefined
      ? undefined
      : page(type, await readFile(require.resolve(`swagger-ui-dist/${file}`), 'utf8'));
  };
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

// The page runs only its own scripts, calls only this service, and cannot be framed by another page.
function securityHeaders(serverUrl: string): Record<string, string> {
  const api = URL.canParse(serverUrl) ? ` ${new URL(serverUrl).origin}` : '';
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    `connect-src 'self'${api}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    'Content-Security-Policy': policy.join('; '),
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
    'X-Frame-Options': 'DENY',
    'Cache-Control': 'max-age=3600',
  };
}
