// Every `sh` block of every page, run as it stands on a stack that `make up` started: by bash, and by sh, which knows least.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { linkCheckout, type LinkedCheckout } from './helpers/linked-checkout.ts';
import { blocksOf, readPages, type Block } from './helpers/pages.ts';

// These need a gateway, a framework or a language beside the stack: tests/gateways, guides.*.test.ts and tests of the clients run them.
// The client's README installs a package: run here, npm would follow the links and add it to this checkout's package.json.
const guides = ['gateways', 'protect-node', 'protect-python', 'protect-go'].map((name) => `docs/${name}.md`);
const runElsewhere = [...guides, 'clients/node/README.md'];
// Some blocks show what is in the books two seconds later.
const TRIES = 5;
const SEPARATOR = '\u001e';

let run: LinkedCheckout['run'];

test.before(async () => void ({ run } = await linkCheckout()));
test.after(async () => void (await run('sh', 'make down')));

for (const page of readPages()) {
  const blocks = blocksOf(page).filter(({ language }) => language === 'sh');
  if (blocks.length === 0 || runElsewhere.includes(page.path)) continue;
  // Stopping and starting the stack takes long, and make does it: once is enough.
  const shells = blocks.some(({ text }) => text.includes('make down')) ? ['sh'] : ['bash', 'sh'];
  test(`${page.path}: every block works in ${shells.join(' and ')}, and prints what the page says`, async () => {
    await Promise.all(shells.map((shell) => requireWorking(shell, blocks)));
  });
}

for (const shell of ['bash', 'sh'])
  test(`${shell} shows the 401 of a wrong token and the field that an answer lacks, and takes nothing of it into a variable`, async () => {
    const { code, out, err } = await run(
      shell,
      `. .keytally/env; . docs/api.sh; KEYTALLY_TOKEN=kt_wrong
      ID=$(api POST /api/v1/workspace -d '{"name": "x"}' | field workspace.id) || echo "failed, and ID is '$ID'"
      verify '{"key": "key_x"}' || echo failed
      echo '{"a":{"b":1}}' | field a.c || echo failed`,
    );
    assert.equal([code, out], [0, "failed, and ID is ''\nfailed\nfailed\n"]);
    assert.is(err.match(/^\{"error":\{"code":40102,"message":".+\}$/gm)?.length, 2, err);
    assert.match(err, /^field: no a\.c in this answer: \{"a":\{"b":1\}\}$/m);
    assert.not.match(err, /at .*\(|SyntaxError|TypeError/);
  });

async function requireWorking(shell: string, blocks: Block[]): Promise<void> {
  let problem: string | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    problem = await tryBlocks(shell, blocks);
    if (problem === undefined) return;
  }
  throw new Error(`${shell}: ${problem}`);
}

async function tryBlocks(shell: string, blocks: Block[]): Promise<string | undefined> {
  const script = blocks.map(({ text }) => `printf '\\036'\n${text}`).join('\n');
  const { code, out, err } = await run(shell, script);
  const outputs = out.split(SEPARATOR).slice(1);
  for (const [i, { text, expected }] of blocks.entries()) {
    const output = outputs[i];
    if (output === undefined) break;
    if (expected !== undefined && !matches(output, expected) && (code === 0 || i < outputs.length - 1))
      return `this block:\n${text}\nprinted:\n${output}\nand not:\n${expected}`;
  }
  return code === 0 ? undefined : `exit code ${code} in this block:\n${blocks[outputs.length - 1]?.text}\n${err}${out}`;
}

function matches(output: string, expected: string): boolean {
  const parts = expected.trim().split('…').map(RegExp.escape);
  return new RegExp(`^${parts.join('[^]*?')}$`).test(output.replaceAll('\r\n', '\n').trim());
}
