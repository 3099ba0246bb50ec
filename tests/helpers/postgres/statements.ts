import { wireTo, type Wire } from '../wire.ts';

/** A wire to Postgres that notes the statements of the transactions that end on it. */
export type StatementsWire = Wire & {
  /** The statements of each transaction that has ended, in order; `begin` and `commit` are among them. */
  transactions: string[][];
};

// Frontend messages of the protocol, version 3: parse, bind, execute, a statement as text.
const [PARSE, BIND, EXECUTE, QUERY] = ['P', 'B', 'E', 'Q'];
const HEAD_BYTES = 5;

/** Puts a wire before Postgres that notes what runs in each transaction. */
export async function wireToPostgres(url: string): Promise<StatementsWire> {
  const transactions: string[][] = [];
  return { ...(await wireTo(url, () => tapOf(transactions))), transactions };
}

function tapOf(transactions: string[][]): (bytes: Buffer) => void {
  const prepared = new Map<string, string>();
  let rest = Buffer.alloc(0);
  let started = false;
  let bound = '';
  let open: string[] | undefined;

  function run(text: string): void {
    if (/^begin/i.test(text)) open = [];
    open?.push(text);
    if (!open || !/^(commit|rollback)$/i.test(text)) return;
    transactions.push(open);
    open = undefined;
  }

  function note(type: string, body: Buffer): void {
    const [first = '', second = ''] = body.toString('utf8').split('\0');
    if (type === PARSE) prepared.set(first, second);
    else if (type === BIND) bound = prepared.get(second) ?? '';
    else if (type === EXECUTE) run(bound);
    else if (type === QUERY) run(first);
  }

  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    // The first message of a connection has no type.
    while (rest.length >= HEAD_BYTES) {
      const type = started ? rest.toString('latin1', 0, 1) : '';
      const end = rest.readInt32BE(type.length) + type.length;
      if (rest.length < end) return;
      note(type, rest.subarray(HEAD_BYTES, end));
      started = true;
      rest = rest.subarray(end);
    }
  };
}
