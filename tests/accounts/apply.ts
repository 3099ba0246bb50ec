import { grantOf, type Command } from './commands.ts';
import type { Account, Answer } from './model.ts';

/** Does a command to the model; `NOTHING` where there is no such grant or hold. */
export function apply(account: Account, command: Command): Answer | 'NOTHING' {
  switch (command.do) {
    case 'wait':
      account.advance(account.now + command.ms);
      return 'DONE';
    case 'grant':
      account.grant(grantOf(command, account.now));
      return 'DONE';
    case 'void': {
      const grant = account.grants[command.grant];
      return grant ? account.voidGrant(grant) : 'NOTHING';
    }
    case 'verify':
      return account.verify(command.micros);
    case 'hold':
      return account.hold(command.micros, command.expiresIn, command.onExpiry) ? 'VALID' : 'REFUSED';
    case 'capture': {
      const hold = account.holds[command.hold];
      return hold ? account.capture(hold, command.micros) : 'NOTHING';
    }
    case 'release': {
      const hold = account.holds[command.hold];
      return hold ? account.release(hold) : 'NOTHING';
    }
    case 'extend': {
      const hold = account.holds[command.hold];
      return hold ? account.extend(hold, command.expiresIn) : 'NOTHING';
    }
    case 'cancel': {
      const call = account.calls[command.call];
      return call ? account.cancel(call) : 'NOTHING';
    }
    case 'adjust':
      return account.adjust(command.micros);
    case 'rebuild':
      return 'DONE';
    case 'alerts':
      account.setAlerts(command.alerts);
      return 'DONE';
    case 'settings':
      account.settings = { allowOverages: command.allowOverages, spendCap: command.spendCap };
      return 'DONE';
  }
}
