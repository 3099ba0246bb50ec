import { Resolver, lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isPublicAddress, type WebhookTarget } from '../../shared/values/webhook-target.ts';

export type Address = { address: string; family: 4 | 6 };

/** Gives the addresses to connect to. Throws where there is none, or one that not everybody can reach. */
export type Resolve = (target: WebhookTarget, signal: AbortSignal) => Promise<Address[]>;

/** Name servers, which are asked for one name. */
export type NameServers = {
  resolve4(name: string): Promise<string[]>;
  resolve6(name: string): Promise<string[]>;
  cancel(): void;
};

const ASK_WITHIN_MS = 2_000;
const TIMES = 2;
const MOST_ADDRESSES = 16;

/**
 * Asks name servers itself: the system's own function takes one of a few threads for each question, and a name whose servers
 * never answer would hold up all others. One inside address among them refuses the name: it is a trick, or a mistake. Targets
 * that the operator allows are looked up as the system does, with its file of hosts.
 */
export function makeResolve(newResolver: () => NameServers = askNameServers): Resolve {
  return async function resolve({ host, isAllowed }, signal) {
    if (isAllowed) return lookUp(host);
    const resolver = newResolver();
    signal.addEventListener('abort', () => resolver.cancel(), { once: true });
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    if (found.length === 0) throw new Error(`the name ${host} has no address`);
    if (!found.every(isPublicAddress)) throw new Error(`the name ${host} has an address that is not public`);
    return found.slice(0, MOST_ADDRESSES).map((address) => ({ address, family: isIP(address) as 4 | 6 }));
  };
}

async function lookUp(host: string): Promise<Address[]> {
  const found = await lookup(host, { all: true });
  return found.map(({ address, family }) => ({ address, family: family as 4 | 6 }));
}

function askNameServers(): NameServers {
  return new Resolver({ timeout: ASK_WITHIN_MS, tries: TIMES });
}
