import './parts/keep-focus.ts';
import { render } from 'preact';
import { LocationProvider } from 'preact-iso/router';
import { App } from './app.tsx';
import { Portal } from './portal.tsx';

// One file for both: they share most of it.
const portal = (
  <LocationProvider scope="/portal">
    <Portal />
  </LocationProvider>
);
render(location.pathname === '/portal' ? portal : <App />, document.body);
