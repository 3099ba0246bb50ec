# Shell functions that the README and the pages of docs/ use. Load them after the addresses and the token:
#   . .keytally/env; . docs/api.sh
# They print an answer to standard output, so that a variable can take it. An error answer goes to standard error instead,
# and the function fails. Needs curl 7.76 or newer; `field` needs Node.

# api METHOD PATH [curl options]: send a request to the api.
api() {
  api_method=$1 api_path=$2
  shift 2
  with_token -X "$api_method" "$KEYTALLY_API_URL$api_path" "$@"
}

# verify BODY [curl options]: ask verify about an API key.
verify() {
  verify_body=$1
  shift
  with_token "$KEYTALLY_VERIFY_URL/api/v1/api-key/verify" -d "$verify_body" "$@"
}

# field PATH: print one field of the JSON on standard input, such as apiKey.key.
field() {
  node -e '
    const answer = require("fs").readFileSync(0, "utf8");
    // The request before the pipe failed, and has said why.
    if (answer.trim() === "") process.exit(1);
    let value;
    try {
      value = new Function("answer", "return answer." + process.argv[1])(JSON.parse(answer));
    } catch {}
    if (value === undefined) {
      console.error("field: no " + process.argv[1] + " in this answer: " + answer.trim());
      process.exit(1);
    }
    process.stdout.write((typeof value === "object" ? JSON.stringify(value) : value) + "\n");
  ' "$1"
}

# first_key: make a workspace and a key in it, and ask verify about the key.
first_key() {
  WORKSPACE=$(api POST /api/v1/workspace -d '{"name": "demo"}' | field workspace.id) &&
    KEY=$(api POST /api/v1/api-key -d '{"name": "first", "workspaceId": "'"$WORKSPACE"'"}' | field apiKey.key) &&
    verify '{"key": "'"$KEY"'"}'
}

# with_token CURL-ARGUMENTS…: send a request with the access token of the environment.
with_token() {
  if with_token_answer=$(curl -sS --fail-with-body -H "Authorization: Bearer $KEYTALLY_TOKEN" -H 'Content-Type: application/json' "$@"); then
    printf '%s\n' "$with_token_answer"
  else
    printf '%s\n' "$with_token_answer" >&2
    return 1
  fi
}
