# One image for all programs of keytally; what runs in a container is its command, the api where none is given.
# The Node of package.json, so that what runs here is what the tests run on.
FROM node:26.10.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY clients/node/package.json clients/node/
# Without what only development and the stack of one machine need: servers, compiler, linter, Node itself, 870 MB of 920.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

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
# A user of no other container and of no usual host: it owns nothing, in the image and outside.
USER 10001:10001
CMD ["node", "apps/api/main.ts"]
