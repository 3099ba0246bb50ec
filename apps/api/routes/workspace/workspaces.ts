import { Type, type Static } from 'typebox';
import { invalidField } from '../../../../shared/contract/errors.ts';
import { checkLimits } from '../../../../shared/contract/limits.ts';
import { nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { isTimezone } from '../../../../shared/values/calendar.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { checkedAlerts } from '../../resources/billings/billings.ts';
import { paymentSources } from '../../resources/payments/sources.ts';
import { meters } from '../../resources/meters.ts';
import { webhooks } from '../../resources/webhooks.ts';
import { workspace, workspaces, readWorkspace } from '../../resources/workspaces.ts';

const { name, timezone, keepClientAddresses, ...more } = workspace.properties;

/** What a request sets of a workspace besides its name: the defaults of its keys and billing records, and what it keeps of its calls; in a PATCH, `null` clears one. */
const settings = {
  defaultKeyPrefix: Type.Optional(nullable(more.defaultKeyPrefix)),
  defaultAllowedIPs: Type.Optional(nullable(more.defaultAllowedIPs)),
  defaultRateLimitPerSecond: Type.Optional(nullable(more.defaultRateLimitPerSecond)),
  defaultLimits: Type.Optional(nullable(more.defaultLimits)),
  defaultExpiration: Type.Optional(nullable(more.defaultExpiration)),
  defaultAlerts: Type.Optional(nullable(more.defaultAlerts)),
  branding: more.branding,
  keepClientAddresses: Type.Optional(keepClientAddresses),
  timezone: Type.Optional({
    ...timezone,
    description:
      'name of the time zone (IANA) in whose days and calendar months statements are made; of a new workspace default UTC',
  }),
};

export const createWorkspace = route('post', '/api/v1/workspace', {
  summary: 'Create a workspace',
  description: 'A workspace holds keys, scopes and billing records, and the defaults of its keys.',
  permission: 'workspace:write',
  status: 201,
  grows: true,
  body: object({ name, ...settings }),
  response: object({ workspace }),
  errors: ['workspace_forbidden'],

  async handle({ sql, body, caller, changed }) {
    requireWholeTeam(caller);
    const row = await workspaces.insert(sql, {
      id: newId('ws'),
      teamId: caller.teamId,
      keepClientAddresses: true,
      timezone: 'UTC',
      defaultAllowedIPs: [],
      ...checked(body),
    });
    return { workspace: workspaces.say(changed, { after: row }) };
  },
});

export const listWorkspaces = listRoute('/api/v1/workspace', 'workspaces', workspace, {
  summary: 'List the workspaces that the access token may use',
  description: 'Pages follow by `cursor`, in the order in which the workspaces were made.',
  permission: 'workspace:read',

  async open({ sql, caller }) {
    const isUsable = sql`team_id = ${caller.teamId} and deleted_at is null
      ${caller.workspaceIds ? sql`and id = any(${[...caller.workspaceIds]})` : sql``}`;
    return workspaces.list(sql, isUsable);
  },
});

export const getWorkspace = route('get', '/api/v1/workspace/{id}', {
  summary: 'Get a workspace',
  description: 'Gives the name of a workspace and the defaults of its keys.',
  permission: 'workspace:read',
  response: object({ workspace }),

  async handle({ sql, params, caller }) {
    return { workspace: workspaces.present(await readWorkspace(sql, caller, params.id)) };
  },
});

export const updateWorkspace = route('patch', '/api/v1/workspace/{id}', {
  summary: "Change a workspace's name and the defaults of its keys and billing records",
  description:
    'Defaults hold for every key or billing record without a setting of its own. They are in force before the answer.',
  permission: 'workspace:write',
  body: object({ name: Type.Optional(name), ...settings }),
  response: object({ workspace }),
  errors: ['quota_exceeded'],

  async handle({ sql, params, body, caller, changed }) {
    const before = await readWorkspace(sql, caller, params.id, { lock: true });
    const row = await workspaces.update(sql, before.id, checked(body));
    return { workspace: workspaces.say(changed, { before, after: row }) };
  },
});

export const deleteWorkspace = route('delete', '/api/v1/workspace/{id}', {
  summary: 'Delete a workspace for good: its keys are refused at once, its books stay readable',
  description:
    'Its keys get INVALID at once, and its webhooks are deleted. Its usage, ledger and audit log can still be read.',
  permission: 'workspace:write',
  response: object({ workspace }),

  async handle({ sql, params, caller, changed }) {
    const before = await readWorkspace(sql, caller, params.id, { alone: true });
    // One record in each shard refuses all keys of the workspace. remove-deleted.ts then removes what Redis has of them.
    const row = await workspaces.remove(sql, before.id);
    workspaces.say(changed, { before });
    // The last thing that happens to them.
    await webhooks.end(sql, changed, await webhooks.lockAll(sql, row.id));
    await meters.end(sql, changed, await meters.lockAll(sql, row.id));
    await paymentSources.end(sql, changed, await paymentSources.lockAll(sql, row.id));
    return { workspace: workspaces.present(row) };
  },
});

type Given = Static<ReturnType<typeof object<typeof settings>>> & { name?: string };

/** What a request sets, as it is stored. Throws 400 for what its schema can't tell. */
function checked({ defaultAllowedIPs, defaultAlerts, ...values }: Given) {
  checkLimits('defaultLimits', values.defaultLimits);
  if (values.timezone !== undefined && !isTimezone(values.timezone))
    throw invalidField('/timezone', 'must be the IANA name of a time zone, such as Europe/Berlin');
  return {
    ...values,
    ...(defaultAllowedIPs !== undefined && { defaultAllowedIPs: defaultAllowedIPs ?? [] }),
    defaultAlerts: defaultAlerts && checkedAlerts('defaultAlerts', defaultAlerts),
  };
}
