import { spawnSync } from 'node:child_process';

const WITHIN_MS = 20_000;
const MOST_BYTES = 64 * 1024;

/**
 * What a shell command prints, without the white space around it. Throws when it fails, prints nothing, or does not end in
 * time. No message has anything of its output; what it says on standard error is shown without what could be a secret.
 */
export function outputOf(command: string, name: string, withinMs = WITHIN_MS): string {
  const { status, signal, stdout, stderr, error } = spawnSync('/bin/sh', ['-c', command], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: withinMs,
    killSignal: 'SIGKILL',
    maxBuffer: MOST_BYTES,
  });
  const code = error && 'code' in error ? String(error.code) : '';
  if (code === 'ETIMEDOUT') throw new Error(`could not be had: ${name} did not end within ${withinMs / 1000} s`);
  if (code === 'ENOBUFS') throw new Error(`could not be had: ${name} printed more than ${MOST_BYTES} bytes`);
  if (error) throw new Error(`could not be had: ${name} could not be run (${code || 'no shell'})`);
  const said = lastLine(stderr);
  const how = status === null ? `was ended by ${signal}` : `failed with exit code ${status}`;
  if (status !== 0) throw new Error(`could not be had: ${name} ${how}${said && `: ${said}`}`);
  const output = stdout.trim();
  if (output === '') throw new Error(`could not be had: ${name} printed nothing${said && `, but said: ${said}`}`);
  return output;
}

// A command may say what it should not. Keys and tokens are long runs of these characters; words and addresses are not.
function lastLine(text: string): string {
  const line = text.trim().split('\n').at(-1) ?? '';
  return line.replaceAll(/[A-Za-z0-9+/_-]{40,}={0,2}/g, '[hidden]').slice(0, 500);
}
