import { DAY_MS } from '../../../shared/values/periods.ts';
import type { Json } from '../programs.ts';
import type { Asking } from '../clients.ts';
import type { Parts } from '../work.ts';
import { change, isSurely, setting, type Setting } from './settings.ts';

// Keys that cost nothing: what their workspaces, scopes, addresses and ends let through.

/** A workspace of its own, which is deleted some day. */
type Place = { id: string; name: string; isGone: Setting<boolean>; addresses: Setting<Addresses>; scopes: Scope[] };
type Scope = { id: string; representation: string; isThere: Setting<boolean> };
type Gate = {
  id: string;
  text: string;
  place: Place;
  isImported: boolean;
  state: Setting<'enabled' | 'disabled' | 'deleted'>;
  expiresAt: Setting<number>;
  addresses: Setting<Addresses>;
  grants: Setting<Grant[]>;
};
type Grant = { scope: Scope; flags: Flag[] };
type Flag = (typeof FLAGS)[number];
type Addresses = keyof typeof LISTS;

/** How often they are. */
export const gateKinds = { verifyGate: 7, makeGate: 3, changeGate: 4, changePlace: 1.5 };

const FLAGS = ['create', 'read', 'update', 'del'] as const;
const CLIENTS = ['192.0.2.1', '192.0.2.77', '2001:db8::5', '203.0.113.9'];
// Lists of addresses, and whom of the clients they let through; a key without a list has that of its workspace.
const LISTS = {
  'of its workspace': { list: null, lets: CLIENTS },
  all: { list: [], lets: CLIENTS },
  one: { list: ['192.0.2.1'], lets: CLIENTS.slice(0, 1) },
  'a block': { list: ['192.0.2.64/26', '198.51.100.0/24'], lets: CLIENTS.slice(1, 2) },
  'of both kinds': { list: ['2001:db8::/32', '203.0.113.9/32'], lets: CLIENTS.slice(2) },
};
const MOST_PLACES = 4;
const MOST_OF_PLACE = 3;

/** All of them. */
export type Gates = { places: Place[]; gates: Gate[]; named: number };

