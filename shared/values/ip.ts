import ipaddr from 'ipaddr.js';

/**
 * An address as a string of bits behind its family (`4:` or `6:`), so that "lies in a block" is "starts with" and a
 * Redis script can decide it. An IPv4 address in IPv6 clothes (`::ffff:…`) counts as IPv4. `undefined`: no address.
 */
export function addressBits(text: string): string | undefined {
  if (!ipaddr.isValid(text) || !hasFourParts(text)) return undefined;
  const address = ipaddr.process(text);
  return family(address) + bits(address);
}

/** Whether an address to listen on is reached from this machine alone. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (addressBits(host) ?? '').startsWith('4:01111111');
}

/** An address or a CIDR block as the bits that all its addresses start with; `undefined` when it is neither. */
export function blockBits(text: string): string | undefined {
  if (!text.includes('/')) return addressBits(text);
  if (!ipaddr.isValidCIDR(text) || !hasFourParts(text.split('/')[0] ?? '')) return undefined;
  const [address, length] = ipaddr.parseCIDR(text);
  if (address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()) {
    return length < 96 ? undefined : '4:' + bits(address.toIPv4Address()).slice(0, length - 96);
  }
  return family(address) + bits(address).slice(0, length);
}

// The library also takes the shortened and octal forms of inet_aton (`10.1`, `010.0.0.1`), which people misread, and
// zones (`fe80::1%eth0`), which mean something on one machine only.
function hasFourParts(text: string): boolean {
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
