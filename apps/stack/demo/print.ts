/** A bar of `width` characters, filled to `share` (0 to 1). */
export function bar(share: number, width: number): string {
  const eighths = Math.round(share * width * 8);
  const full = '█'.repeat(Math.floor(eighths / 8));
  return (full + (['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8] ?? '')).padEnd(width, ' ');
}

/** The value below which this part (0 to 1) of the sorted values lies. */
export function percentile(sorted: number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? NaN;
}

/** A whole number with commas. */
export function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}
