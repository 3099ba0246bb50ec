import type { ApiRoute } from '../http/route.ts';
import createAccessToken from './access-token/create.ts';
import revokeAccessToken from './access-token/delete.ts';
import getAccessToken from './access-token/get.ts';
import listAccessTokens from './access-token/list.ts';
import createApiKey from './api-key/create.ts';
import deleteApiKey from './api-key/delete.ts';
import getApiKey from './api-key/get.ts';
import reportLeakedKeys from './api-key/leaked.ts';
import importApiKeys from './api-key/import.ts';
import listApiKeys from './api-key/list.ts';
import rotateApiKey from './api-key/rotate.ts';
import updateApiKey from './api-key/update.ts';
import cancelVerification from './api-key/cancel.ts';
import verifyApiKeys from './api-key/verify-batch.ts';
import verifyApiKey from './api-key/verify.ts';
import listAuditLog from './audit-log/list.ts';
import listAlerts from './customer-billing/alerts.ts';
import adjustBilling from './customer-billing/adjust.ts';
import createBilling from './customer-billing/create.ts';
import getBilling from './customer-billing/get.ts';
import getBillingById from './customer-billing/get-by-id.ts';
import listHolds from './customer-billing/holds.ts';
import listBillings from './customer-billing/list.ts';
import billingLedger from './customer-billing/ledger.ts';
import getStatement from './customer-billing/statement.ts';
import reconcileBilling from './customer-billing/reconciliation.ts';
import refillBilling from './customer-billing/refill.ts';
import updateBilling from './customer-billing/update.ts';
import createGrant from './grant/create.ts';
import getGrant from './grant/get.ts';
import listGrants from './grant/list.ts';
import voidGrant from './grant/void.ts';
import createGrantSchedule from './grant-schedule/create.ts';
import deleteGrantSchedule from './grant-schedule/delete.ts';
import listGrantSchedules from './grant-schedule/list.ts';
import createJwt from './jwt/create.ts';
import jwtDiscovery from './jwt/discovery.ts';
import jwtKeys from './jwt/keys.ts';
import revokeJwt from './jwt/revoke.ts';
import rotateJwtKey from './jwt/rotate.ts';
import getJwtSettings from './jwt/settings.ts';
import teamJwtKeys from './jwt/team-keys.ts';
import updateJwtSettings from './jwt/update-settings.ts';
import verifyJwt from './jwt/verify.ts';
import createLinkToken from './link-token/create.ts';
import revokeLinkToken from './link-token/delete.ts';
import validateLinkToken from './link-token/get.ts';
import getPortalBilling from './portal/billing.ts';
import getPortal from './portal/get.ts';
import listPortalGrants from './portal/grants.ts';
import listPortalKeys from './portal/keys.ts';
import leavePortal from './portal/leave.ts';
import openPortal from './portal/open.ts';
import rotatePortalKey from './portal/rotate.ts';
import getPortalStatement from './portal/statement.ts';
import getPortalUsage from './portal/usage.ts';
import getQuota from './quota/get.ts';
import createScope from './scope/create.ts';
import deleteScope from './scope/delete.ts';
import getScope from './scope/get.ts';
import listScopes from './scope/list.ts';
import updateScope from './scope/update.ts';
import createSession from './session/create.ts';
import endSession from './session/delete.ts';
import getSession from './session/get.ts';
import captureHold from './usage/capture.ts';
import extendHold from './usage/extend.ts';
import getUsage from './usage/get.ts';
import listUsage from './usage/list.ts';
import releaseHold from './usage/release.ts';
import createWebhook from './webhook/create.ts';
import deleteWebhook from './webhook/delete.ts';
import listWebhookDeliveries from './webhook/deliveries.ts';
import getWebhook from './webhook/get.ts';
import listWebhooks from './webhook/list.ts';
import redeliverWebhook from './webhook/redeliver.ts';
import rotateWebhookSecret from './webhook/rotate.ts';
import testWebhook from './webhook/send-test.ts';
import updateWebhook from './webhook/update.ts';
import countVerifications from './verification/list.ts';
import recentVerifications from './verification/recent.ts';
import closeMonth from './workspace/close.ts';
import listStatements from './statement/list.ts';
import createWorkspace from './workspace/create.ts';
import deleteWorkspace from './workspace/delete.ts';
import getWorkspace from './workspace/get.ts';
import listWorkspaces from './workspace/list.ts';
import getWorkspaceProof from './workspace/proof.ts';
import updateWorkspace from './workspace/update.ts';

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
