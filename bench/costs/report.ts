import { table } from '../../apps/stack/demo/print.ts';
import { chart, type Bar } from '../chart.ts';
import { machine, ms } from '../report.ts';
import { whole } from '../results.ts';
import { wholeUs, type CostFigure, type Costs } from './figures.ts';
import { ALONE, apps, BARE, guarded, processes } from './rows.ts';

const shown: Record<(typeof processes)[number], { name: string; colour: string }> = {
  app: { name: 'app', colour: '#8b949e' },
  verify: { name: 'verify', colour: '#2f81f7' },
  redis: { name: 'Redis', colour: '#d29922' },
  consumer: { name: 'consumer', colour: '#3fb950' },
  clickhouse: { name: 'ClickHouse', colour: '#a371f7' },
};

/** The CPU of each process per verification as a table, in µs and in requests of the bare server. */
export function costsTable(costs: Costs): string {
  const bareUs = wholeUs(costs.get(BARE)!);
  const cell = (us: number | undefined) => (us === undefined ? '' : `${us.toFixed(1)} (${(us / bareUs).toFixed(2)})`);
  const rows = [...costs].map(([name, cost]) => [
    name,
    ...processes.map((one) => cell(cost.cpuUs[one])),
    cell(wholeUs(cost)),
    whole(cost.perSecond),
    ms(cost.p50Us),
    ms(cost.p99Us),
  ]);
  const columns = [...processes.map((one) => `>${shown[one].name}`), '>all', '>calls/s', '>p50', '>p99'];
  const title =
    'CPU per verification in µs (in requests of bare node:http), the whole pipeline running, drain included';
  return `${title}\n${table(['', ...columns], rows)}`;
}

/** What each app that was measured costs behind its guard, in requests of the same app without one; nothing without such an app. */
export function guardsTable(costs: Costs): string | undefined {
  const rows = apps.flatMap((name) => {
    const [alone, behind] = [costs.get(name), costs.get(guarded(name))];
    if (!alone || !behind) return [];
    const [aloneUs, behindUs] = [alone.cpuUs.app!, behind.cpuUs.app!];
    const times = (us: number) => (us / aloneUs).toFixed(2);
    return [[name, aloneUs.toFixed(1), behindUs.toFixed(1), times(behindUs), times(wholeUs(behind))]];
  });
  if (rows.length === 0) return undefined;
  const columns = ['>alone', '>behind the guard', '>times', '>times, all processes'];
  return `CPU of the app per request in µs\n${table(['', ...columns], rows)}`;
}

/** The same as a chart, as SVG, with what is wanted beside what was reached. */
export function drawCosts(costs: Costs, figures: CostFigure[]): string {
  const bareUs = wholeUs(costs.get(BARE)!);
  const bars = [...costs].map(([name, cost]): Bar => {
    // Behind a lone call the pipeline mostly waits: what it costs there would hide the other rows.
    const cpuUs = name === ALONE ? { app: cost.cpuUs.app! } : cost.cpuUs;
    const all = wholeUs({ cpuUs });
    const ofRow = figures.filter(({ row }) => row === name);
    const whole = ofRow.find(({ part }) => !part);
    return {
      name,
      parts: processes.map((one) => ({ value: cpuUs[one] ?? 0, colour: shown[one].colour })),
      note: [
        `${all.toFixed(1)} µs, ${(all / bareUs).toFixed(2)} × bare${whole ? ` (wanted ${whole.must})` : ''}`,
        ...ofRow.flatMap(({ part, value, must, measuredIn }) =>
          part ? `${part} ${value.toFixed(2)} × ${measuredIn} (wanted ${must})` : [],
        ),
      ].join('; '),
    };
  });
  return chart({
    title: 'CPU per verification, the whole pipeline running',
    subtitle: machine(),
    legend: processes.map((one) => shown[one]),
    bars,
  });
}