export function makeGates({ simulation, ask, breaks, verifyBy, askOne }: Parts, of: Gates) {
  const { random } = simulation;
  const { places, gates } = of;

  /** Verifies one of the keys; each that may be asked this way is a client's. */
  async function verify(asking: Asking): Promise<void> {
    const gate = random.pick(gates);
    const { place } = gate;
    // Most of what it was given it has.
    const [granted = []] = gate.grants.may;
    const wanted = random.pick([[], grantsOf(place.scopes), granted.slice(0, 1), granted]);
    const ip = random.pick(CLIENTS);
    const body = { key: gate.text, ip, ...(wanted.length > 0 && { requestedScopes: wanted.map(grantBody) }) };
    const settings = [gate.state, gate.expiresAt, gate.addresses, gate.grants, place.isGone, place.addresses];
    const all: Setting<unknown>[] = [...settings, ...place.scopes.map(({ isThere }) => isThere)];
    const changes = () => all.reduce((sum, one) => sum + one.changes, 0);
    const before = changes();
    const instants = [simulation.nowMs()];
    const answer = await verifyBy(asking, body, `gate ${gate.id} from ${ip}`);
    instants.push(simulation.nowMs());
    if (!answer || changes() !== before) return;
    const { status, reason = '' } = answer;
    const may = instants.flatMap((atMs) => mayAnswer(gate, wanted, ip, atMs));
    // A text that is not of our form is nothing else where no key has it.
    const what = gate.isImported ? reason.replace('MALFORMED', 'NOT_FOUND') : reason;
    if (!may.includes(`${status} ${what}`.trim()))
      breaks(`gate ${gate.id} was ${status} ${reason}, and may be ${[...new Set(may)].join(' or ')} for ${ip}`);
  }

  /** Makes what is lacking: a workspace, a scope in it, or a key. */
  async function make(): Promise<void> {
    if (places.length < MOST_PLACES && random.chance(0.2)) return makePlace();
    const place = random.pick(places);
    if (place.scopes.length < MOST_OF_PLACE && random.chance(0.4)) return makeScope(place);
    if (gates.filter((one) => one.place === place).length < MOST_OF_PLACE) return makeGate(place);
  }

  async function makePlace(): Promise<void> {
    const name = `place ${(of.named += 1)}`;
    const answer = await ask({ operationId: 'createWorkspace', body: { name } });
    if (!answer?.body) return;
    const { id } = answer.body.workspace;
    places.push({ id, name, isGone: setting(false), addresses: setting<Addresses>('all'), scopes: [] });
  }

  async function makeScope({ id, scopes, isGone }: Place): Promise<void> {
    const representation = `s${(of.named += 1)}`;
    const wasGone = isSurely(isGone, true);
    const body = { name: representation, representation };
    const answer = await ask({ operationId: 'createScope', params: { id }, body });
    if (!answer?.body) return;
    if (wasGone) breaks(`a scope was made in a workspace that is gone`);
    scopes.push({ id: answer.body.scope.id, representation, isThere: setting(true) });
  }

  async function makeGate(place: Place): Promise<void> {
    const isImported = random.chance(0.4);
    const grants = grantsOf(place.scopes);
    const addresses = random.pick(Object.keys(LISTS) as Addresses[]);
    const expiresAt = random.chance(0.2) ? soon() : Infinity;
    const text = `imported-${random.below(1e9)}-${random.below(1e9)}-${(of.named += 1)}`;
    const wasGone = isSurely(place.isGone, true);
    const fields = fieldsOf(place, { grants, addresses, expiresAt });
    const answer = isImported
      ? await importKey({ ...fields, key: text })
      : await ask({ operationId: 'createKey', body: fields });
    if (!answer?.body) return;
    if (wasGone) breaks('a key was made in a workspace that is gone');
    const { id, key = text } = answer.body.apiKey;
    gates.push({
      id,
      text: key,
      place,
      isImported,
      state: setting('enabled' as const),
      expiresAt: setting(expiresAt),
      addresses: setting(addresses),
      grants: setting(grants),
    });
  }

  /** The first result, as if it had been asked for alone. */
  async function importKey(item: Json): ReturnType<typeof ask> {
    const answer = await ask({ operationId: 'importKeys', body: { keys: [{ allowWeak: true, ...item }] } });
    if (!answer?.body) return answer;
    const [result] = answer.body.results;
    return result.error ? { error: result.error } : { body: result };
  }

  async function changeGate(): Promise<void> {
    const gate = random.pick(gates);
    const { place, state } = gate;
    const params = { id: place.id, akid: gate.id };
    const update = (body: object) => () => ask({ operationId: 'updateKey', params, body });
    const kind = random.pick(['enabled', 'disabled', 'scopes', 'scopes', 'addresses', 'expiry', 'deleted'] as const);
    if (isSurely(state, 'deleted')) return gate.isImported ? restore(gate) : undefined;
    if (kind === 'deleted') return change(state, kind, () => ask({ operationId: 'deleteKey', params }));
    if (kind === 'scopes') {
      const grants = grantsOf(place.scopes);
      return change(gate.grants, grants, update({ scopes: grants.map(grantBody) }));
    }
    if (kind === 'addresses') {
      const to = random.pick(Object.keys(LISTS) as Addresses[]);
      return change(gate.addresses, to, update({ allowedIPs: LISTS[to].list }));
    }
    if (kind === 'expiry') {
      const at = random.chance(0.5) ? soon() : Infinity;
      return change(gate.expiresAt, at, update({ expiresAt: at === Infinity ? null : at }));
    }
    return change(state, kind, update({ enabled: kind === 'enabled' }));
  }

  /** A key comes back by the import of its text, with what it is given then. */
  async function restore({ text, place, state, expiresAt, addresses, grants }: Gate): Promise<void> {
    if ([state, expiresAt, addresses, grants].some(({ changes }) => changes % 2 === 1)) return;
    const to = { grants: [] as Grant[], addresses: 'all' as const, expiresAt: Infinity };
    const asked = importKey({ ...fieldsOf(place, to), key: text, restore: true });
    const both = () => asked;
    await Promise.all([
      change(state, 'enabled', both),
      change(expiresAt, to.expiresAt, both),
      change(addresses, to.addresses, both),
      change(grants, to.grants, both),
    ]);
  }

  async function changePlace(): Promise<void> {
    const place = random.pick(places);
    const params = { id: place.id };
    const kind = random.pick(['addresses', 'addresses', 'scope', 'scope', 'gone'] as const);
    if (kind === 'addresses') {
      const to = random.pick(['all', 'one', 'a block', 'of both kinds'] as const);
      const body = { defaultAllowedIPs: LISTS[to].list };
      return change(place.addresses, to, () => ask({ operationId: 'updateWorkspace', params, body }));
    }
    if (kind === 'gone') return change(place.isGone, true, () => ask({ operationId: 'deleteWorkspace', params }));
    const scope = place.scopes.length > 0 && random.pick(place.scopes);
    if (!scope || isSurely(scope.isThere, false)) return;
    const asked = { operationId: 'deleteScope', params: { ...params, sid: scope.id } };
    return change(scope.isThere, false, () => ask(asked));
  }

  function soon(): number {
    return simulation.nowMs() + random.pick([2_000, 20_000, 2 * DAY_MS]);
  }

  function grantsOf(scopes: Scope[]): Grant[] {
    const some = scopes.filter(() => random.chance(0.6));
    return some.map((scope) => ({ scope, flags: [random.pick(FLAGS), random.pick(FLAGS)] }));
  }

  return {
    verify,
    makePlace,
    makeScope,
    makeGate,
    actions: { verifyGate: () => verify(askOne), makeGate: make, changeGate, changePlace },
  };
}

