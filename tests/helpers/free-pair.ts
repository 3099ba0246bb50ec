import { freePorts, reservePort } from '../../apps/stack/process/ports.ts';

/** A port of a stack of a test's own: it and the next one are free. */
export async function freePair(): Promise<number> {
  for (;;) {
    const [port = 0] = await freePorts(1);
    if (await reservePort(port + 1)) return port;
  }
}
