import '@picocss/pico/css/pico.min.css';
import './style.css';
// The page runs it as a file of its own, too, as soon as it is there; first in any case.
import './early.ts';
import './parts/keep-focus.ts';
import { render } from 'preact';
import { App } from './app.tsx';
import { Portal } from './portal.tsx';

// One file for both: they share most of it.
render(location.pathname === '/portal' ? <Portal /> : <App />, document.body);
