import { writeFileSync } from 'node:fs';
import { renderGoContract } from './go-contract.ts';
import { renderContract, renderPortalContract } from './node-contract.ts';
import { renderPythonContract } from './python-contract.ts';

/** Renders what clients and the portal's page have of the contract, by path. */
export async function renderClients(): Promise<Record<string, string>> {
  return {
    'clients/node/contract.ts': await renderContract(),
    'apps/console/src/data/portal-contract.ts': await renderPortalContract(),
    ...renderPythonContract(),
    ...renderGoContract(),
  };
}

if (import.meta.main) for (const [path, text] of Object.entries(await renderClients())) writeFileSync(path, text);
