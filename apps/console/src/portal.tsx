import { useEffect, useRef, useState } from 'preact/hooks';
import { call, leavePortal, openPortal, Problem, type Output } from './data/call.ts';
import { EndedContext, useAll, useAnswer } from './data/hooks.ts';
import { Credits } from './pages/customers/credits.tsx';
import { Statement } from './pages/customers/books.tsx';
import { Grants } from './pages/customers/grants.tsx';
import { Rotate } from './pages/keys/key.tsx';
import { stateOf } from './pages/keys/keys.tsx';
import { LastUsage } from './pages/usage.tsx';
import { Frame, Outside, Page, Section } from './parts/page.tsx';
import { List } from './parts/table.tsx';
import { Time } from './parts/text.tsx';

type Opened = Output<'get /api/v1/portal'>['portal'];

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
  if (opened === 'left') {
    return (
      <Outside title={TITLE}>
        <p>You have left. Open your link again to come back.</p>
      </Outside>
    );
  }
  if (opened instanceof Problem) {
    return <Outside title={TITLE} problem={opened} onRetry={opened.status === 401 ? undefined : begin} />;
  }
  const head = (
    <span class="workspace" title={opened.customerId}>
      {opened.customerId}
    </span>
  );
  return (
    <EndedContext.Provider value={begin}>
      <Frame head={head} leave="Leave" onLeave={() => leavePortal().then(() => setOpened('left'))}>
        {/* Another link may have been opened in another tab: nothing of the one before stays. */}
        <Page key={`${opened.customerId} ${opened.expiresAt}`} title={TITLE}>
          <p class="muted">
            Open until <Time at={opened.expiresAt} />.
          </p>
          {opened.hasBalance && <Balance />}
          <Keys mayRotate={opened.permissions.includes('rotate')} />
          <LastUsage empty="Nothing was used in these days. What your keys use shows here within seconds." />
          {opened.hasBalance && <Statement />}
        </Page>
      </Frame>
    </EndedContext.Provider>
  );
}

function Keys({ mayRotate }: { mayRotate: boolean }) {
  const rotate = (akid: string) => (graceSeconds: number) =>
    call('post /api/v1/portal/key/{akid}/rotate', { akid, graceSeconds });
  return (
    <List
      title="Keys"
      of="get /api/v1/portal/keys"
      input={{ limit: 200 }}
      columns={[
        { title: 'Name', width: '30%', text: 'name', isMain: true, below: 'maskedKey' },
        { title: 'Key', code: 'maskedKey', isExtra: true },
        { title: 'State', width: '7rem', state: stateOf },
        { title: 'Expires', time: 'expiresAt', isExtra: true },
        { title: 'Last used', time: 'lastUsedAt', isExtra: true },
        {
          title: 'Rotate',
          width: '6.5rem',
          needs: mayRotate ? undefined : false,
          cell: ({ id, name }) => <Rotate row={name} onRotate={rotate(id)} />,
        },
      ]}
      empty="You have no API key yet. Ask for one where you got this link."
    />
  );
}

function Balance() {
  const read = useAnswer('get /api/v1/portal/billing', {});
  const grants = useAll('get /api/v1/portal/grants', { limit: 200 });
  return (
    <Section title="Balance" of={read}>
      {({ billing }) => (
        <>
          <Credits billing={billing} grants={grants.items} />
          <Grants of={grants} empty="No credits yet. Ask for some where you got this link." />
        </>
      )}
    </Section>
  );
}
