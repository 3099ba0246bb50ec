import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso/router';
import { meterKinds, type MeterKind } from '../../../../shared/values/meter-kinds.ts';
import { call, type Input, type Output } from '../data/call.ts';
import { changedNames, namesIn, textOfNames } from '../data/event-names.ts';
import { useAnswer, useHome, useMay, useWorkspace } from '../data/hooks.ts';
import { Ask, Dialog, Opens, Switch } from '../parts/dialog.tsx';
import { Field, Form } from '../parts/form.tsx';
import { Page, Section } from '../parts/page.tsx';
import { List } from '../parts/table.tsx';
import { Amount, Facts, Loaded, None, State, Time, type Standing } from '../parts/text.tsx';

type Destination = Output<'get /api/v1/meter-destination/{mid}'>['destination'];
type Change = Omit<Input<'patch /api/v1/meter-destination/{mid}'>, 'mid'>;
type MeterEvent = Output<'get /api/v1/meter-destination/{mid}/events'>['events'][number];

const kinds = Object.keys(meterKinds) as MeterKind[];
const states = {
  WAITING: ['idle', 'Waiting'],
  SENT: ['good', 'Sent'],
  FAILED: ['bad', 'Failed'],
  CARRIED: ['idle', 'Carried on'],
  LEFT_OUT: ['idle', 'Left out'],
} as const satisfies Record<MeterEvent['state'], Standing>;
const proofs = {
  EXACT: ['good', 'Exact: sent is usage less what was left out or is carried on'],
  PENDING: ['idle', 'Events wait, or hours are to be planned: look again'],
  DIFFERENT: ['bad', 'Events failed, or the books have something else than was planned'],
} as const satisfies Record<string, Standing>;
const OF_HTTP = 'Its API key or token; of kind http it is made here.';
const more = <p class="muted">Your receiver checks with it that usage comes from here.</p>;
const revealed = { title: 'The new destination', label: 'Secret of the destination', more };
const namesField = {
  name: 'eventNames',
  label: 'Event names',
  placeholder: 'tokens=llm_tokens, internal=',
  hint: 'What usage names are called there; with nothing behind the = they are not sent. Others are called as they are.',
} as const;

/** Where usage of the workspace is sent. */
export function Meters() {
  const { id: workspaceId } = useWorkspace();
  const make = (
    <Ask
      does="New"
      one="destination"
      needs="metering:write"
      fields={[
        { name: 'kind', label: 'Kind', options: kinds },
        { name: 'name', label: 'Name', required: true, maxLength: 128 },
        { name: 'secret', label: 'Secret', as: 'password', hint: OF_HTTP },
        { name: 'url', label: 'URL', placeholder: 'https://', hint: 'Empty: that of the kind, if it has one.' },
        namesField,
      ]}
      onSubmit={({ eventNames, ...given }) =>
        call('post /api/v1/meter-destination', { ...given, workspaceId, eventNames: namesIn(eventNames) })
      }
      shows={({ destination: { secret } }) => (secret === undefined ? undefined : { ...revealed, text: secret })}
    />
  );
  return (
    <List
      page="Meters"
      action={make}
      of="get /api/v1/meter-destination"
      input={{ workspaceId, limit: 100 }}
      columns={[
        { title: 'Name', width: '30%', text: 'name', link: (one) => `meters/${one.id}` },
        { title: 'Kind', text: 'kind' },
        { title: 'Last sent', width: '12.5rem', time: 'lastSentAt' },
        { title: 'Waiting', amount: 'waitingEvents' },
        { title: 'Failed', amount: 'failedEvents' },
        { title: 'State', width: '8rem', state: stateOf },
      ]}
      empty="No destination yet. A destination gets the usage of each hour that is over, such as Stripe, which bills it: make one."
    />
  );
}

