import ipaddr from 'ipaddr.js';

/**
 * An address as its family (`4:` or `6:`) and its bits, so that "lies in a block" means "starts with" and a Redis script
 * can decide it. An IPv4-mapped IPv6 address (`::ffff:…`) counts as IPv4. `undefined`: not an address.
 */
export function addressBits(text: string): string | undefined {
  if (!ipaddr.isValid(text) || !isUnambiguous(text)) return undefined;
  const address = ipaddr.process(text);
  return family(address) + bits(address);
}

/** Whether only this machine can reach an address that a server listens on. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (addressBits(host) ?? '').startsWith('4:01111111');
}

/** The bits that all addresses of a CIDR block (or the one address) start with; `undefined` for any other text. */
export function blockBits(text: string): string | undefined {
  if (!text.includes('/')) return addressBits(text);
  const [base = '', prefix = ''] = text.split('/');
  if (!ipaddr.isValidCIDR(text) || !isUnambiguous(base) || !/^(0|[1-9]\d*)$/.test(prefix)) return undefined;
  const [address, length] = ipaddr.parseCIDR(text);
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()) {
    return length < 96 ? undefined : '4:' + bits(address.toIPv4Address()).slice(0, length - 96);
  }
  return family(address) + bits(address).slice(0, length);
}

// The library also accepts the short and octal forms of inet_aton (`10.1`, `010.0.0.1`), which people misread, and zones
// (`fe80::1%eth0`), which have a meaning on one machine only.
function isUnambiguous(text: string): boolean {
  return (text.includes(':') && !text.includes('%')) || /^(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}$/.test(text);
}

function family(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  return address.kind() === 'ipv4' ? '4:' : '6:';
}

function bits(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  return address
    .toByteArray()
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('');
}
