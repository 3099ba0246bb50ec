export { each, keytally, type ClientOptions, type Keytally } from './client.ts';
export type { Contract } from './contract.ts';
export { KeytallyError } from './error.ts';
export type { CallOptions } from './send.ts';
export { displayForms, type Status, type Verification } from './status.ts';
