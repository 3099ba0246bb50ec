import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

type Node = { id: number; callFrame: { functionName: string; url: string } };
type Profile = { nodes: Node[]; samples: number[]; timeDeltas: number[] };
/** A part of a process, and its share of the time in which the process was busy. */
export type Share = { part: string; share: number };

const parts: [RegExp, string][] = [
  [/^(write|writev|writeUtf8String|writeLatin1String|read|readStop) $|handleWriteReq/, 'sockets (system calls)'],
  [/\(garbage collector\)/, 'garbage collection'],
  [/^hash |hashKeyText|node:internal\/crypto/, 'hash of the key'],
  [/ioredis|redis-parser/, 'Redis client'],
  [/_http_|node:internal\/streams|node:net|node:events|onParserExecute/, 'HTTP (node:http, streams)'],
  [/read-json|JSON|ajv|validate|utf8|TextDecoder/, 'read and check the body'],
  [/shared\/(verification|stores|values)|client-address/, 'decide: call the script, make the answer'],
  [/shared\/auth/, 'authenticate'],
  [/prometheus|metrics|timings/, 'metrics'],
];

/** Sums up the CPU profile that Node wrote into a folder. */
export function readProfile(folder: string): Share[] {
  const [file] = globSync(join(folder, '*.cpuprofile'));
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file!, 'utf8')) as Profile;
  const partOf = new Map(nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]));
  const times = new Map<string, number>();
  for (const [i, id] of samples.entries()) {
    const part = partOf.get(id)!;
    times.set(part, (times.get(part) ?? 0) + timeDeltas[i]!);
  }
  times.delete('(idle)');
  const busy = [...times.values()].reduce((sum, time) => sum + time, 0);
  const shares = [...times].map(([part, time]) => ({ part, share: time / busy }));
  return shares.toSorted((a, b) => b.share - a.share);
}

function nameOf({ functionName, url }: Node['callFrame']): string {
  if (functionName === '(idle)') return functionName;
  const frame = `${functionName} ${url}`;
  return parts.find(([pattern]) => pattern.test(frame))?.[1] ?? 'all else (promises, timers, start)';
}
