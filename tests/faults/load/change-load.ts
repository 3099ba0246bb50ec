import type { Random } from '../../helpers/random.ts';
import type { Manager } from './manager.ts';
import type { Participants } from './participants.ts';
import type { Verifier } from './traffic.ts';

/** What changes are made with. */
export type ChangeLoad = {
  manager: Manager;
  verifier: Verifier;
  participants: Participants;
  random: Random;
  stopped(): boolean;
};
