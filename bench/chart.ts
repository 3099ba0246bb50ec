/** One bar: its name, its parts from left to right, and the note beside it. */
export type Bar = { name: string; parts: { value: number; colour: string }[]; note: string };
export type Chart = {
  title: string;
  subtitle: string;
  /** What the colours mean. */
  legend?: { name: string; colour: string }[];
  bars: Bar[];
};

const ROW = 30;
const LEFT = 250;
const WIDTH = 330;
const LEGEND_STEP = 110;

/** A bar chart as SVG in the given order, readable on light and dark pages. */
export function chart({ title, subtitle, legend = [], bars }: Chart): string {
  const most = Math.max(...bars.map(lengthOf));
  const top = legend.length > 0 ? 90 : 60;
  const marks = legend.map(({ name, colour }, i) => {
    const x = LEFT + i * LEGEND_STEP;
    return `<rect x="${x}" y="60" width="12" height="12" rx="2" fill="${colour}"/>\n  ${label(x + 18, 71, name)}`;
  });
  const rows = bars.map((bar, i) => {
    const y = top + i * ROW;
    let x = LEFT;
    const parts = bar.parts.map(({ value, colour }) => {
      const width = Math.round((WIDTH * value) / most);
      const rect = `<rect x="${x}" y="${y}" width="${width}" height="20" rx="2" fill="${colour}"/>`;
      x += width;
      return rect;
    });
    return [label(LEFT - 10, y + 14, bar.name, 'end'), ...parts, label(x + 8, y + 14, bar.note)].join('\n  ');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="980" height="${top + 10 + bars.length * ROW}" font-family="sans-serif" font-size="13" fill="#6e7781">
  <text x="10" y="22" font-size="16" font-weight="bold">${escape(title)}</text>
  <text x="10" y="42">${escape(subtitle)}</text>
  ${[...marks, ...rows].join('\n  ')}
</svg>
`;
}

function lengthOf({ parts }: Bar): number {
  return parts.reduce((sum, { value }) => sum + value, 0);
}

function label(x: number, y: number, text: string, anchor?: 'end'): string {
  return `<text x="${x}" y="${y}"${anchor ? ` text-anchor="${anchor}"` : ''}>${escape(text)}</text>`;
}

function escape(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
}
