import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Makes a certificate of this machine that only its own file vouches for, and its key; gives both PEM files' paths. */
export function makeCertificate(folder: string, name: string): { certificate: string; key: string } {
  const [certificate, key] = [join(folder, `${name}-cert.pem`), join(folder, `${name}-key.pem`)];
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-days', '2'];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const args = ['req', '-x509', ...kind, ...subject, '-keyout', key, '-out', certificate];
  execFileSync('openssl', args, { stdio: 'pipe' });
  return { certificate, key };
}
