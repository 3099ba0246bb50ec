import type { Figure } from './results.ts';

/** How long to measure: rounds of so many seconds, shared out over several processes of each kind. */
export type HowLong = { rounds: number; seconds: number; processes: number };

/** What a part of the benchmark found. */
export type Part = {
  figures: Figure[];
  /** Whether nothing passed a limit. */
  exact: boolean;
  /** SVG by the name of its file. */
  charts: Record<string, string>;
  print(): void;
};
