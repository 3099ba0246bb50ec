/** What the supervisor tells the `make up` that waits for it. */
export type Message =
  { begin: string } | { end: string; ms: number } | { note: string } | { ready: true } | { failed: string };

export interface Progress {
  begin(label: string): void;
  end(label: string, ms: number): void;
  note(line: string): void;
  close(): void;
}

/** Shows finished steps as lines with their times; on a terminal, the last line shows the steps at work. */
export function makeProgress(out: NodeJS.WriteStream): Progress {
  const open = new Map<string, number>();
  const timer = out.isTTY ? setInterval(draw, 200) : undefined;

  return {
    begin(label) {
      open.set(label, performance.now());
      draw();
    },
    end(label, ms) {
      open.delete(label);
      line(`  ${label.padEnd(36)} ${(ms / 1000).toFixed(1).padStart(5)} s`);
    },
    note: (text) => line(`  ${text}`),
    close() {
      clearInterval(timer);
      if (out.isTTY) out.write('\r\x1b[K');
    },
  };

  function line(text: string): void {
    out.write(out.isTTY ? `\r\x1b[K${text}\n` : `${text}\n`);
    draw();
  }

  function draw(): void {
    if (!out.isTTY || open.size === 0) return;
    const seconds = ((performance.now() - Math.min(...open.values())) / 1000).toFixed(1);
    const text = `  … ${[...open.keys()].join(', ')}  ${seconds} s`;
    out.write(`\r\x1b[K${text.slice(0, (out.columns || 80) - 1)}`);
  }
}
