import { named } from '../http/route.ts';
import {
  createAccessToken,
  deleteAccessToken,
  getAccessToken,
  listAccessTokens,
} from './access-token/access-tokens.ts';
import { importKeys } from './api-key/import.ts';
import { createKey, deleteKey, getKey, listKeys, updateKey } from './api-key/keys.ts';
import { reportLeakedSecrets } from './api-key/leaked.ts';
import { endEarlierSecrets, rotateKey } from './api-key/rotation.ts';
import { cancelVerification, captureHold, extendHold, releaseHold, verifyKey, verifyKeys } from './api-key/verify.ts';
import { listAuditLog } from './audit-log/list.ts';
import { adjustBilling } from './customer-billing/adjust.ts';
import { listAlerts, listHolds, listLedger, refillBilling } from './customer-billing/movements.ts';
import { reconcileBilling } from './customer-billing/reconciliation.ts';
import {
  createBilling,
  getBilling,
  getBillingOfMeter,
  listBillings,
  updateBilling,
} from './customer-billing/records.ts';
import { getStatement } from './customer-billing/statement.ts';
import { createGrantSchedule, deleteGrantSchedule, listGrantSchedules } from './grant-schedule/schedules.ts';
import { createGrant, getGrant, listGrants, voidGrant } from './grant/grants.ts';
import { createJwt, revokeJwt, verifyJwt } from './jwt/jwts.ts';
import {
  getJwtSettings,
  getOpenIdConfiguration,
  getSharedKeySet,
  getTeamKeySet,
  rotateSigningKey,
  updateJwtSettings,
} from './jwt/signing-keys.ts';
import { createLinkToken, deleteLinkToken, getLinkToken } from './link-token/link-tokens.ts';
import {
  getPortal,
  getPortalBilling,
  getPortalStatement,
  getPortalUsage,
  listPortalGrants,
  listPortalKeys,
  rotatePortalKey,
} from './portal/portal.ts';
import {
  createMeterDestination,
  deleteMeterDestination,
  getMeterDestination,
  listMeterDestinations,
  updateMeterDestination,
} from './meter-destination/destinations.ts';
import {
  getMeterProof,
  listMeterEvents,
  previewMeterEvents,
  redeliverMeterEvents,
} from './meter-destination/events.ts';
import { createPlan, deletePlan, getPlan, listPlans, updatePlan } from './plan/plans.ts';
import { applyPayment, hearPayment, listPayments } from './payment-source/payments.ts';
import {
  createPaymentSource,
  deletePaymentSource,
  getPaymentSource,
  listPaymentSources,
  updatePaymentSource,
} from './payment-source/sources.ts';
import { getQuota } from './quota/get.ts';
import { createScope, deleteScope, getScope, listScopes, updateScope } from './scope/scopes.ts';
import {
  askProvider,
  createSession,
  createSessionCode,
  deleteSession,
  enterByCode,
  enterByProvider,
  getSession,
  leavePortal,
  openPortal,
} from './session/sessions.ts';
import { listStatements } from './statement/list.ts';
import { getUsage } from './usage/get.ts';
import { listUsage } from './usage/list.ts';
import { countVerifications, listRecentVerifications } from './verification/verifications.ts';
import { listWebhookDeliveries, redeliverWebhook, testWebhook } from './webhook/deliveries.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from './webhook/webhooks.ts';
import { closeMonth, getWorkspaceProof } from './workspace/books.ts';
import {
  createWorkspace,
  deleteWorkspace,
  getWorkspace,
  listWorkspaces,
  updateWorkspace,
} from './workspace/workspaces.ts';

/** Every operation of the API, in the order of the documentation. */
export const routes = named({
  verifyKey,
  verifyKeys,
  cancelVerification,
  createKey,
  importKeys,
  listKeys,
  getKey,
  updateKey,
  reportLeakedSecrets,
  rotateKey,
  endEarlierSecrets,
  deleteKey,

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
  getBillingOfMeter,
  refillBilling,
  getBilling,
  adjustBilling,
  updateBilling,
  listLedger,
  createGrant,
  listGrants,
  getGrant,
  voidGrant,
  listAlerts,
  createGrantSchedule,
  listGrantSchedules,
  deleteGrantSchedule,
  createPlan,
  listPlans,
  getPlan,
  updatePlan,
  deletePlan,
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
  listRecentVerifications,
  countVerifications,

  createJwt,
  verifyJwt,
  revokeJwt,
  rotateSigningKey,
  getJwtSettings,
  updateJwtSettings,
  getTeamKeySet,
  getOpenIdConfiguration,
  getSharedKeySet,

  createLinkToken,
  getLinkToken,
  deleteLinkToken,

  createAccessToken,
  listAccessTokens,
  getAccessToken,
  deleteAccessToken,

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

  createMeterDestination,
  listMeterDestinations,
  getMeterDestination,
  updateMeterDestination,
  listMeterEvents,
  redeliverMeterEvents,
  previewMeterEvents,
  getMeterProof,
  deleteMeterDestination,

  createPaymentSource,
  listPaymentSources,
  getPaymentSource,
  updatePaymentSource,
  listPayments,
  applyPayment,
  deletePaymentSource,

  getQuota,
});

/** What the session of a customer opens. No client has them: they take no access token. */
export const portalRoutes = named({
  getPortal,
  listPortalKeys,
  rotatePortalKey,
  getPortalUsage,
  getPortalBilling,
  listPortalGrants,
  getPortalStatement,
});

/** What others send, and sign. No client has it. */
export const signedRoutes = named({ hearPayment });

/** Sessions of the console and of the portal, in no document: a script sends its access token, and needs none. */
export const sessionRoutes = named({
  createSession,
  createSessionCode,
  enterByCode,
  askProvider,
  enterByProvider,
  getSession,
  deleteSession,
  openPortal,
  leavePortal,
});
