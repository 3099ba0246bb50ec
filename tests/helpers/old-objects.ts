import { getHeapSpaceStatistics } from 'node:v8';

/** By how many MB V8's old objects grow while this runs: what it makes stays among them until all of them are collected. */
export function oldMegabytesOf(run: () => void): number {
  const before = oldBytes();
  run();
  return (oldBytes() - before) / 1e6;
}

function oldBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space')!.space_used_size;
}
