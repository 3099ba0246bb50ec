import type { ApiRoute } from '../http/route.ts';
import {
  createAccessToken,
  getAccessToken,
  listAccessTokens,
  revokeAccessToken,
} from './access-token/access-tokens.ts';
import importApiKeys from './api-key/import.ts';
import { createApiKey, deleteApiKey, getApiKey, listApiKeys, updateApiKey } from './api-key/keys.ts';
import reportLeakedKeys from './api-key/leaked.ts';
import { rotateApiKey } from './api-key/rotation.ts';
import { cancelVerification, verifyApiKey, verifyApiKeys } from './api-key/verify.ts';
import listAuditLog from './audit-log/list.ts';
import adjustBilling from './customer-billing/adjust.ts';
import { billingLedger, listAlerts, listHolds } from './customer-billing/movements.ts';
import reconcileBilling from './customer-billing/reconciliation.ts';
import { createBilling, getBilling, getBillingById, listBillings, updateBilling } from './customer-billing/records.ts';
import refillBilling from './customer-billing/refill.ts';
import { getStatement } from './customer-billing/statement.ts';
import { createGrantSchedule, deleteGrantSchedule, listGrantSchedules } from './grant-schedule/schedules.ts';
import { createGrant, getGrant, listGrants, voidGrant } from './grant/grants.ts';
import { createJwt, revokeJwt, verifyJwt } from './jwt/jwts.ts';
import { getJwtSettings, updateJwtSettings } from './jwt/settings.ts';
import { jwtDiscovery, jwtKeys, rotateJwtKey, teamJwtKeys } from './jwt/signing-keys.ts';
import { createLinkToken, revokeLinkToken, validateLinkToken } from './link-token/link-tokens.ts';
import {
  getPortal,
  getPortalBilling,
  getPortalStatement,
  listPortalGrants,
  listPortalKeys,
  rotatePortalKey,
} from './portal/portal.ts';
import { leavePortal, openPortal } from './portal/session.ts';
import getPortalUsage from './portal/usage.ts';
import getQuota from './quota/get.ts';
import { createScope, deleteScope, getScope, listScopes, updateScope } from './scope/scopes.ts';
import { createSession, endSession, getSession } from './session/sessions.ts';
import listStatements from './statement/list.ts';
import getUsage from './usage/get.ts';
import { captureHold, extendHold, releaseHold } from './usage/holds.ts';
import listUsage from './usage/list.ts';
import countVerifications from './verification/list.ts';
import recentVerifications from './verification/recent.ts';
import { listWebhookDeliveries, redeliverWebhook, testWebhook } from './webhook/deliveries.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from './webhook/webhooks.ts';
import closeMonth from './workspace/close.ts';
import getWorkspaceProof from './workspace/proof.ts';
import {
  createWorkspace,
  deleteWorkspace,
  getWorkspace,
  listWorkspaces,
  updateWorkspace,
} from './workspace/workspaces.ts';

/** Every operation of the API, in the order of the documentation. */
export const routes: readonly ApiRoute[] = [
  verifyApiKey,
  verifyApiKeys,
  cancelVerification,
  createApiKey,
  importApiKeys,
  listApiKeys,
  getApiKey,
  updateApiKey,
  reportLeakedKeys,
  rotateApiKey,
  deleteApiKey,

  createWorkspace,
  listWorkspaces,
  getWorkspace,
  getWorkspaceProof,
  updateWorkspace,
  deleteWorkspace,
  closeMonth,

  createScope,
  listScopes,
  getScope,
  updateScope,
  deleteScope,

  createBilling,
  listBillings,
  getBilling,
  refillBilling,
  getBillingById,
  adjustBilling,
  updateBilling,
  billingLedger,
  createGrant,
  listGrants,
  getGrant,
  voidGrant,
  listAlerts,
  createGrantSchedule,
  listGrantSchedules,
  deleteGrantSchedule,
  reconcileBilling,
  getStatement,
  listStatements,
  listHolds,
  // Before those with a parameter in their place: a client that goes by the document's order finds them first.
  captureHold,
  releaseHold,
  extendHold,
  getUsage,
  listUsage,
  recentVerifications,
  countVerifications,

  createJwt,
  verifyJwt,
  revokeJwt,
  rotateJwtKey,
  getJwtSettings,
  updateJwtSettings,
  teamJwtKeys,
  jwtDiscovery,
  jwtKeys,

  createLinkToken,
  validateLinkToken,
  revokeLinkToken,

  createAccessToken,
  listAccessTokens,
  getAccessToken,
  revokeAccessToken,

  listAuditLog,

  createWebhook,
  listWebhooks,
  getWebhook,
  listWebhookDeliveries,
  updateWebhook,
  rotateWebhookSecret,
  testWebhook,
  redeliverWebhook,
  deleteWebhook,

  getQuota,
];

/** What the session of a customer opens. No client has them: they take no access token. */
export const portalRoutes: readonly ApiRoute[] = [
  getPortal,
  listPortalKeys,
  rotatePortalKey,
  getPortalUsage,
  getPortalBilling,
  listPortalGrants,
  getPortalStatement,
];

/** Sessions of the console and of the portal, in no document: a script sends its access token, and needs none. */
export const sessionRoutes: readonly ApiRoute[] = [createSession, getSession, endSession, openPortal, leavePortal];
