// The baseline for verify: a server of node:http alone that parses the same body and answers the same bytes. PORT; ANSWER, the bytes.
import { createServer } from 'node:http';

const { PORT, ANSWER = '' } = process.env;
const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(ANSWER) };

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    if (request.method === 'POST') JSON.parse(Buffer.concat(chunks).toString());
    response.writeHead(200, headers).end(ANSWER);
  });
}).listen(Number(PORT), '127.0.0.1');
