// A receiver of webhooks (docs/webhooks.md), behind a proxy with TLS: npm install standardwebhooks. WEBHOOK_SECRET, PORT.
import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
// In production a table with a unique column, written in the transaction of what you do about the event.
const seen = new Set();

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  let event;
  try {
    event = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
  } catch {
    response.writeHead(401).end();
    return;
  }
  const id = request.headers['webhook-id'];
  if (!seen.has(id)) {
    seen.add(id);
    console.log(id, event.type, JSON.stringify(event.data));
  }
  response.writeHead(204).end();
}).listen(process.env.PORT ?? 3000);
