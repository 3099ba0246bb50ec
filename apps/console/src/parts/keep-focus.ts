// Focus that is removed with its element would go to the start of the page, and a screen reader with it: it goes to the table
// that the element stood in, or else to the page.
let focused: Element | undefined;
let around: HTMLElement[] = [];

document.addEventListener('focusin', ({ target }) => {
  focused = target as Element;
  around = ['[role=region]', '#main'].flatMap((one) => focused!.closest<HTMLElement>(one) ?? []);
});

new MutationObserver(() => {
  if (document.activeElement !== document.body || !focused || focused.isConnected) return;
  focused = undefined;
  around.find((one) => one.isConnected)?.focus({ preventScroll: true });
}).observe(document.body, { childList: true, subtree: true });
