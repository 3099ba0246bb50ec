import { useState } from 'preact/hooks';
import { call, hasEnded, leavePortal, openPortal } from './data/call.ts';
import { EndedContext, readItems, useEntry, useRead } from './data/hooks.ts';
import { Credits } from './pages/customers/credits.tsx';
import { Statement } from './pages/customers/books.tsx';
import { Grants } from './pages/customers/grants.tsx';
import { Rotate } from './pages/keys/key.tsx';
import { stateOf } from './pages/keys/api-key.ts';
import { LastUsage } from './pages/usage.tsx';
import { Frame, Outside, Page, Section } from './parts/page.tsx';
import { List } from './parts/table.tsx';
import { Time } from './parts/text.tsx';

const LOOK_EVERY_MS = 30_000;
const TITLE = 'Your API keys and usage';
const LINK = /^#lt_.*/;

/** The portal: what a customer sees who has opened a link. */
export function Portal() {
  const [hasLeft, setLeft] = useState(false);
  const begin = useEntry(LINK, openPortal);
  const read = async () => (await begin().then(() => call('get /api/v1/portal', {}))).portal;
  // A page that was left open shows nothing of a link that has ended. While the server can't be asked, it stays as it is.
  const { value: opened, problem, reload } = useRead(read, '', LOOK_EVERY_MS);
  if (hasLeft) {
    return (
      <Outside title={TITLE}>
        <p>You have left. Open your link again to come back.</p>
      </Outside>
    );
  }
  const isOver = problem !== undefined && hasEnded(problem);
  if (problem && (isOver || !opened))
    return <Outside title={TITLE} problem={problem} onRetry={isOver ? undefined : reload} />;
  if (!opened) return <main class="narrow" aria-busy="true" />;
  const { name, color, logo } = opened.branding ?? {};
  const head = (
    <span class="workspace" title={opened.customerId}>
      {logo && <img src={logo} alt="" />} {name ?? opened.customerId}
    </span>
  );
  return (
    <EndedContext.Provider value={reload}>
      <Frame head={head} color={color} leave="Leave" onLeave={() => leavePortal().then(() => setLeft(true))}>
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
        { title: 'Name', width: '30%', text: 'name' },
        { title: 'Key', code: 'maskedKey' },
        { title: 'State', width: '7rem', state: stateOf },
        { title: 'Expires', time: 'expiresAt' },
        { title: 'Last used', time: 'lastUsedAt', isAgo: true },
        {
          title: 'Rotate',
          width: '6.5rem',
          needs: mayRotate ? undefined : false,
          // The new secret of one that is refused would be refused too.
          cell: (key) => stateOf(key)[0] === 'good' && <Rotate row={key.name} onRotate={rotate(key.id)} />,
        },
      ]}
      empty="You have no API key yet. Ask for one where you got this link."
    />
  );
}

function Balance() {
  const read = useRead(async () => {
    const [{ billing }, grants] = await Promise.all([
      call('get /api/v1/portal/billing', {}),
      readItems('get /api/v1/portal/grants', { limit: 200 }),
    ]);
    return { billing, grants };
  }, '');
  return (
    <Section title="Balance" of={read}>
      {({ billing, grants }) => (
        <>
          <Credits billing={billing} grants={grants} />
          <Grants of={grants} empty="No credits yet. Ask for some where you got this link." />
        </>
      )}
    </Section>
  );
}
