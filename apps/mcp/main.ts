// Tools for support, by the Model Context Protocol on standard input and output: npm run -s mcp (docs/mcp.md).
import '../../shared/runtime/require-node.ts';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { keytally } from '../../clients/node/index.ts';
import { makeServer } from './server.ts';

try {
  const { KEYTALLY_API_URL: url, KEYTALLY_TOKEN: token } = process.env;
  if (!url) throw new Error("KEYTALLY_API_URL is not set; it is the api's address");
  if (!token) throw new Error('KEYTALLY_TOKEN is not set; it is an access token that may read');
  const client = keytally({ url, token });
  // Standard output belongs to the protocol: whatever is for people goes to standard error.
  serveStdio(() => makeServer(client), { onerror: ({ message }) => console.error(`mcp: ${message}`) });
} catch (error) {
  console.error(`mcp: ${(error as Error).message}`);
  process.exitCode = 1;
}
