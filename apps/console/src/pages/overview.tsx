import { call, Problem } from '../data/call.ts';
import { useAnswer, useMay, useRead, useWorkspace } from '../data/hooks.ts';
import { spanUntilNow } from '../data/time.ts';
import { Counts, summed, useCounts } from './decisions.tsx';
import { Page, Section } from '../parts/page.tsx';
import { Listed, Table } from '../parts/table.tsx';
import { Amount, Empty, Facts, PageLink, State, Time } from '../parts/text.tsx';
import { billingState } from './customers/credits.tsx';
import { LastUsage } from './usage.tsx';
import { isGivenUp, isOf, webhookState } from './webhooks/webhooks.tsx';

const LIVE_MS = 10_000;
const STATE_MS = 60_000;
const SHOWN = 8;
// More than a record can have: the list then begins with those that have the least.
const MOST_CREDITS = '9000000000';
// "usage_too_large" of the API.
const USAGE_TOO_LARGE = 40020;
const needs = ['usage:read', 'billing:read', 'webhook:read'] as const;

/** Is all well, and what happens now? */
export function Overview() {
  const may = useMay();
  const { id: workspaceId } = useWorkspace();
  return (
    <Page title="Overview">
      {!needs.some(may) && <Empty>The token may read neither usage, nor customers, nor webhooks.</Empty>}
      {may('usage:read') && <Now />}
      <div class="panels">
        {may('billing:read') && <LowCustomers />}
        {may('usage:read') && <HitLimits />}
        {may('webhook:read') && <FailingWebhooks />}
        {may('billing:read') && <Books />}
      </div>
      {may('usage:read') && (
        <LastUsage
          title="Credits used"
          action={<PageLink to="usage">All usage</PageLink>}
          of={{ workspaceId }}
          empty="Nothing was used. Verify a key with a cost, and it shows here."
          isSum
        />
      )}
    </Page>
  );
}

function Now() {
  const { id: workspaceId } = useWorkspace();
  const read = useCounts({ workspaceId, groupBy: 'status' }, 'hour', LIVE_MS);
  return (
    <Section title="Verifications per minute, last hour" of={read}>
      {({ counts, chart }) => (
        <div class="panels">
          <Counts counts={{ ...counts, wouldRefuse: [] }} chart={chart} />
        </div>
      )}
    </Section>
  );
}

/** The customers with the least left. */
function LowCustomers() {
  const { id } = useWorkspace();
  const input = { id, availableBelow: MOST_CREDITS, limit: SHOWN };
  const empty = (
    <>
      There is no billing record. <PageLink to="customers">Make one</PageLink> for a customer who pays by use.
    </>
  );
  return (
    <Listed
      title="Customers with the least left"
      of={useAnswer('get /api/v1/workspace/{id}/customer-billings', input, STATE_MS)}
      items={({ billings }) => billings}
      columns={[
        { title: 'Meter', text: 'externalMeterId', link: (one) => `customers/${one.id}` },
        { title: 'Available', amount: 'availableCredits' },
        { title: 'State', width: '8rem', state: billingState },
      ]}
      empty={empty}
    />
  );
}

/** The limits that refused calls in the last 24 hours, and of which keys. */
function HitLimits() {
  const { id: workspaceId } = useWorkspace();
  const read = useRead(
    async () => {
      const count = async (groupBy: string) => {
        const input = { workspaceId, ...spanUntilNow('day').asked, interval: 'day', groupBy } as const;
        const ask = (reason: 'RATE_LIMIT' | 'LIMIT_REACHED') => call('get /api/v1/verifications', { ...input, reason });
        const answers = await Promise.all([ask('RATE_LIMIT'), ask('LIMIT_REACHED')]);
        return answers.flatMap(({ data }) => data);
      };
      // Of very many keys the api tells no rows: then by limit alone.
      return count('limit,key').catch((error: unknown) => {
        if (error instanceof Problem && error.code === USAGE_TOO_LARGE) return count('limit');
        throw error;
      });
    },
    workspaceId,
    STATE_MS,
  );
  return (
    <Listed
      title="Limits hit, last 24 hours"
      of={read}
      items={(rows) => summed(rows, ({ limit, apiKeyId }) => `${limit} ${apiKeyId}`).slice(0, SHOWN)}
      columns={[
        {
          title: 'Key',
          text: ({ apiKeyId, apiKeyName = apiKeyId }) => apiKeyName,
          link: ({ apiKeyId }) => apiKeyId && `keys/${apiKeyId}`,
        },
        { title: 'Limit', text: 'limit' },
        { title: 'Refused', amount: 'count' },
      ]}
      empty="Nothing to do: no limit refused a call."
    />
  );
}

/** The webhooks that do not get through. */
function FailingWebhooks() {
  const { id } = useWorkspace();
  const read = useAnswer('get /api/v1/webhook', { limit: 100 }, STATE_MS);
  const all = read.value?.webhooks.filter((one) => isOf(one, id)) ?? [];
  const none = (
    <>
      There is no webhook. <PageLink to="webhooks">Make one</PageLink> to be told of what happens.
    </>
  );
  return (
    <Listed
      title="Webhooks that fail"
      of={read}
      items={() => all.filter((one) => one.failingSince !== undefined || isGivenUp(one))}
      columns={[
        { title: 'Webhook', text: ({ description, url }) => description ?? url, link: (one) => `webhooks/${one.id}` },
        { title: 'State', width: '8rem', state: webhookState },
        { title: 'Since', time: ({ enabled, failingSince, disabledAt }) => (enabled ? failingSince : disabledAt) },
      ]}
      empty={all.length > 0 ? 'Nothing to do: all get through.' : none}
    />
  );
}

/** Whether the books were proved, when, and which records differ. */
function Books() {
  const { id } = useWorkspace();
  return (
    <Section title="Books" of={useAnswer('get /api/v1/workspace/{id}/proof', { id }, STATE_MS)}>
      {({ proof: { provedAt, differentRecords, undecidedRecords, different } }) => {
        if (provedAt === undefined)
          return (
            <Empty>
              Not proved yet: each hour all records are compared with their events, for the first time within the hour
              to come. Until then a customer's own page proves its record at once.
            </Empty>
          );
        return (
          <>
            <Facts
              of={[
                ['State', <State of={differentRecords === 0 ? ['good', 'Exact'] : ['bad', 'Different']} />],
                ['Records that differ', <Amount of={differentRecords} />],
                ['Records with events on their way', <Amount of={undecidedRecords} />],
                ['Proved', <Time at={provedAt} />],
              ]}
            />
            <Table
              label="Records that differ"
              columns={[
                { title: 'Meter', text: 'externalMeterId', link: (one) => `customers/${one.billingId}` },
                { title: 'By', amount: 'difference' },
                { title: 'Since', time: 'since' },
              ]}
              items={different}
            />
          </>
        );
      }}
    </Section>
  );
}
