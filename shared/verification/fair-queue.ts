/** Something that waits for its turn: whose it is, and what it is expected to cost. */
export type Waiting = { team: string; cost: number };

/** Holds what waits, and gives it out by turns of teams, so that each gets the same cost done while others wait too. */
export type FairQueue<Item extends Waiting> = {
  push(item: Item): void;
  /** The next one; undefined when none waits. */
  take(): Item | undefined;
  /** Notes what a team's items cost beyond what was expected of them: it pays in its next turns, while it has others waiting. */
  charge(team: string, cost: number): void;
  size(): number;
};

/**
 * Deficit round robin: in its turn a team may take what costs `turn` in all; what it leaves of that, it has in its next
 * turn too. A team that waits alone waits for nobody.
 */
export function makeFairQueue<Item extends Waiting>(turn: number): FairQueue<Item> {
  // In the order of turns: the first one's turn is now.
  const lines = new Map<string, { allowance: number; items: Item[] }>();
  let size = 0;

  return {
    push(item) {
      const line = lines.get(item.team);
      if (line) line.items.push(item);
      else lines.set(item.team, { allowance: turn, items: [item] });
      size += 1;
    },
    take() {
      // A line that is put to the end is come to again.
      for (const [team, line] of lines) {
        const next = line.items[0]!;
        if (line.allowance >= next.cost) {
          line.allowance -= next.cost;
          line.items.shift();
          if (line.items.length === 0) lines.delete(team);
          size -= 1;
          return next;
        }
        line.allowance += turn;
        lines.delete(team);
        lines.set(team, line);
      }
      return undefined;
    },
    charge(team, cost) {
      const line = lines.get(team);
      if (line) line.allowance -= cost;
    },
    size: () => size,
  };
}
