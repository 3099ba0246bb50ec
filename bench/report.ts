import { cpus } from 'node:os';
import { table } from '../apps/stack/demo/print.ts';
import { chart } from './chart.ts';
import type { Phase } from './overload.ts';
import type { PeerResult } from './peers.ts';
import type { Share } from './profile.ts';
import { whole } from './results.ts';
import type { Measured } from './rounds.ts';
import type { ScriptSpeed } from './script-speed.ts';
import { CREDITS_CALLS, RATE } from './world.ts';

/** Prints verify beside the bare server and its peers: how fast, and how exact. */
export function printBeside(
  bare: Measured,
  ours: Measured,
  exact: { credits: number; rate: number },
  peers: PeerResult[],
): void {
  const rows = [
    ['bare node:http', whole(bare.perSecond), ms(bare.p50Us), ms(bare.p99Us), '', ''],
    ['keytally', whole(ours.perSecond), ms(ours.p50Us), ms(ours.p99Us), String(exact.credits), String(exact.rate)],
    ...peers.map((peer) => [
      peer.name,
      whole(peer.perSecond),
      ms(peer.p50Us),
      ms(peer.p99Us),
      String(peer.credits),
      String(peer.rate),
    ]),
  ];
  console.log(
    `\n${table(['64 connections', '>calls/s', '>p50', '>p99', `>overspent of ${whole(CREDITS_CALLS)}`, `>above ${RATE}/s`], rows)}`,
  );
}

/** Prints how fast Redis alone decides, on one connection like verify's and at its limit, beside a plain GET. */
export function printScripts(one: ScriptSpeed, limit: ScriptSpeed): void {
  const names: [keyof ScriptSpeed, string][] = [
    ['get', 'a plain GET'],
    ['batched', 'verifications, 16 to a script'],
    ['lookedUp', 'the same, each with its records looked up'],
    ['single', 'verifications, a script each'],
    ['sketch', 'a sketch: fields, rate, debit, event'],
  ];
  const rows = names.map(([name, what]) => [
    what,
    ...[one, limit].flatMap((speed) => [whole(speed[name]), (speed[name] / speed.get).toFixed(2)]),
  ]);
  const columns = ['pipelined 16 deep', '>1 connection', '>of GET', '>50 connections', '>of GET'];
  console.log(`\nRedis alone, calls/s\n${table(columns, rows)}`);
}

/** Prints what happens under more load than verify can serve. */
export function printOverload(phases: Phase[]): void {
  const rows = phases.map(({ name, offered, served, p99Ms, refused, refusedP99Ms, unanswered }) => [
    name,
    whole(offered),
    whole(served),
    `${p99Ms.toFixed(1)} ms`,
    whole(refused),
    refused > 0 ? `${refusedP99Ms.toFixed(1)} ms` : '',
    whole(unanswered),
  ]);
  console.log(
    `\nunder overload (open loop)\n${table(['', '>offered/s', '>served/s', '>p99', '>503/s', '>p99', '>unanswered'], rows)}`,
  );
}

/** Prints how many calls several processes on one port decide. */
export function printWorkers(scaling: { workers: number; perSecond: number }[]): void {
  const rows = scaling.map(({ workers, perSecond }) => [String(workers), whole(perSecond)]);
  console.log(`\nverify processes on one port (WORKERS)\n${table(['workers', '>calls/s'], rows)}`);
}

/** Prints where the CPU of a verification goes in verify. */
export function printProfile(cpuUs: number, shares: Share[]): void {
  const rows = shares.map(({ part, share }) => [part, `${(100 * share).toFixed(0)} %`, (share * cpuUs).toFixed(1)]);
  const title = `where the ${cpuUs.toFixed(1)} µs of CPU of a verification go in verify`;
  console.log(`\n${title}\n${table(['part', '>share', '>µs'], rows)}`);
}

/** Draws verify beside the bare server and its peers, as SVG. */
export function drawChart(bare: Measured, ours: Measured, peers: PeerResult[]): string {
  const others = '#8b949e';
  const bar = (name: string, { perSecond }: { perSecond: number }, said = '', colour = others) => {
    return { name, parts: [{ value: perSecond, colour }], note: `${whole(perSecond)}/s${said}` };
  };
  return chart({
    title: 'Verifications per second, one process, 64 connections',
    subtitle: `${machine()}; client, Redis and server on one machine`,
    bars: [
      bar('bare node:http', bare),
      bar('keytally verify', ours, ', exact', '#2f81f7'),
      ...peers.map((peer) => {
        const overspent = `${whole(peer.credits)} of ${whole(CREDITS_CALLS)} overspent`;
        return bar(peer.name, peer, `, ${peer.credits > 0 ? overspent : 'exact'}`);
      }),
    ],
  });
}

/** The day, and the machine that this runs on. */
export function machine(): string {
  const [cpu] = cpus();
  const day = new Date().toISOString().slice(0, 10);
  return `${day}, ${cpus().length} cores ${cpu?.model.trim() ?? ''}, Node ${process.versions.node}`;
}

/** Microseconds, printed as milliseconds. */
export function ms(us: number): string {
  return `${(us / 1000).toFixed(2)} ms`;
}

/** Microseconds, printed as such. */
export function us(value: number): string {
  return `${value.toFixed(1)} µs`;
}
