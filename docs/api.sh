# Shell functions that the pages of docs/ use. Load them after the addresses and the token:
#   . .keytally/env; . docs/api.sh

# api METHOD PATH [curl options]: send a request to the api, with the access token of the environment.
api() {
  api_method=$1 api_path=$2
  shift 2
  curl -sS -X "$api_method" "$KEYTALLY_API_URL$api_path" \
    -H "Authorization: Bearer $KEYTALLY_TOKEN" -H 'Content-Type: application/json' "$@"
  echo
}

# verify BODY [curl options]: ask verify about an API key.
verify() {
  verify_body=$1
  shift
  curl -sS "$KEYTALLY_VERIFY_URL/api/v1/api-key/verify" \
    -H "Authorization: Bearer $KEYTALLY_TOKEN" -H 'Content-Type: application/json' -d "$verify_body" "$@"
  echo
}

# field PATH: print one field of the JSON on standard input, such as apiKey.key.
field() {
  node -p "JSON.parse(require('fs').readFileSync(0, 'utf8')).$1"
}
