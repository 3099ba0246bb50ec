// An API in Koa, alone or behind its guard. PORT; VERIFY_URL and TOKEN put the guard before it.
import Koa from 'koa';
import { identityOf, keytally, koaGuard } from '../../clients/node/index.ts';

const { PORT, VERIFY_URL, TOKEN } = process.env;
const client = VERIFY_URL ? keytally({ url: VERIFY_URL, token: TOKEN, verifyTimeoutMs: 10_000 }) : undefined;
const app = new Koa();
// Outside the guard: how the benchmark sees that the program is ready.
app.use((ctx, next) => (ctx.path === '/' ? void (ctx.body = 'ready') : next()));
if (client) app.use(koaGuard(client, { cost: '0.001', scopes: [{ representation: 'users', read: true }] }));
app.use((ctx) => {
  ctx.body = { name: 'Ada', status: client ? identityOf(ctx).status : 'OPEN' };
});
app.listen(Number(PORT), '127.0.0.1');
