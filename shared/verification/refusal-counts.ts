import { numberOfText } from '../runtime/text-number.ts';
import { beginCount, OTHER, type RefusalCount } from '../events/outcome.ts';

/** A refused call, or a call that a limit would have refused if it did more than watch, as far as it is counted. */
export type CountedCall = Omit<RefusalCount, 'boot' | 'minuteSeconds' | 'calls' | 'wouldRefuse'> & {
  wouldRefuse: boolean;
};

/** A count of a minute, which only grows. */
export type Cell = {
  /** What it counts, as text. */
  name: string;
  /** Its JSON up to the number of calls. */
  start: string;
  calls: number;
  /** How many of them the outbox has. */
  sent: number;
  /** Whether it waits to be sent. */
  waits: boolean;
};

/** What one team was refused in a minute. `details` counts cells by key: each key has a few, whatever routes its calls name. */
type TeamCells = { cells: Map<number, Cell>; details: Map<string, number>; bytes: number };

// Of the 500 cells of a team and minute: those with all details, those and the ones that name a workspace, and the rest.
const MOST_DETAILED = 400;
const MOST_OF_WORKSPACES = 460;
const MOST_OF_KEY = 20;
// Clients choose the routes.
const MOST_BYTES = 128_000;
/** Of all teams. */
export const MOST_CELLS = 20_000;

/** The counts of a process in one minute. */
export function countMinute(boot: string, minuteSeconds: number) {
  const teams = new Map<string, TeamCells>();
  let cells = 0;

  return {
    minuteSeconds,
    /** Counts a call. Gives its cell; undefined where there are too many for one more. */
    count(call: CountedCall): Cell | undefined {
      const team = teams.get(call.teamId) ?? begin(call.teamId);
      const cell = cellOf(team, nameOf(call)) ?? add(team, call);
      if (cell) cell.calls += 1;
      return cell;
    },
  };

  function begin(teamId: string): TeamCells {
    const team: TeamCells = { cells: new Map(), details: new Map(), bytes: 0 };
    if (cells < 2 * MOST_CELLS) teams.set(teamId, team);
    return team;
  }

  function add(team: TeamCells, call: CountedCall): Cell | undefined {
    const { keyId } = call;
    if (call.workspaceId === '') return put(team, call);
    const ofKey = team.details.get(keyId) ?? 0;
    const isOpen = team.cells.size < MOST_DETAILED && team.bytes < MOST_BYTES && cells < MOST_CELLS;
    if (isOpen && ofKey < MOST_OF_KEY) {
      team.details.set(keyId, ofKey + 1);
      return put(team, call);
    }
    if (isOpen && keyId !== '') return find(team, { ...call, route: OTHER });
    const coarse = { ...call, limit: OTHER, keyId: OTHER, customerId: OTHER, route: OTHER };
    const known = cellOf(team, nameOf(coarse));
    if (known) return known;
    if (team.cells.size < MOST_OF_WORKSPACES && cells < MOST_CELLS) return put(team, coarse);
    return find(team, { ...coarse, workspaceId: '' });
  }

  function find(team: TeamCells, call: CountedCall): Cell | undefined {
    return cellOf(team, nameOf(call)) ?? put(team, call);
  }

  function put(team: TeamCells, call: CountedCall): Cell | undefined {
    // Some more than the most: each team has a few that name nothing.
    if (cells >= 2 * MOST_CELLS) return undefined;
    const start = beginCount({ boot, minuteSeconds, ...call, wouldRefuse: call.wouldRefuse ? 1 : 0 });
    const name = nameOf(call);
    const cell = { name, start, calls: 0, sent: 0, waits: false };
    team.cells.set(placeOf(team, name), cell);
    team.bytes += Buffer.byteLength(start);
    cells += 1;
    return cell;
  }
}

function cellOf(team: TeamCells, name: string): Cell | undefined {
  return team.cells.get(placeOf(team, name));
}

/** The number under which a cell of this name is, or belongs: where other names have the same, the next free one. */
function placeOf({ cells }: TeamCells, name: string): number {
  let place = numberOfText(name);
  for (let cell = cells.get(place); cell && cell.name !== name; cell = cells.get(place)) place += 1;
  return place;
}

// A key's customer never changes, and its workspace names it where the key does not.
function nameOf({ workspaceId, status, reason, limit, keyId, route, wouldRefuse }: CountedCall): string {
  const of = keyId === OTHER ? workspaceId : keyId;
  return `${wouldRefuse ? '?' : ''}${status}\x1f${reason}\x1f${limit}\x1f${of}\x1f${route}`;
}
