import { addressBits, blockBits } from '../values/ip.ts';
import { memoize } from '../runtime/memoize.ts';

const LONGEST_ADDRESS = 64;
const MOST_PROXIES = 32;
// No allow list contains it.
const UNKNOWN = '';

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
    let address = peer;
    let end = forwardedFor.length;
    // From the end, one address at a time: a client may have written thousands before those that the proxies added.
    for (let hops = 0; end > 0 && trusted(address); hops++) {
      if (hops === MOST_PROXIES) return UNKNOWN;
      const start = forwardedFor.lastIndexOf(',', end - 1) + 1;
      const hop = forwardedFor.slice(start, end).trim();
      if (hop === '') break;
      address = hop.length > LONGEST_ADDRESS ? UNKNOWN : hop;
      end = start - 1;
    }
    return address;
  };
}
