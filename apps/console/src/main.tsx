import './parts/keep-focus.ts';
import { render } from 'preact';
import { App } from './app.tsx';
import { Portal } from './portal.tsx';

// One file for both: they share most of it.
render(location.pathname === '/portal' ? <Portal /> : <App />, document.body);
