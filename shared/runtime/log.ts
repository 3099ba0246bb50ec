import { pino, type Logger, type LoggerOptions } from 'pino';
import { makeLogOutput } from './log-output.ts';

export type { Logger };

/** Where lines of a log go. */
export type LogOutput = { write(line: string): void };

/**
 * A logger that writes JSON lines, to standard output by default. No caller logs a secret on purpose; the redaction catches one that
 * an object carries along in a header or a body.
 */
export function makeLogger(program: string, level: string, to: LogOutput = standardOutput()): Logger {
  const options: LoggerOptions = {
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
  };
  return pino(options, to);
}

let output: ReturnType<typeof makeLogOutput> | undefined;

function standardOutput(): ReturnType<typeof makeLogOutput> {
  if (!output) {
    output = makeLogOutput(1);
    process.on('exit', output.flushSync);
  }
  return output;
}

// Database drivers put query parameters and connection options into their errors, so only these fields are logged.
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack } = error;
  const code = (error as { code?: unknown }).code;
  return { name, message, code, stack, ...(error.cause !== undefined && { cause: describeError(error.cause) }) };
}
