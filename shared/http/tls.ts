import { readFileSync, statSync } from 'node:fs';
import type { Server as HttpsServer } from 'node:https';
import { systemClock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

/** The paths of a server's certificate chain and private key, both PEM. */
export type TlsFiles = { certificatePath: string; keyPath: string };

const CHECK_EVERY_MS = 1_000;

/** The contents of the files, as a TLS server takes them. */
export function readTls({ certificatePath, keyPath }: TlsFiles): { cert: Buffer; key: Buffer } {
  return { cert: readFileSync(certificatePath), key: readFileSync(keyPath) };
}

/**
 * Uses a new certificate for new connections as soon as its files have changed. While the files do not fit together, the
 * old one stays in use.
 */
export function followTls(server: HttpsServer, files: TlsFiles, log: Logger): Loop {
  let seen = signature(files);
  return startLoop(systemClock, CHECK_EVERY_MS, log, 'reading a new certificate', async () => {
    const now = signature(files);
    if (now === seen) return;
    server.setSecureContext(readTls(files));
    seen = now;
    log.info('the certificate was renewed');
  });
}

function signature({ certificatePath, keyPath }: TlsFiles): string {
  return [certificatePath, keyPath]
    .map((path) => {
      const { mtimeMs, ino, size } = statSync(path);
      return `${mtimeMs} ${ino} ${size}`;
    })
    .join(' ');
}
