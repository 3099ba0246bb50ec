import type { ApiRoute } from '../route.ts';
import verifyApiKey from './api-key.verify.ts';
import createWorkspace from './workspace.create.ts';
import getWorkspace from './workspace.get.ts';
import listWorkspaces from './workspace.list.ts';
import updateWorkspace from './workspace.update.ts';

/** The whole API on one page. */
export const routes: readonly ApiRoute[] = [
  verifyApiKey,

  createWorkspace,
  listWorkspaces,
  getWorkspace,
  updateWorkspace,
];
