import { pino, type Logger } from 'pino';

export type { Logger };

/**
 * A logger that writes JSON lines to standard output. Secrets are never passed to it on purpose; the redaction is the
 * second line of defence for objects that carry a header or a body along.
 */
export function makeLogger(program: string, level: string): Logger {
  return pino({
    name: program,
    level,
    base: { program, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: [
        ...['authorization', 'x-api-key', 'cookie', 'idempotency-key'].flatMap((name) => [
          `*["${name}"]`,
          `*.*["${name}"]`,
        ]),
        ...['key', 'token', 'jwt', 'password', 'body'].flatMap((name) => [name, `*.${name}`]),
      ],
      censor: '[redacted]',
    },
    serializers: { error: describeError },
  });
}

// Database drivers hang the query's parameters and the connection's options on their errors: only these fields pass.
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack } = error;
  const code = (error as { code?: unknown }).code;
  return { name, message, code, stack, ...(error.cause !== undefined && { cause: describeError(error.cause) }) };
}
