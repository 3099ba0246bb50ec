/** What an attacker knows: the addresses, and an access token of its own team with all permissions. */
export type Target = { apiUrl: string; verifyUrl: string; token: string };

/** Makes an attack until the signal. */
export type Attacking = (signal: AbortSignal) => Promise<void>;

/** An attack: who makes it, and what it needs before it begins. */
export type Attack = { by: 'stranger' | 'team'; prepare(target: Target): Promise<Attacking> };
