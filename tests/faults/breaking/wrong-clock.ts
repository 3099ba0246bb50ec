// Loaded before a program (--import): on SIGUSR2 its clock becomes wrong by as many ms as the file CLOCK_FILE says. Its
// monotonic clock goes on, as on a machine whose time was set.
import { readFileSync } from 'node:fs';

const RealDate = globalThis.Date;
let wrongByMs = 0;

class WrongDate extends RealDate {
  constructor(...given: [] | [value: number | string | Date]) {
    if (given.length === 0) super(WrongDate.now());
    else super(...given);
  }

  static override now(): number {
    return RealDate.now() + wrongByMs;
  }
}

process.on('SIGUSR2', () => {
  wrongByMs = Number(readFileSync(process.env.CLOCK_FILE ?? '', 'utf8'));
});
globalThis.Date = WrongDate as DateConstructor;
