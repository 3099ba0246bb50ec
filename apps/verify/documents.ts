import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../shared/contract/errors.ts';
import { openApi } from '../../shared/contract/openapi.ts';
import { makeDocs } from '../../shared/http/docs.ts';
import type { Probe } from '../../shared/http/probes.ts';
import { operations } from './calls.ts';
import { gatewayPaths } from './gateway/openapi.ts';

export type DocumentOptions = {
  probe: Probe;
  /** Whether it serves /docs and /openapi.json. */
  hasDocs: boolean;
  publicUrl: string;
};

/** Answers what needs no token: probes, metrics and documents. Any other path is a 404. */
export function makeDocuments({ probe, hasDocs, publicUrl }: DocumentOptions) {
  const servers = [{ url: publicUrl, description: 'Verify' }];
  const docs = hasDocs ? makeDocs(servers, () => openApi(operations, servers, gatewayPaths)) : () => undefined;

  return async function documents(request: IncomingMessage, path: string) {
    const found = (await probe(path)) ?? docs(path, request.headers);
    if (!found) throw new ApiError('route_not_found');
    if (request.method === 'GET' || request.method === 'HEAD') return found;
    throw new ApiError('method_not_allowed', { headers: { Allow: 'GET, HEAD' } });
  };
}
