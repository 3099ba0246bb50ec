# Makes what the guides to protect an API begin with: a workspace, a customer (the meter acme) with ten credits, an API key for the
# customer, and an access token that may verify keys of the workspace and nothing else. Load it after the addresses and the token:
#   . .keytally/env; . docs/customer.sh
# It sets WORKSPACE, KEY and VERIFY_TOKEN.
. docs/api.sh

WORKSPACE=$(api POST /api/v1/workspace -d '{"name": "my-api"}' | field workspace.id)
api POST /api/v1/customer-billing -d '{"workspaceId": "'"$WORKSPACE"'", "externalMeterId": "acme", "totalCredits": "10"}' >/dev/null
KEY=$(api POST /api/v1/api-key -d '{"name": "acme", "workspaceId": "'"$WORKSPACE"'", "customerId": "cus_acme", "externalMeterId": "acme"}' |
  field apiKey.key)
VERIFY_TOKEN=$(api POST /api/v1/access-token -d '{"name": "my-api", "permissions": ["key:verify"], "workspaceIds": ["'"$WORKSPACE"'"]}' |
  field accessToken.token)
