import { ApiError } from '../../../shared/contract/errors.ts';
import { newId } from '../../../shared/values/ids.ts';
import type { Json } from '../programs.ts';
import { answered, type Asking, type Decided } from '../clients.ts';
import type { Parts } from '../work.ts';

/** How often they are. */
export const batchKinds = { batch: 3 };

const WRONG = { key: 'none', billing: { usage: '-1' } };

/** Several verifications in one call, of any kind of key, some of them twice: each is held to what it would be answered alone. */
export function makeBatches(
  { simulation, home, fleet, breaks, verify, verifyAlike }: Parts,
  others: ((asking: Asking) => Promise<void>)[],
) {
  const { random } = simulation;
  const ofAccounts = [verify.bind(undefined, undefined), (asking: Asking) => verify(newId('evt'), asking), verifyAlike];
  const kinds = [...ofAccounts, ...others];

  async function batch(): Promise<void> {
    const verifying = random.chance(0.2) ? fleet.api() : fleet.verify();
    if (!verifying) return;
    const verifications: Json[] = [];
    const sent = Promise.withResolvers<Json[]>();
    sent.promise.catch(() => {});
    const asking: Asking = (body, idempotencyKey) => {
      const place = verifications.push({ ...body, ...(idempotencyKey && { idempotencyKey }) }) - 1;
      return async () => decidedOf((await sent.promise)[place]);
    };
    const decided = Array.from({ length: 2 + random.below(5) }, () => random.pick(kinds)(asking));
    const wrongAt = random.chance(0.3) ? verifications.push(WRONG) - 1 : undefined;
    if (verifications.length === 0) return;
    const { caller } = home;
    const call = { caller, verifications, clientAddress: '192.0.2.1', requestId: '', header: () => undefined };
    answered(verifying.process, verifying.verifyBatch(call)).then(
      (text) => sent.resolve(JSON.parse(text).results),
      sent.reject,
    );
    await Promise.all(decided);
    const results = await sent.promise.catch(() => undefined);
    if (results && wrongAt !== undefined && results[wrongAt].error?.code !== 40001)
      breaks(`a verification that costs less than nothing was answered ${JSON.stringify(results[wrongAt])}`);
  }

  return { actions: { batch } };
}

function decidedOf(result: Json): Decided {
  const { error, status, reason = '' } = result;
  if (!error) return { status, reason, body: JSON.stringify(result) };
  if (error.code >= 50300 && error.code < 50400) throw new ApiError('undecided', { message: error.message });
  throw new Error(`a verification of a batch failed with ${error.code} ${error.message}`);
}
