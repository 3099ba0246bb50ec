import { dirname } from 'node:path';
import { testGateway } from './helpers/suite.ts';
import { example } from './helpers/gateway.ts';

// The parts of a configuration that the example leaves out. All files stay in the folder of the test.
const around = (folder: string, server: string) => `
worker_processes 1;
daemon off;
pid ${folder}/nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_max_body_size 0;
    ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${folder}/${of};`).join('\n    ')}
    ${server}
}
`;

await testGateway(
  'nginx',
  (write) => {
    const [server, guard] = [example('nginx/api.conf'), example('nginx/keytally.conf')];
    const folder = dirname(write('keytally.conf', guard));
    const file = write('nginx.conf', around(folder, server));
    return { command: process.env.TEST_NGINX!, args: ['-p', folder, '-c', file, '-e', 'stderr'] };
  },
  { rateLimit: true, settles: true },
);
