import { render } from 'preact';
import '@picocss/pico/css/pico.min.css';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { App } from './app.tsx';
import { Portal } from './portal.tsx';

// One file for both pages: they share most of it.
render(location.pathname === '/portal' ? <Portal /> : <App />, document.body);
