/** One bar: its name, its value, and the note beside it. */
export type Bar = { name: string; value: number; note: string; ours?: boolean };

const ROW = 30;
const LEFT = 250;
const WIDTH = 360;

/** A bar chart as SVG in the given order, readable on light and dark pages. */
export function chart(title: string, subtitle: string, bars: Bar[]): string {
  const most = Math.max(...bars.map(({ value }) => value));
  const rows = bars.map(({ name, value, note, ours }, i) => {
    const y = 60 + i * ROW;
    const width = Math.max(1, Math.round((WIDTH * value) / most));
    return [
      `<text x="${LEFT - 10}" y="${y + 14}" text-anchor="end">${escape(name)}</text>`,
      `<rect x="${LEFT}" y="${y}" width="${width}" height="20" rx="2" fill="${ours ? '#2f81f7' : '#8b949e'}"/>`,
      `<text x="${LEFT + width + 8}" y="${y + 14}">${escape(note)}</text>`,
    ].join('\n  ');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="860" height="${70 + bars.length * ROW}" font-family="sans-serif" font-size="13" fill="#6e7781">
  <text x="10" y="22" font-size="16" font-weight="bold">${escape(title)}</text>
  <text x="10" y="42">${escape(subtitle)}</text>
  ${rows.join('\n  ')}
</svg>
`;
}

function escape(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
}
