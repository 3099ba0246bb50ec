import type { Page } from 'playwright-core';
import { requireInAllLooks } from './browser.ts';

/** The pages of a workspace, and of each the buttons that open a dialog, with its title. */
export type Dialogs = Record<string, (readonly [button: string, title: string])[]>;

/** Opens every dialog. Fails where one breaks a rule of WCAG 2.2 AA or does not fit its window, in light or dark, wide or narrow. */
export async function requireDialogsInAllLooks(page: Page, workspaceUrl: string, all: Dialogs): Promise<void> {
  for (const [path, dialogs] of Object.entries(all)) {
    await page.goto(`${workspaceUrl}/${path}`);
    for (const [button, title] of dialogs) {
      await page.getByRole('button', { name: button, exact: true }).first().click();
      const dialog = page.getByRole('dialog', { name: title, exact: true });
      await dialog.waitFor();
      await dialog.getByText('Loading…').waitFor({ state: 'detached' });
      await requireInAllLooks(page, `dialog-${title.replaceAll(/\W+/g, '-').toLowerCase()}`);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
  }
}
