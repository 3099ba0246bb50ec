/** The value below which this part (0 to 1) of the sorted values lies. */
export function percentile(sorted: number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

/** A whole number with commas. */
export function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}
