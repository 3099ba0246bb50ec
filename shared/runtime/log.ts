import { pino, type Logger, type LoggerOptions } from 'pino';

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

// While a disk is full, lines wait up to this limit; those beyond it are lost.
const WAITING_BYTES = 8 * 1024 * 1024;

/**
 * No failure to write ends or holds up the program: what is not written is tried again with the next line. pino is given `write` alone:
 * at a fatal line it would flush, which tries for as long as a disk is full.
 */
function standardOutput(): LogOutput {
  const output = pino.destination({ dest: 1, sync: true, maxLength: WAITING_BYTES, retryEAGAIN: () => false });
  output.on('error', () => {});
  return { write: (line) => output.write(line) };
}

// Database drivers put query parameters and connection options into their errors, so only these fields are logged.
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack } = error;
  const code = (error as { code?: unknown }).code;
  return { name, message, code, stack, ...(error.cause !== undefined && { cause: describeError(error.cause) }) };
}
