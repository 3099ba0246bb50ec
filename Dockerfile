# One image for all programs of keytally. A container's command says which one runs, by default the api.
# It has the Node of package.json, on which the tests run.
FROM node:26.10.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY clients/node/package.json clients/node/
COPY apps/mcp/package.json apps/mcp/
COPY apps/console/package.json apps/console/
# Leaves out what only development and the stack of one machine need: servers, compiler, linter, Node; 870 MB of 920.
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
