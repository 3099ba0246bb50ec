import '@picocss/pico/css/pico.min.css';
import 'uplot/dist/uPlot.min.css';
import './style.css';
// First, for what it asks. Not by a later import(): in one file that wraps all other code in functions, which the browser
// then reads twice.
import './early.ts';
import { show } from './show.tsx';

show();
