// Preloaded by NODE_OPTIONS: tells on standard error which modules of OpenTelemetry a program loads.
import { registerHooks } from 'node:module';

registerHooks({
  load(url, context, next) {
    if (url.includes('/@opentelemetry/')) process.stderr.write(`loaded ${url}\n`);
    return next(url, context);
  },
});
