import ipaddr from 'ipaddr.js';

/** Where a webhook goes: `https://name:port/path?query`. */
export type WebhookTarget = { url: URL; host: string; port: number; isAllowed: boolean };

// Only this machine or its network can be meant by these, whatever a resolver says.
const INSIDE = /(^|\.)(localhost|localdomain|local|internal|intranet|private|corp|home|lan|arpa|test|invalid|onion)$/;
// Azure's service for its virtual machines: the one inside address that looks like any other.
const AZURE_INSIDE = '168.63.129.16';
const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR('2000::/3');

/**
 * Reads the URL of a webhook, or says what is wrong with it. `allowed` are the exact targets, `host:port`, which the operator
 * allows the team inside; for development `http://host:port`, or any port of such a host. The parser of URLs writes an address in its one form, so decimal, octal and hexadecimal ones are addresses too.
 */
export function readWebhookTarget(text: string, allowed: readonly string[]): WebhookTarget | string {
  if (!URL.canParse(text)) return 'must be a URL, such as https://example.com/hooks';
  const url = new URL(text);
  const isPlain = url.protocol === 'http:';
  const port = Number(url.port || (isPlain ? '80' : '443'));
  const names = isPlain ? [port, '*'].map((one) => `http://${url.hostname}:${one}`) : [`${url.hostname}:${port}`];
  const isAllowed = names.some((name) => allowed.includes(name));
  if (url.protocol !== 'https:' && !(isPlain && isAllowed)) return 'must begin with https://';
  if (url.username !== '' || url.password !== '') return 'must have no user name and no password';
  if (url.hash !== '') return 'must have no fragment (#…)';
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.+$/, '');
  const target = { url, host, port, isAllowed };
  if (isAllowed) return target;
  if (ipaddr.isValid(host)) return 'must have the name of a host, not an address';
  if (!host.includes('.') || INSIDE.test(host)) return 'must have a name that can be reached from outside';
  return target;
}

/** Whether everybody can reach an address: nothing of this machine, its network, its cloud, or behind a translation. */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text) || text === AZURE_INSIDE) return false;
  const address = ipaddr.parse(text);
  if (address.range() !== 'unicast') return false;
  return address instanceof ipaddr.IPv4 || address.match(GLOBAL_IPV6);
}

/** A target inside that the operator allows a team, or, by `*`, all of them. */
export type AllowedTarget = { team: string; target: string };

/** The targets inside that a team may have, `host:port`. */
export function allowedFor(team: string, targets: readonly AllowedTarget[]): string[] {
  return targets.filter((one) => one.team === team || one.team === '*').map(({ target }) => target);
}

/** Reads one of the operator's targets, `team=host:port`; gives it in the form that URLs are compared with. */
export function readAllowedTarget(text: string): AllowedTarget | undefined {
  const [, team = '', plain = '', host = '*', port = ''] =
    /^(\*|team_[0-9a-z]+)=(http:\/\/)?(.+):(\d{1,5}|(?<=http:.*)\*)$/.exec(text) ?? [];
  const address = `https://${host}:${port.replace('*', '')}`;
  if (host.includes('*') || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  if (url.pathname !== '/' || url.username !== '' || url.search !== '' || url.hash !== '') return undefined;
  return { team, target: `${plain}${url.hostname}:${port === '*' ? port : Number(port)}` };
}
