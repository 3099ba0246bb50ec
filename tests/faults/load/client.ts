import { Agent, request } from 'node:http';

export type Reply = {
  /** Absent without an answer: it is then unknown whether the request was executed. */
  http?: number;
  body: Body;
  error?: string;
};
/** The fields of answers that are read here. */
export type Body = {
  workspace?: { id: string; name: string };
  apiKey?: { id: string; key: string; name: string; enabled: boolean; deleted: boolean };
  accessToken?: { id: string; token: string };
  billing?: Billing;
  data?: { billingId?: string; day: string; billingUsageName: string; totalBillingUsage: string; events: number }[];
  statements?: {
    billingId: string;
    openingUsed: string;
    usage: string;
    adjustments: string;
    late: string;
    closingUsed: string;
    proof: string;
  }[];
  ledger?: { amount: string }[];
  reconciliation?: { status: string; losses: { events: number }[]; grants?: { difference: string } };
  grant?: { id: string };
  grantSchedule?: { id: string };
  grants?: {
    id: string;
    name?: string;
    state: string;
    credits: string;
    usedCredits: string;
    expiredCredits: string;
    remainingCredits: string;
  }[];
  hold?: { id: string };
  limitedBy?: { on: string; name: string };
  nextCursor?: string;
  status?: string;
  reason?: string;
  error?: { code: number };
  /** Of an import, or of a batch of verifications. */
  results?: Body[];
};
export type Billing = {
  id: string;
  totalCredits: string;
  usedCredits: string;
  availableCredits: string;
  heldCredits: string;
  expiredCredits: string;
  allowOverages: boolean;
  spendCap?: string;
};

type Options = { token: string; body?: unknown; headers?: Record<string, string>; withinMs?: number };

// The service has a shorter deadline and answers before this, but an answer that is lost would never come.
const WITHIN_MS = 10_000;

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Sends one HTTP request once; gives its outcome, whatever it is. */
export async function call(method: string, url: string, options: Options): Promise<Reply> {
  const { token, body, headers, withinMs = WITHIN_MS } = options;
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve) => {
    const fail = (error: Error & { code?: string }) => resolve({ body: {}, error: error.code ?? error.message });
    const sent = request(url, {
      method: method.toUpperCase(),
      agent,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(text !== undefined && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
        ...headers,
      },
    });
    const timer = setTimeout(() => sent.destroy(new Error('no answer')), withinMs);
    sent.on('close', () => clearTimeout(timer)).on('error', fail);
    sent.on('response', (response) => {
      let answer = '';
      response.setEncoding('utf8').on('data', (piece: string) => (answer += piece));
      response.on('error', fail).on('aborted', () => fail(new Error('cut short')));
      response.on('end', () => {
        if (!response.complete) return fail(new Error('cut short'));
        resolve({ http: response.statusCode!, body: parsed(answer) });
      });
    });
    sent.end(text);
  });
}

function parsed(text: string): Body {
  try {
    return JSON.parse(text) as Body;
  } catch {
    return {};
  }
}
