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

type Line<Item> = { team: string; allowance: number; first: Link<Item>; last: Link<Item> };
type Link<Item> = { item: Item; next: Link<Item> | undefined };

/**
 * Deficit round robin: in its turn a team may take what costs `turn` in all; what it leaves of that, it has in its next
 * turn too. A team that waits alone waits for nobody.
 */
export function makeFairQueue<Item extends Waiting>(turn: number): FairQueue<Item> {
  // In the order of turns: the first one's turn is now.
  const lines = new Map<string, Line<Item>>();
  let size = 0;

  function firstLine(): Line<Item> | undefined {
    for (const line of lines.values()) return line;
    return undefined;
  }

  return {
    push(item) {
      const link = { item, next: undefined };
      const line = lines.get(item.team);
      if (line) {
        line.last.next = link;
        line.last = link;
      } else lines.set(item.team, { team: item.team, allowance: turn, first: link, last: link });
      size += 1;
    },
    take() {
      let line = firstLine();
      if (!line) return undefined;
      while (line.allowance < line.first.item.cost) {
        line.allowance += turn;
        if (lines.size === 1) continue;
        lines.delete(line.team);
        lines.set(line.team, line);
        line = firstLine()!;
      }
      const { first } = line;
      const { item, next } = first;
      // One that is among V8's old objects would keep all that came after it.
      first.next = undefined;
      line.allowance -= item.cost;
      size -= 1;
      if (next) line.first = next;
      else lines.delete(line.team);
      return item;
    },
    charge(team, cost) {
      const line = lines.get(team);
      if (line) line.allowance -= cost;
    },
    size: () => size,
  };
}
