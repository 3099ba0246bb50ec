import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';

// A page by its keyboard alone: Tab, Enter, Space, Escape, arrows and letters.

const MOST_STOPS = 200;

/** The name of what has the focus. */
export function focused(page: Page): Promise<string> {
  return page.evaluate<string>(
    `(() => { const at = document.activeElement; return (at?.labels?.[0]?.innerText ?? at?.getAttribute('aria-label') ?? at?.innerText ?? '').trim(); })()`,
  );
}

/** Presses Tab until the thing of this name has the focus. */
export async function tabTo(page: Page, name: string): Promise<void> {
  await page.getByText(name).or(page.getByLabel(name)).filter({ visible: true }).first().waitFor();
  for (let i = 0; i < MOST_STOPS; i++) {
    if ((await focused(page)) === name) return;
    await page.keyboard.press('Tab');
  }
  assert.unreachable(`Tab does not lead to ${name}`);
}

/** Follows a link or presses a button. */
export async function press(page: Page, name: string): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press('Enter');
}

/** Closes a dialog. It then gives the focus back, which must not happen between the next Tab and Enter. */
export async function pressClose(page: Page): Promise<void> {
  await press(page, 'Close');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
}

/** Ticks a box, or takes its tick away. */
export async function tick(page: Page, name: string): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press('Space');
}

/** Types into a field, in the place of what it holds; into a choice the letters of an option. */
export async function type(page: Page, name: string, text: string): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.type(text);
}

/** Types into fields, and sends their form by Enter. */
export async function fill(page: Page, fields: Record<string, string>): Promise<void> {
  for (const [name, text] of Object.entries(fields)) await type(page, name, text);
  await page.keyboard.press('Enter');
}

/** Opens a dialog by its button, fills it in, and sends it. */
export async function answer(
  page: Page,
  button: string,
  dialog: string,
  fields: Record<string, string>,
): Promise<void> {
  await press(page, button);
  const form = page.getByRole('dialog', { name: dialog, exact: true });
  await form.waitFor();
  await fill(page, fields);
  await form.waitFor({ state: 'detached' });
}

/** Does what is asked about again. */
export async function confirm(page: Page, button: string, submit: string): Promise<void> {
  await press(page, button);
  await page.getByRole('dialog').waitFor();
  await press(page, submit);
  await page.getByRole('dialog').waitFor({ state: 'detached' });
}
