import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

export type Certificate = { certificate: string; key: string };

/** Makes a certificate of this machine and a public name that only its own file vouches for, and its key; gives both PEM files' paths. */
export function makeCertificate(folder: string, name: string): Certificate {
  mkdirSync(folder, { recursive: true });
  const [certificate, key] = [join(folder, `${name}-cert.pem`), join(folder, `${name}-key.pem`)];
  const names = 'subjectAltName=DNS:hooks.example.com,DNS:localhost,IP:127.0.0.1';
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const args = ['req', '-x509', '-subj', `/CN=${name}`, '-addext', names, ...kind, '-keyout', key, '-out', certificate];
  execFileSync('openssl', args, { stdio: 'pipe' });
  return { certificate, key };
}