/** A destination, what waits or failed, and the proof of a month. */
export function Meter({ id: mid }: { id: string }) {
  const { route } = useLocation();
  const { pathOf } = useWorkspace();
  const mayChange = useMay()('metering:write');
  const read = useAnswer('get /api/v1/meter-destination/{mid}', { mid });
  useHome(read.value?.destination.workspaceId, `meters/${mid}`);
  const change = (what: Change) => call('patch /api/v1/meter-destination/{mid}', { mid, ...what });
  const actions = ({ name, enabled, eventNames }: Destination) => (
    <>
      <Ask
        does="Edit"
        one="destination"
        fields={[
          { name: 'name', label: 'Name', required: true, value: name },
          { name: 'secret', label: 'Secret', as: 'password', hint: 'Empty: it stays.' },
          { ...namesField, value: textOfNames(eventNames) },
        ]}
        onSubmit={({ eventNames: names, ...given }) => change({ ...given, ...changedNames(eventNames, names) })}
      />
      <Switch is={enabled} onChange={change} />
      <Ask
        does="Delete"
        one="destination"
        onSubmit={() => call('delete /api/v1/meter-destination/{mid}', { mid }).then(() => route(pathOf('meters')))}
        says="What waits for it is not sent any more. To stop it for a while, disable it instead."
      />
    </>
  );
  return (
    <Loaded of={read}>
      {({ destination, destination: { waitingSince, failingSince, lastSentAt, lastError, failedEvents } }) => (
        <Page title={destination.name} action={mayChange && actions(destination)}>
          <Facts
            of={[
              ['State', <State of={stateOf(destination)} />],
              ['Takes nothing since', failingSince && <Time at={failingSince} />],
              ['Why', lastError],
              ['Kind', destination.kind],
              ['URL', destination.url],
              ['Event names', textOfNames(destination.eventNames) || <None>as the usage names</None>],
              ['Last sent', lastSentAt ? <Time at={lastSentAt} /> : <None>nothing yet</None>],
              ['Waiting', <Amount of={destination.waitingEvents} />],
              ['Oldest hour that waits', waitingSince && <Time at={waitingSince} />],
              ['Failed', <Amount of={failedEvents} />],
              ['Since', <Time at={destination.startsAt} />],
              ['Id', <code>{destination.id}</code>],
            ]}
          />
          <Proof mid={mid} />
          <Events mid={mid} failed={failedEvents} />
        </Page>
      )}
    </Loaded>
  );
}

function Proof({ mid }: { mid: string }) {
  const [month, setMonth] = useState(() => new Date().toISOString().slice(0, 7));
  return (
    <Section title="Proof">
      <Field label="Month" name="month" as="month" value={month} onText={(text) => text && setMonth(text)} />
      <Loaded of={useAnswer('get /api/v1/meter-destination/{mid}/proof', { mid, month })}>
        {({ proof }) => (
          <Facts
            of={[
              ['State', <State of={proofs[proof.status]} />],
              ['Usage', <Amount of={proof.usage} />],
              ['Left out', <Amount of={proof.leftOut} />],
              ['Carried on', <Amount of={proof.rests} />],
              ['Sent', <Amount of={proof.sent} />],
              ['Waiting', proof.waiting !== '0' && <Amount of={proof.waiting} />],
              ['Failed', proof.failed !== '0' && <Amount of={proof.failed} />],
              ['Difference', proof.difference !== '0' && <Amount of={proof.difference} />],
              ['Proved up to', <Time at={proof.to} />],
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}

function Events({ mid, failed }: { mid: string; failed: number }) {
  const opened = (one: MeterEvent) => (
    <Opens text={one.usageName || one.eventName || 'usage'} look="link">
      <Dialog title={one.usageName || 'Usage without a name'}>
        <Facts
          of={[
            ['State', <State of={states[one.state]} />],
            ['Why', one.error],
            ['Credits', <Amount of={one.credits} />],
            ['Events', <Amount of={one.events} />],
            ['Called there', `${one.externalId}, ${one.eventName}`],
            ['Correction', one.number > 0 && <Amount of={one.number} />],
            ['Record', <code>{one.billingId}</code>],
          ]}
        />
      </Dialog>
    </Opens>
  );
  const again = () => call('post /api/v1/meter-destination/{mid}/redeliver', { mid });
  const needs = failed > 0 && 'metering:write';
  return (
    <List
      title="Events"
      action={<Form submit="Send failed again" needs={needs} look="minor" onSubmit={again} />}
      of="get /api/v1/meter-destination/{mid}/events"
      input={{ mid, limit: 50 }}
      columns={[
        { title: 'Usage', cell: opened },
        { title: 'Hour', width: '12.5rem', time: 'hour' },
        { title: 'For', text: 'externalId' },
        { title: 'Value', amount: 'value' },
        { title: 'State', width: '8rem', state: ({ state }) => states[state] },
      ]}
      empty="Nothing was planned yet: an hour is once it is over."
    />
  );
}

function stateOf({ enabled, failingSince, failedEvents }: Destination): Standing {
  if (!enabled) return ['idle', 'Disabled'];
  if (failingSince !== undefined) return ['bad', 'Failing'];
  return failedEvents > 0 ? ['bad', 'Some failed'] : ['good', 'Enabled'];
}
