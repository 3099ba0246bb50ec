import { askEarly, SESSION } from './data/call.ts';

// What every page begins with is asked for before the rest of the code runs, which takes a slow machine a tenth of a second.
const [, workspaceId] = /^\/console\/w\/([\w-]+)(?=\/|$)/.exec(location.pathname) ?? [];
if (location.pathname !== '/portal') askEarly(SESSION);
if (workspaceId) askEarly(`/api/v1/workspace/${workspaceId}`);