function fieldsOf({ id }: Place, of: { grants: Grant[]; addresses: Addresses; expiresAt: number }): Json {
  return {
    name: 'gate',
    workspaceId: id,
    scopes: of.grants.map(grantBody),
    ...(LISTS[of.addresses].list && { allowedIPs: LISTS[of.addresses].list }),
    ...(of.expiresAt !== Infinity && { expiresAt: of.expiresAt }),
  };
}

function grantBody({ scope, flags }: Grant): Json {
  return {
    representation: scope.representation,
    ...Object.fromEntries(FLAGS.map((one) => [one, flags.includes(one)])),
  };
}

/** All that a verification may be answered at an instant, by all that may be set. */
function mayAnswer({ place, ...gate }: Gate, wanted: Grant[], ip: string, atMs: number): string[] {
  const answers: string[] = [];
  for (const state of gate.state.may)
    for (const expiresAt of gate.expiresAt.may)
      for (const own of gate.addresses.may)
        for (const theirs of place.addresses.may)
          for (const grants of gate.grants.may) {
            const { lets } = LISTS[own === 'of its workspace' ? theirs : own];
            if (state === 'deleted') answers.push('DELETED DELETED', 'INVALID NOT_FOUND');
            else if (state === 'disabled') answers.push('DISABLED DISABLED');
            else if (expiresAt <= atMs) answers.push('EXPIRED EXPIRED');
            else if (!lets.includes(ip)) answers.push('INVALID IP_NOT_ALLOWED');
            else answers.push(...mayDecide(grants, wanted));
          }
  const { may } = place.isGone;
  return [...(may.includes(false) ? answers : []), ...(may.includes(true) ? ['INVALID NOT_FOUND'] : [])];
}

function mayDecide(grants: Grant[], wanted: Grant[]): string[] {
  const isGranted = ({ scope, flags }: Grant) => {
    const granted = grants.find((one) => one.scope === scope);
    return granted !== undefined && flags.every((flag) => granted.flags.includes(flag));
  };
  // Where a scope is gone, nobody is granted it.
  const mayBe = ({ scope }: Grant, isThere: boolean) => scope.isThere.may.includes(isThere);
  const isValid = wanted.every((one) => isGranted(one) && mayBe(one, true));
  const isRefused = wanted.some((one) => !isGranted(one) || mayBe(one, false));
  return [...(isValid ? ['VALID'] : []), ...(isRefused ? ['INVALID_SCOPES SCOPE_MISSING'] : [])];
}
