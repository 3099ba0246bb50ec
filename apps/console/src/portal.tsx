import { useEffect, useRef, useState } from 'preact/hooks';
import { call, leavePortal, openPortal, Problem, type Output } from './data/call.ts';
import { usePages, useRead } from './data/hooks.ts';
import { EndedContext, useLeave } from './data/session.ts';
import { Credits } from './pages/customers/credits.tsx';
import { StatementOfMonth } from './pages/customers/books.tsx';
import { Grants, readGrants } from './pages/customers/grants.tsx';
import { UsageByDay } from './pages/customers/usage.tsx';
import { Rotate } from './pages/keys/key.tsx';
import { KeyState } from './pages/keys/keys.tsx';
import { Page } from './parts/page.tsx';
import { PagedTable, type Column } from './parts/table.tsx';
import { ProblemNote, Time } from './parts/text.tsx';

type Opened = Output<'get /api/v1/portal'>['portal'];
type Key = Output<'get /api/v1/portal/keys'>['apiKeys'][number];

const LOOK_EVERY_MS = 30_000;
const TITLE = 'Your API keys and usage';

/** The portal: what a customer sees who has opened a link. */
export function Portal() {
  const [opened, setOpened] = useState<Opened | Problem | 'left'>();
  // Kept while the server has not taken it, for another try.
  const link = useRef('');
  const read = async (onProblem: (problem: Problem) => void) => {
    try {
      if (link.current) await openPortal(link.current);
      link.current = '';
      setOpened((await call('get /api/v1/portal', {})).portal);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      onProblem(error);
    }
  };
  const begin = () => read(setOpened);
  const { leave, problem } = useLeave(leavePortal, () => setOpened('left'));
  useEffect(() => {
    const look = () => {
      if (location.hash.startsWith('#lt_')) {
        link.current = location.hash.slice(1);
        // Out of the address and the history, before anything else happens.
        history.replaceState(null, '', '/portal');
        setOpened(undefined);
      }
      void begin();
    };
    look();
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  const isOpen = opened !== undefined && opened !== 'left' && !(opened instanceof Problem);
  useEffect(() => {
    if (!isOpen) return undefined;
    // A page that was left open shows nothing of a link that has ended. While the server can't be asked, it stays as it is.
    const look = () => read((problem) => problem.status === 401 && setOpened(problem));
    const timer = setInterval(look, LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [isOpen]);

  if (opened === undefined) return <main class="narrow" aria-busy="true" />;
  if (!isOpen) return <Closed why={opened} onRetry={begin} />;
  return (
    <EndedContext.Provider value={begin}>
      <div class="frame">
        <a class="skip" href="#main">
          Skip to the page
        </a>
        <header class="top">
          <span class="workspace" title={opened.customerId}>
            {opened.customerId}
          </span>
          <button type="button" class="outline secondary end" onClick={leave}>
            Leave
          </button>
        </header>
        <ProblemNote problem={problem} />
        <main id="main" tabIndex={-1}>
          {/* Another link may have been opened in another tab: nothing of the one before stays. */}
          <Page key={`${opened.customerId} ${opened.expiresAt}`} title={TITLE}>
            <p class="muted">
              Open until <Time at={opened.expiresAt} />.
            </p>
            {opened.hasBalance && <Balance />}
            <Keys mayRotate={opened.permissions.includes('rotate')} />
            <UsageByDay
              on=""
              read={async (days, signal) => (await call('get /api/v1/portal/usage', days, signal)).data}
              empty="Nothing was used in these days. What your keys use shows here within seconds."
            />
            {opened.hasBalance && (
              <StatementOfMonth
                on="portal"
                read={(month, signal) => call('get /api/v1/portal/statement', { month }, signal)}
                path="/api/v1/portal/statement"
              />
            )}
          </Page>
        </main>
      </div>
    </EndedContext.Provider>
  );
}

function Closed({ why, onRetry }: { why: Problem | 'left'; onRetry(): void }) {
  const isOver = why === 'left' || why.status === 401;
  useEffect(() => void (document.title = TITLE), []);
  return (
    <main class="narrow">
      <h1>{TITLE}</h1>
      {why === 'left' ? <p>You have left. Open your link again to come back.</p> : <ProblemNote problem={why} />}
      {!isOver && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </main>
  );
}

function Keys({ mayRotate }: { mayRotate: boolean }) {
  const [rotated, setRotated] = useState<Key>();
  const { reload, ...pages } = usePages(async (cursor, signal) => {
    const page = await call('get /api/v1/portal/keys', { limit: 200, ...(cursor && { cursor }) }, signal);
    return { items: page.apiKeys, nextCursor: page.nextCursor };
  }, []);
  const columns: Column<Key>[] = [
    {
      title: 'Name',
      width: '30%',
      cell: ({ name }) => <span title={name}>{name}</span>,
      isMain: true,
      below: ({ maskedKey }) => maskedKey,
    },
    { title: 'Key', cell: ({ maskedKey }) => <code>{maskedKey}</code>, isExtra: true },
    { title: 'State', width: '7rem', cell: (key) => <KeyState of={key} /> },
    { title: 'Expires', cell: ({ expiresAt }) => <Time at={expiresAt} />, isExtra: true },
    { title: 'Last used', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} />, isExtra: true },
  ];
  if (mayRotate) {
    columns.push({
      title: 'Rotate',
      width: '6.5rem',
      cell: (key) => (
        <button type="button" class="outline small" aria-label={`Rotate ${key.name}`} onClick={() => setRotated(key)}>
          Rotate
        </button>
      ),
    });
  }
  return (
    <section>
      <h2>Keys</h2>
      <PagedTable
        label="Keys"
        columns={columns}
        pages={pages}
        keyOf={({ id }) => id}
        empty="You have no API key yet. Ask for one where you got this link."
      />
      {rotated && (
        <Rotate
          onRotate={async (graceSeconds) =>
            (await call('post /api/v1/portal/key/{akid}/rotate', { akid: rotated.id, graceSeconds })).apiKey.key
          }
          onClose={() => setRotated(undefined)}
          onRotated={reload}
        />
      )}
    </section>
  );
}

function Balance() {
  const { value, problem } = useRead(async (signal) => {
    const [{ billing }, grants] = await Promise.all([
      call('get /api/v1/portal/billing', {}, signal),
      readGrants((page) => call('get /api/v1/portal/grants', page, signal)),
    ]);
    return { billing, grants };
  }, []);
  return (
    <section>
      <h2>Balance</h2>
      <ProblemNote problem={problem} />
      {!problem && !value && <p aria-busy="true">Loading…</p>}
      {value && (
        <>
          <Credits {...value} />
          <Grants grants={value.grants} empty="No credits yet. Ask for some where you got this link." />
        </>
      )}
    </section>
  );
}
