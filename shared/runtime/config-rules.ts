import { isLoopback } from '../values/ip.ts';
import type { Config } from './variables.ts';

/** Rules that no variable can check by itself: values that do not fit together, or are not safe in production. */
export function configProblems(config: Partial<Config>): string[] {
  const { TLS_CERTIFICATE_PATH = '', TLS_KEY_PATH = '' } = config;
  const problems: string[] = [];
  if ((TLS_CERTIFICATE_PATH === '') !== (TLS_KEY_PATH === ''))
    problems.push('TLS_CERTIFICATE_PATH and TLS_KEY_PATH must be set together');
  if (config.WORKERS !== undefined && config.WORKERS > 1 && config.PORT === 0)
    problems.push('WORKERS above 1 share one port: set PORT to its number, not to 0');
  if (config.WORKERS !== undefined && config.WORKERS > 1 && config.OPS_PORT === 0)
    problems.push('WORKERS above 1 share one OPS_PORT too: set its number, not 0');
  if (config.OPS_PORT && config.OPS_PORT === config.PORT)
    problems.push('OPS_PORT must differ from PORT; leave it empty to serve everything on PORT');
  if (config.OIDC_ISSUER !== undefined) {
    if (config.OIDC_CLIENT_ID === '' || config.OIDC_GROUPS?.size === 0)
      problems.push('OIDC_ISSUER needs OIDC_CLIENT_ID, and OIDC_GROUPS that say who may do what');
    if (!config.PUBLIC_API_URL?.startsWith('http'))
      problems.push('OIDC_ISSUER needs PUBLIC_API_URL, the address that the provider sends people back to');
  }
  return config.NODE_ENV === 'production' ? [...problems, ...productionProblems(config)] : problems;
}

// Convenient on a developer's machine, a security hole in production.
function productionProblems(config: Partial<Config>): string[] {
  const problems: string[] = [];
  const { HOST = '', TLS_CERTIFICATE_PATH, TLS_BY_PROXY, MASTER_KEY } = config;
  if (TLS_CERTIFICATE_PATH === '' && !TLS_BY_PROXY && !isLoopback(HOST))
    problems.push(
      `HOST ${HOST} can be reached from outside, and without TLS others can read tokens and keys on the network: ` +
        'set TLS_CERTIFICATE_PATH and TLS_KEY_PATH, or TLS_BY_PROXY=true where a proxy in front speaks TLS',
    );
  for (const name of ['TEST_CLOCK_FILE', 'TEST_TOKEN'] as const)
    if (config[name]) problems.push(`${name} is for development, and must not be set in production`);
  if (config.WEBHOOK_ALLOWED_TARGETS?.some(({ target }) => target.startsWith('http:')))
    problems.push(
      'WEBHOOK_ALLOWED_TARGETS must name no http:// in production: events would cross the network in plain text',
    );
  for (const name of ['DATABASE_URL', 'REDIS_URL', 'CLICKHOUSE_URL'] as const) {
    const url = config[name];
    if (url !== undefined && isGuessable(passwordIn(url)))
      problems.push(`${name} must have a password of its own in production, not ${describe(passwordIn(url))}`);
  }
  const passwords = ['API_DATABASE_PASSWORD', 'CONSUMER_DATABASE_PASSWORD', 'WEBHOOKS_DATABASE_PASSWORD'] as const;
  for (const name of [...passwords, 'KAFKA_SASL_PASSWORD'] as const) {
    const password = config[name];
    if (password && isGuessable(password)) problems.push(`${name} must not be ${describe(password)} in production`);
  }
  for (const [name, what] of [
    ['VAULT_ADDR', 'read the master key'],
    ['OIDC_ISSUER', 'sign in as anybody'],
  ] as const) {
    const url = config[name];
    if (url?.startsWith('http:') && !isLoopback(new URL(url).hostname.replaceAll(/[[\]]/g, '')))
      problems.push(`${name} must be https in production: others could ${what} on the network`);
  }
  if (MASTER_KEY && new Set(MASTER_KEY).size < MIN_DISTINCT_BYTES)
    problems.push('MASTER_KEY must be random in production: make one with `openssl rand -base64 32`');
  return problems;
}

// 32 random bytes have at least this many distinct values, except once in 10^20.
const MIN_DISTINCT_BYTES = 16;
const MIN_PASSWORD_LENGTH = 12;
const defaultPasswords =
  /^(keytally|postgres|redis|clickhouse|kafka|default|admin|root|test|user|guest|secret|password|passw0rd|changeme|change-me|example|letmein|qwerty|12345)\w{0,6}$/i;

function isGuessable(password: string): boolean {
  return password.length < MIN_PASSWORD_LENGTH || defaultPasswords.test(password) || new Set(password).size < 5;
}

function describe(password: string): string {
  return password === '' ? 'none' : 'a default, short or simple one';
}

// By pattern: redis+cluster://user:password@host:port,host:port is not a URL.
function passwordIn(url: string): string {
  const [, credentials = ''] = /^[\w+]+:\/\/([^/]*)@/.exec(url) ?? [];
  return credentials.slice(credentials.indexOf(':') + 1);
}
