import type { Contract } from './contract.ts';

export { displayForms } from './contract.ts';

export type Verification = Contract['post /api/v1/api-key/verify']['output'];
export type Status = Verification['status'];
