import { isLoopback } from '../values/ip.ts';
import type { Config } from './variables.ts';

/** What is wrong with variables that are each right by themselves: the names concerned, and why they do not go together. */
export function configProblems(config: Partial<Config>): string[] {
  const { TLS_CERTIFICATE_PATH = '', TLS_KEY_PATH = '' } = config;
  const problems: string[] = [];
  if ((TLS_CERTIFICATE_PATH === '') !== (TLS_KEY_PATH === ''))
    problems.push('TLS_CERTIFICATE_PATH and TLS_KEY_PATH must be set together');
  if (config.WORKERS !== undefined && config.WORKERS > 1 && config.PORT === 0)
    problems.push('WORKERS above 1 share a port: set PORT to one, not to 0');
  return config.NODE_ENV === 'production' ? [...problems, ...productionProblems(config)] : problems;
}

// Outside of production all of this is convenient; there it is a hole.
function productionProblems(config: Partial<Config>): string[] {
  const problems: string[] = [];
  const { HOST = '', TLS_CERTIFICATE_PATH, TLS_BY_PROXY, MASTER_KEY } = config;
  if (TLS_CERTIFICATE_PATH === '' && !TLS_BY_PROXY && !isLoopback(HOST))
    problems.push(
      `HOST ${HOST} can be reached from outside, and without TLS tokens and keys would be seen on their way: ` +
        'set TLS_CERTIFICATE_PATH and TLS_KEY_PATH, or TLS_BY_PROXY=true where a proxy in front speaks TLS',
    );
  for (const name of ['DATABASE_URL', 'REDIS_URL', 'CLICKHOUSE_URL'] as const) {
    const url = config[name];
    if (url !== undefined && isPreset(passwordIn(url)))
      problems.push(`${name} must have a password of its own in production, not ${describe(passwordIn(url))}`);
  }
  for (const name of ['API_DATABASE_PASSWORD', 'CONSUMER_DATABASE_PASSWORD', 'KAFKA_SASL_PASSWORD'] as const) {
    const password = config[name];
    if (password && isPreset(password)) problems.push(`${name} must not be ${describe(password)} in production`);
  }
  if (MASTER_KEY && new Set(MASTER_KEY).size < LEAST_BYTES)
    problems.push('MASTER_KEY must be random in production, as `openssl rand -base64 32` makes it');
  return problems;
}

// Of 32 random bytes more are different from each other, but for one time in 10^20.
const LEAST_BYTES = 16;
const LEAST_LENGTH = 12;
const presets =
  /^(keytally|postgres|redis|clickhouse|kafka|default|admin|root|test|user|guest|secret|password|passw0rd|changeme|change-me|example|letmein|qwerty|12345)\w{0,6}$/i;

function isPreset(password: string): boolean {
  return password.length < LEAST_LENGTH || presets.test(password) || new Set(password).size < 5;
}

function describe(password: string): string {
  return password === '' ? 'none' : 'a preset, short or simple one';
}

// Also of redis+cluster://user:password@host:port,host:port, which is no URL.
function passwordIn(url: string): string {
  const [, credentials = ''] = /^[\w+]+:\/\/([^/]*)@/.exec(url) ?? [];
  return credentials.slice(credentials.indexOf(':') + 1);
}
