import { requirePublic, signedIn } from './helpers/browser.ts';
import { requireDialogsInAllLooks } from './helpers/dialogs.ts';
import { shownSuite } from './helpers/shown-suite.ts';

// How dialogs of a customer's credits look.

const { test, own } = shownSuite('dialogs of credits in the console');

test('every dialog of credits keeps to WCAG 2.2 AA and fits its window, in light and dark, wide and narrow', async () => {
  const { page, asked, close } = await signedIn(own.browser, own.world);
  await requireDialogsInAllLooks(page, `${own.world.api.url}/console/w/${own.shown.workspaceId}`, {
    [`customers/${own.shown.billingId}`]: [
      ['Refill', 'Refill'],
      ['Grant credits', 'Grant credits'],
      ['Overage and cap', 'Overage and cap'],
      ['Void campaign in spring', 'Void the grant'],
      ['New schedule', 'New schedule'],
      ['Delete the schedule included', 'Delete the schedule'],
    ],
  });
  await requirePublic(own.world, asked);
  await close();
});

test.run();
