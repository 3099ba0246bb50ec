// The baseline for verify: a server of node:http alone that parses the same body and answers the same bytes.
// PORT; ANSWER, the bytes; REDIS_URL: sends one PING before each answer.
import { createServer } from 'node:http';
import { Redis } from 'ioredis';

const { PORT, ANSWER = '', REDIS_URL } = process.env;
const redis = REDIS_URL ? new Redis(REDIS_URL) : undefined;
const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(ANSWER) };

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    if (request.method === 'POST') JSON.parse(Buffer.concat(chunks).toString());
    const answer = () => response.writeHead(200, headers).end(ANSWER);
    if (redis) void redis.ping().then(answer);
    else answer();
  });
}).listen(Number(PORT), '127.0.0.1');
