import { addressBits, blockBits } from '../values/ip.ts';
import { memoize } from '../runtime/memoize.ts';

/**
 * Finds the client's address behind trusted proxies: the last address in `X-Forwarded-For` that is not a trusted proxy.
 * The header of a peer that is not a trusted proxy is ignored.
 */
export function makeClientAddress(
  trustedProxies: string[],
): (peer: string | undefined, forwardedFor: string | undefined) => string {
  const blocks = trustedProxies.map((text) => {
    const bits = blockBits(text);
    if (bits === undefined) throw new Error(`TRUSTED_PROXIES: ${text} is neither an address nor a CIDR block`);
    return bits;
  });
  const trusted = memoize((address) => {
    const bits = addressBits(address);
    return bits !== undefined && blocks.some((block) => bits.startsWith(block));
  });

  return (peer = '', forwardedFor = '') => {
    if (forwardedFor === '') return peer;
    let address = peer;
    const hops = forwardedFor.split(',').map((hop) => hop.trim());
    while (trusted(address) && hops.at(-1)) address = hops.pop()!;
    return address;
  };
}
