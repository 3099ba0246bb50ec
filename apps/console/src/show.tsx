import { render } from 'preact';
import { App } from './app.tsx';
import { Portal } from './portal.tsx';

/** Shows the page of the address. One file for both: they share most of it. */
export function show(): void {
  render(location.pathname === '/portal' ? <Portal /> : <App />, document.body);
}
