import { useState } from 'preact/hooks';
import { useRoute } from 'preact-iso/router';
import { call, type Input } from '../../data/call.ts';
import { useRead } from '../../data/hooks.ts';
import { useMay } from '../../data/session.ts';
import { Check, Dialog, Field, Form, momentOf } from '../../parts/form.tsx';
import { LimitsForm, LimitsTable } from '../../parts/limits.tsx';
import { Page } from '../../parts/page.tsx';
import { Amount, Facts, ProblemNote, Time } from '../../parts/text.tsx';
import { Credits, type Billing } from './credits.tsx';
import { Alerts } from './alerts.tsx';
import { Ledger, ProofOfBooks, Statement } from './books.tsx';
import { Grants, readGrants, type Grant } from './grants.tsx';
import { Holds } from './holds.tsx';
import { Schedules } from './schedules.tsx';
import { Usage } from './usage.tsx';
import { Outcomes } from '../keys/outcomes.tsx';
import { PortalLink } from './portal-link.tsx';

type Change = Omit<Input<'patch /api/v1/customer-billing/{bid}'>, 'bid'>;
type Doing = 'refill' | 'grant' | 'settings' | 'limits' | 'portal' | undefined;

// What a link gives, which its maker must hold.
const linkNeeds = ['link:write', 'key:read', 'billing:read', 'usage:read'] as const;

/** One billing record: what it has, where that came from and where it went. */
export function Customer() {
  const may = useMay();
  const bid = useRoute().params['billing'] ?? '';
  const [doing, setDoing] = useState<Doing>();
  const read = useRead(
    async (signal) => {
      const [{ billing }, grants] = await Promise.all([
        call('get /api/v1/customer-billing/{bid}', { bid }, signal),
        readGrants((page) => call('get /api/v1/customer-billing/{bid}/grants', { bid, ...page }, signal)),
      ]);
      return { billing, grants };
    },
    [bid],
  );
  const close = () => setDoing(undefined);
  const changed = () => {
    close();
    read.reload();
  };
  const change = async (what: Change) => {
    await call('patch /api/v1/customer-billing/{bid}', { bid, ...what });
    changed();
  };
  const problem = <ProblemNote problem={read.problem} onRetry={read.reload} />;
  if (!read.value) {
    return read.problem ? <Page title="Customer">{problem}</Page> : <p aria-busy="true">Loading…</p>;
  }
  const { billing, grants } = read.value;
  const mayWrite = may('billing:write');
  return (
    <Page
      title={billing.externalMeterId}
      action={<Actions onDo={setDoing} mayWrite={mayWrite} mayLink={linkNeeds.every(may)} />}
    >
      {problem}
      <Balance billing={billing} grants={grants} />
      {may('usage:read') && <Usage bid={bid} />}
      {may('usage:read') && <Outcomes of={{ externalMeterId: billing.externalMeterId }} why={`record=${bid}`} />}
      <Grants
        grants={grants}
        empty="No credits yet. Add some, once or by a schedule."
        {...(mayWrite && { change: { bid, onChanged: changed } })}
      />
      <Schedules bid={bid} mayWrite={mayWrite} onChanged={changed} />
      <section>
        <header class="page">
          <h2>Limits</h2>
          {mayWrite && (
            <button type="button" class="outline" onClick={() => setDoing('limits')}>
              Change limits
            </button>
          )}
        </header>
        <LimitsTable limits={billing.limits ?? []} />
      </section>
      <Alerts billing={billing} mayWrite={mayWrite} onChange={change} />
      <Holds bid={bid} />
      {may('usage:read') && <Statement bid={bid} />}
      <Ledger bid={bid} key={`ledger ${billing.totalCredits}`} />
      <ProofOfBooks bid={bid} />
      {doing === 'grant' && <NewGrant bid={bid} onClose={close} onGranted={changed} />}
      {doing === 'refill' && <Refill of={billing} onClose={close} onRefilled={changed} />}
      {doing === 'settings' && <Settings of={billing} onClose={close} onChange={change} />}
      {doing === 'portal' && <PortalLink of={billing} onClose={close} />}
      {doing === 'limits' && (
        <Dialog title="Limits of the record" onClose={close}>
          <LimitsForm
            limits={billing.limits ?? []}
            onSubmit={(limits) => change({ limits: limits.length > 0 ? limits : null })}
          />
        </Dialog>
      )}
    </Page>
  );
}

