import { ms } from './report.ts';
import { whole, type Figure } from './results.ts';
import type { Measured } from './rounds.ts';
import type { ScriptSpeed } from './script-speed.ts';

type Options = {
  /** With 64 connections, and with one: by contender. */
  busy: Map<string, Measured>;
  quiet: Map<string, Measured>;
  script: ScriptSpeed;
  /** Redis memory of a key. */
  bytes: number;
  /** Megabytes of verify, after 200,000 calls and after 2,000,000. */
  memory: { early: number; late: number };
  /** How many keys the large world has. */
  keys: number;
};

/** The figures of a run with what each must reach, and the two servers that most of them compare. */
export function figuresOf({ busy, quiet, script, bytes, memory, keys }: Options) {
  const get = (of: Map<string, Measured>, name: string) => of.get(name)!;
  const [bare, ours] = [get(busy, 'bare'), get(busy, 'small')];
  const [ofLarge, gateway] = [get(busy, 'large'), get(busy, 'gateway')];
  const [pinged, alone] = [get(quiet, 'bare-ping'), get(quiet, 'small')];
  const figures: Figure[] = [
    {
      what: 'throughput, 64 connections, against bare node:http',
      value: ours.perSecond / bare.perSecond,
      must: 0.55,
      aim: 0.7,
      seen: `${whole(ours.perSecond)} of ${whole(bare.perSecond)}/s`,
    },
    {
      what: 'p99 under that load, against the bare one',
      value: ours.p99Us / bare.p99Us,
      must: 4,
      aim: 2.5,
      lessIsBetter: true,
      seen: `${ms(ours.p99Us)} against ${ms(bare.p99Us)}`,
    },
    {
      what: 'script, pipelined 16 deep, against a plain GET',
      value: script.batched / script.get,
      must: 0.11,
      aim: 0.15,
      seen: `${whole(script.batched)} of ${whole(script.get)}/s`,
    },
    {
      what: `throughput with ${whole(keys)} keys, against 1,000`,
      value: ofLarge.perSecond / ours.perSecond,
      must: 0.95,
      aim: 0.98,
      seen: `${whole(ofLarge.perSecond)}/s`,
    },
    {
      what: 'throughput of the endpoint for gateways, against verify',
      value: gateway.perSecond / ours.perSecond,
      must: 0.9,
      aim: 1,
      seen: `${whole(gateway.perSecond)}/s`,
    },
    {
      what: 'Redis memory of a key, bytes',
      value: bytes,
      must: 700,
      aim: 450,
      lessIsBetter: true,
      seen: 'three scopes, small metadata',
    },
    {
      what: 'p50, one connection, against bare and a PING',
      value: alone.p50Us / pinged.p50Us,
      must: 1.5,
      aim: 1.2,
      lessIsBetter: true,
      seen: `${ms(alone.p50Us)} against ${ms(pinged.p50Us)}`,
    },
    {
      what: 'memory after 2,000,000 calls, against 200,000',
      value: memory.late / memory.early,
      must: 1.05,
      aim: 1,
      lessIsBetter: true,
      seen: `${whole(memory.late)} against ${whole(memory.early)} MB`,
    },
  ];
  return { figures, bare, ours };
}
