import { ensureProgram, type Wanted } from '../../apps/stack/servers/packages.ts';

// Debian puts servers into a folder that a user's PATH may lack.
const gateway = (name: string, version: string): Wanted => ({
  what: name,
  commands: [name, `/usr/sbin/${name}`],
  version,
  packages: [name],
  brew: name,
  missing: `the example for ${name} is tested with ${name}, which is not installed`,
});

/** Programs that Debian packages, by the end of the names of the files that are tested with them. */
export const packaged: Record<string, Wanted> = {
  nginx: gateway('nginx', '-v'),
  caddy: gateway('caddy', 'version'),
  haproxy: gateway('haproxy', '-v'),
  chromium: {
    what: 'Chromium',
    commands: ['chromium', 'chromium-headless-shell', 'google-chrome', 'chromium-browser'],
    version: '--version',
    packages: ['chromium-headless-shell', 'chromium'],
    brew: '--cask chromium',
    missing: 'pages are tested in Chromium, and none is installed',
  },
  prometheus: {
    what: 'Prometheus',
    commands: ['promtool'],
    version: '--version',
    packages: ['prometheus'],
    brew: 'prometheus',
    missing: 'the rules are tested with promtool, which is not installed',
  },
  systemd: {
    what: 'systemd',
    commands: ['systemd-analyze'],
    version: '--version',
    packages: ['systemd'],
    brew: 'systemd, which runs on Linux alone',
    missing: 'units are tested with systemd-analyze, which is not installed',
  },
  go: {
    what: 'Go',
    commands: ['go', '/usr/local/go/bin/go', '/usr/lib/go/bin/go'],
    version: 'version',
    // Debian 12 has this version, and clients/go is written for it.
    isNew: (said) => Number(/ go1\.(\d+)/.exec(said)?.[1]) >= 19,
    packages: ['golang-go'],
    brew: 'go',
    missing: 'the Go client is tested with Go 1.19 or newer, which is not installed',
  },
};

/** Finds or installs one of them; gives the environment of tests that run it. */
export async function ensurePackaged(name: string, say: (line: string) => void): Promise<Record<string, string>> {
  return { [`TEST_${name.toUpperCase()}`]: await ensureProgram(packaged[name]!, say) };
}
