import { ofStrangers } from './of-strangers.ts';
import { ofTeams } from './of-teams.ts';

export type AttackName = keyof typeof attacks;

/** Every attack, by its name in the table. */
export const attacks = { ...ofStrangers, ...ofTeams };
