import { beginCount, OTHER, type RefusalCount } from '../events/outcome.ts';

/** A refused call, or a call that a limit would have refused if it did more than watch, as far as it is counted. */
export type CountedCall = Omit<RefusalCount, 'boot' | 'minuteSeconds' | 'calls' | 'wouldRefuse'> & {
  wouldRefuse: boolean;
};

/** A count of a minute, which only grows. */
export type Cell = {
  /** Its JSON up to the number of calls. */
  start: string;
  calls: number;
  /** How many of them the outbox has. */
  sent: number;
};

// Of the cells of a team and minute: those that name a key, and those and the ones that name a workspace.
const MOST_OF_KEYS = 400;
const MOST_OF_WORKSPACES = 460;
/** Of all teams. */
export const MOST_CELLS = 20_000;

/** The counts of a process in one minute. */
export function countMinute(boot: string, minuteSeconds: number) {
  const teams = new Map<string, Map<string, Cell>>();
  let cells = 0;

  return {
    minuteSeconds,
    /** Counts a call. Gives its cell; undefined where there are too many for one more. */
    count(call: CountedCall): Cell | undefined {
      const cell = cellOf(call);
      if (cell) cell.calls += 1;
      return cell;
    },
  };

  function cellOf(call: CountedCall): Cell | undefined {
    if (call.workspaceId === '') return find(call, Infinity);
    const ofWorkspace = { ...call, limit: OTHER, keyId: OTHER };
    const known = find(call, MOST_OF_KEYS) ?? find(ofWorkspace, MOST_OF_WORKSPACES);
    return known ?? find({ ...ofWorkspace, workspaceId: '' }, Infinity);
  }

  /** The cell of a call, which is made while its team has fewer than so many. */
  function find(call: CountedCall, most: number): Cell | undefined {
    const { teamId, workspaceId, status, reason, limit, keyId, wouldRefuse } = call;
    const team = teams.get(teamId) ?? new Map<string, Cell>();
    const name = [wouldRefuse, status, reason, limit, workspaceId, keyId].join('\x1f');
    const known = team.get(name);
    // Some more than the most: each team has a few that name nothing.
    if (known || team.size >= most || cells >= (most === Infinity ? 2 * MOST_CELLS : MOST_CELLS)) return known;
    const start = beginCount({ boot, minuteSeconds, ...call, wouldRefuse: wouldRefuse ? 1 : 0 });
    const cell = { start, calls: 0, sent: 0 };
    teams.set(teamId, team.set(name, cell));
    cells += 1;
    return cell;
  }
}
