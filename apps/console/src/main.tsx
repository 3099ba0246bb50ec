import '@picocss/pico/css/pico.min.css';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { askEarly, SESSION } from './data/call.ts';

// What every page begins with is asked for before the rest of this file runs, which takes a slow machine a tenth of a second.
const [, workspaceId] = /^\/console\/w\/([\w-]+)(?=\/|$)/.exec(location.pathname) ?? [];
if (location.pathname !== '/portal') askEarly(SESSION);
if (workspaceId) askEarly(`/api/v1/workspace/${workspaceId}`);
const { show } = await import('./show.tsx');
show();
