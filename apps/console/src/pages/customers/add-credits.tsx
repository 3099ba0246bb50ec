import { formatCredits, parseSignedCredits } from '../../../../../shared/values/credits.ts';
import { call } from '../../data/call.ts';
import { endOfDay, localMoment } from '../../data/time.ts';
import { Ask } from '../../parts/dialog.tsx';
import { grouped } from '../../parts/text.tsx';
import { microsIn, type Billing } from './billing-state.ts';

const FRIDAY = 5;

/** When credits may end, at once in the words of people and in Unix milliseconds. */
function endsFromNow() {
  const now = new Date();
  const toFriday = (FRIDAY - now.getDay() + 6) % 7;
  const toMonthEnd = new Date(now.getFullYear(), now.getMonth() + 1, 0).getDate() - now.getDate();
  return [
    ['', 'never'],
    [String(endOfDay(0)), 'today'],
    [String(endOfDay(toFriday + 1)), 'on Friday'],
    [String(endOfDay(toMonthEnd)), 'with this month'],
    ['other', 'at another time'],
  ] as const;
}

/** Gives a customer credits. Without an end or a reason they are a refill, else a grant. */
export function AddCredits({ to: billing }: { to: Billing }) {
  const { id: bid, workspaceId, externalMeterId } = billing;
  const endOf = ({ ends, expiresAt }: { ends?: string; expiresAt?: number | undefined }) =>
    ends === 'other' ? expiresAt : Number(ends) || undefined;
  return (
    <Ask
      look="main"
      title="Add credits"
      submit="Add credits"
      needs="billing:write"
      fields={[
        { name: 'credits', label: 'Credits', as: 'credits', required: true, told: ['credits', 'refill'] },
        { name: 'ends', label: 'They end', options: endsFromNow(), value: '' },
        { name: 'expiresAt', label: 'At', as: 'moment', required: true, shownIf: ['ends', 'other'] },
        { name: 'name', label: 'Reason', hint: 'What they are for, e.g. trial. Your customer sees it.' },
      ]}
      preview={({ credits, ...given }) => {
        const micros = parseSignedCredits(credits ?? '');
        if (!micros) return null;
        const end = endOf(given);
        const until = end === undefined ? 'They never end' : `They end on ${localMoment(end)}`;
        const then = formatCredits(microsIn(billing.availableCredits) + micros);
        return `${grouped(billing.availableCredits)} → ${grouped(then)} credits available. ${until}.`;
      }}
      onSubmit={({ credits, name, ...given }) => {
        const expiresAt = endOf(given);
        if (expiresAt === undefined && name === undefined) {
          const refill = { workspaceId, externalMeterId, refill: credits };
          return call('post /api/v1/customer-billing/refill', refill);
        }
        return call('post /api/v1/customer-billing/{bid}/grant', { bid, credits, name, expiresAt });
      }}
    />
  );
}
