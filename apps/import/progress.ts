type Counts = { share: number; rows: number; imported: number; existing: number; failed: number };

const WIDTH = 30;

/** Shows how far a file is: on a terminal in one line that is overwritten, elsewhere a line every ten seconds. */
export function showProgress(read: () => Counts) {
  const { stderr } = process;
  const since = performance.now();
  const show = () => {
    const { share, rows, imported, existing, failed } = read();
    const full = Math.floor(Math.min(1, share) * WIDTH);
    const bar = '█'.repeat(full) + '░'.repeat(WIDTH - full);
    const perSecond = Math.round((rows * 1_000) / (performance.now() - since));
    const text = `${bar} ${Math.floor(100 * Math.min(1, share))} %  ${imported} imported, ${existing} before, ${failed} refused, ${perSecond}/s`;
    stderr.write(stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`);
  };
  const timer = setInterval(show, stderr.isTTY ? 200 : 10_000);
  return {
    end() {
      clearInterval(timer);
      if (stderr.isTTY) stderr.write('\r\x1b[K');
    },
  };
}
