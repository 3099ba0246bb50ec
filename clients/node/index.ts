export { each, keytally, type ClientOptions, type Keytally } from './client.ts';
export type { Contract } from './contract.ts';
export { KeytallyError } from './error.ts';
export { fastifyGuard, honoGuard, koaGuard, nodeGuard } from './frameworks.ts';
export { identityOf, type Cost, type GuardOptions, type Identity } from './guard.ts';
export { keepUsage, type KeptUsage, type KeptUsageOptions, type VerifyInput } from './kept-usage.ts';
export { keysOf } from './key.ts';
export type { CallOptions } from './send.ts';
export { displayForms, type Status, type Verification } from './status.ts';