function Actions({ onDo, mayWrite, mayLink }: { onDo(what: Doing): void; mayWrite: boolean; mayLink: boolean }) {
  return (
    <>
      {mayWrite && (
        <>
          <button type="button" onClick={() => onDo('refill')}>
            Refill
          </button>
          <button type="button" class="outline" onClick={() => onDo('grant')}>
            Grant credits
          </button>
          <button type="button" class="outline" onClick={() => onDo('settings')}>
            Overage and cap
          </button>
        </>
      )}
      {mayLink && (
        <button type="button" class="outline" onClick={() => onDo('portal')}>
          Portal link
        </button>
      )}
    </>
  );
}

function Balance({ billing, grants }: { billing: Billing; grants: readonly Grant[] }) {
  return (
    <section class="balance">
      <Credits billing={billing} grants={grants} />
      <Facts
        of={[
          ['Granted, ever', <Amount of={billing.totalCredits} />],
          ['Used, ever', <Amount of={billing.usedCredits} />],
          ['When they are used up', billing.allowOverages ? 'calls go on' : 'calls are refused'],
          [
            'Spend cap',
            billing.spendCap === undefined ? <span class="muted">none</span> : <Amount of={billing.spendCap} />,
          ],
          ['Id', <code>{billing.id}</code>],
          ['Made', <Time at={billing.createdAt} />],
        ]}
      />
    </section>
  );
}

function Refill({ of: billing, onClose, onRefilled }: { of: Billing; onClose(): void; onRefilled(): void }) {
  const { workspaceId, externalMeterId } = billing;
  return (
    <Dialog title="Refill" onClose={onClose}>
      <Form
        submit="Add credits"
        onSubmit={async (value) => {
          const input = { workspaceId, externalMeterId, refill: value('credits') };
          await call('post /api/v1/customer-billing/refill', input);
          onRefilled();
        }}
      >
        <Field label="Credits" name="credits" required inputMode="decimal" hint="Bought: they never expire." />
      </Form>
    </Dialog>
  );
}

function NewGrant({ bid, onClose, onGranted }: { bid: string; onClose(): void; onGranted(): void }) {
  return (
    <Dialog title="Grant credits" onClose={onClose}>
      <Form
        submit="Grant"
        onSubmit={async (value) => {
          const [beginsAt, expiresAt] = [momentOf(value('beginsAt')), momentOf(value('expiresAt'))];
          await call('post /api/v1/customer-billing/{bid}/grant', {
            bid,
            credits: value('credits'),
            ...(value('name') && { name: value('name') }),
            ...(beginsAt !== undefined && { beginsAt }),
            ...(expiresAt !== undefined && { expiresAt }),
            ...(value('priority') && { priority: Number(value('priority')) }),
          });
          onGranted();
        }}
      >
        <Field label="Credits" name="credits" required inputMode="decimal" />
        <Field label="Name" name="name" hint="What they are for, e.g. trial or bought in May." />
        <Field label="Begins" name="beginsAt" type="datetime-local" hint="In your time zone. Empty: now." />
        <Field
          label="Ends"
          name="expiresAt"
          type="datetime-local"
          hint="What is left then has expired. Empty: never."
        />
        <Field label="Priority" name="priority" type="number" hint="A smaller one is used first." />
      </Form>
    </Dialog>
  );
}

type SettingsProps = { of: Billing; onClose(): void; onChange(what: Change): Promise<void> };

function Settings({ of: billing, onClose, onChange }: SettingsProps) {
  return (
    <Dialog title="Overage and cap" onClose={onClose}>
      <Form
        submit="Save"
        onSubmit={(value, form) =>
          onChange({ allowOverages: form.has('allowOverages'), spendCap: value('spendCap') || null })
        }
      >
        <Check label="May go on when the credits are used up" name="allowOverages" checked={billing.allowOverages} />
        <Field
          label="Spend cap"
          name="spendCap"
          inputMode="decimal"
          value={billing.spendCap ?? ''}
          hint="The most that may be used. Empty: no cap."
        />
      </Form>
    </Dialog>
  );
}
