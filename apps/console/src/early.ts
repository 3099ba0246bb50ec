import { askEarly, askSessionEarly } from './data/call.ts';
import { askOverviewEarly } from './pages/overview/questions.ts';

// What every page begins with, and what the overview shows, is asked for while the browser still reads the rest of the code,
// which takes a slow machine a tenth of a second.
const [, workspaceId] = /^\/console\/w\/([\w-]+)(?=\/|$)/.exec(location.pathname) ?? [];
// Whoever reads the session tells of its problem.
if (location.pathname !== '/portal') askSessionEarly().then(askOverviewEarly, () => {});
if (workspaceId) void askEarly(`/api/v1/workspace/${workspaceId}`);
