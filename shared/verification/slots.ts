import { ApiError } from '../contract/errors.ts';

/** Slots for calls that are being decided, of which each team has a share. */
export type Slots = {
  /**
   * Whether one more call may enter. While all slots are taken, only calls of a team that has less than its share enter:
   * without a team, whether any team's call may.
   */
  hasRoom(team?: string): boolean;
  enter(team: string): void;
  leave(team: string): void;
  /** Decides a call, which has a slot meanwhile; `overloaded` where there is none for its team. */
  during<Decided>(team: string, decide: () => Promise<Decided>): Promise<Decided>;
};

/**
 * So many slots, and as many again for teams below their share: the teams that have a call share them equally, so that all
 * of those together are no more than the slots themselves.
 */
export function makeSlots(most: number): Slots {
  const taken = new Map<string, number>();
  let total = 0;

  const slots: Slots = {
    hasRoom(team) {
      if (total < most) return true;
      if (total >= 2 * most) return false;
      if (team === undefined) return true;
      const own = taken.get(team);
      return own === undefined || own < most / taken.size;
    },
    enter(team) {
      taken.set(team, (taken.get(team) ?? 0) + 1);
      total += 1;
    },
    leave(team) {
      const own = taken.get(team)! - 1;
      if (own > 0) taken.set(team, own);
      else taken.delete(team);
      total -= 1;
    },
    async during(team, decide) {
      if (!slots.hasRoom(team)) throw new ApiError('overloaded');
      slots.enter(team);
      try {
        return await decide();
      } finally {
        slots.leave(team);
      }
    },
  };
  return slots;
}
