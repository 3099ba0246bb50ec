import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { freePorts } from '../../../apps/stack/process/ports.ts';
import { linkCheckout, type LinkedCheckout } from './linked-checkout.ts';
import { blocksOf, readPages, type Block } from './pages.ts';

type Guide = {
  page: string;
  /** The fence of the program, and the file that the page says to save it as. */
  program: { language: string; file: string };
  env: NodeJS.ProcessEnv;
};

// The port of the page may be another program's.
const PORT_OF_PAGE = '3000';
// On a busy machine a verification may take longer than its second: then a request is answered 503.
const TRIES = 20;
const NEXT_TRY = 'next try';

/** Follows the first section of a guide as a new user does: its commands as they stand, its program saved where it says. */
export function testGuide({ page, program, env }: Guide): void {
  const test = suite(page);
  let run: LinkedCheckout['run'];
  test.before(async () => void ({ run } = await linkCheckout()));
  test.after(async () => void (await run('sh', 'make down')));

  test(`${page}: its steps protect an API as they stand`, async () => {
    const { text = '' } = readPages().find(({ path }) => path === page) ?? {};
    const [, steps = ''] = /^(## .+, step by step\n[^]*?)^## /m.exec(text) ?? [];
    const blocks = blocksOf({ path: page, text: steps });
    const saved = blocks.findIndex(({ language }) => language === program.language);
    const found = blocks.flatMap(({ language }, i) => (i === saved ? [] : [language]));
    assert.equal(found, Array<string>(blocks.length - 1).fill('sh'));
    const textOf = (some: Block[]) => some.map((block) => block.text).join('\n');
    const prepare = `${textOf(blocks.slice(0, saved))}\ncat > ${program.file} <<'END'\n${blocks[saved]!.text}END\n`;
    const answers = ['HTTP/1.1 200 ', 'Hello cus_acme', 'HTTP/1.1 401 '];
    const isDone = answers.map((answer) => `grep -q '${answer}' tried`).join(' && ');
    const once = `{\n${textOf(blocks.slice(saved + 1))}\nwait\n} > tried\necho '${NEXT_TRY}'\ncat tried`;
    const tries = `for i in $(seq ${TRIES}); do\n${once}\n${isDone} && break\ndone`;
    const port = String((await freePorts(1))[0]);
    const script = [prepare, tries].join('\n').replaceAll(PORT_OF_PAGE, port);
    const { code, out, err } = await run('sh', script, { ...env, PORT: port });
    const outputs = out.replaceAll('\r', '').replaceAll('HTTP/', '\nHTTP/').split(NEXT_TRY).slice(1);
    const isAsTold = (output: string, i: number) => {
      const used = Number(/"usedCredits":"([\d.]+)"/.exec(output)?.[1]);
      const wanted = [/^HTTP\/1\.1 200 /m, /^Hello cus_acme/m, /^HTTP\/1\.1 401 /m];
      // A request that was answered 503 may have been debited, or not.
      return wanted.every((one) => one.test(output)) && used >= 0.25 && used <= 0.25 * (i + 1);
    };
    assert.ok(code === 0 && outputs.some(isAsTold), `exit code ${code}:\n${out}\n${err}`);
  });
}
