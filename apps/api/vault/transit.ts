import type { Config } from '../../../shared/runtime/variables.ts';

const WITHIN_MS = 10_000;
const KEY_BYTES = 32;

type TransitSettings = Pick<
  Config,
  | 'VAULT_ADDR'
  | 'VAULT_NAMESPACE'
  | 'VAULT_TOKEN'
  | 'VAULT_TRANSIT_MOUNT'
  | 'VAULT_TRANSIT_KEY'
  | 'MASTER_KEY_CIPHERTEXT'
>;

/** Asks the transit engine of Vault to decrypt the master key; gives it in base64. No message of an error has it. */
export async function decryptByTransit(settings: TransitSettings, withinMs = WITHIN_MS): Promise<string> {
  const { VAULT_ADDR: address, VAULT_TRANSIT_MOUNT: mount, VAULT_TRANSIT_KEY: name } = settings;
  const path = `${mount.replaceAll(/^\/|\/$/g, '')}/decrypt/${encodeURIComponent(name)}`;
  let response: Response;
  let text: string;
  try {
    response = await fetch(`${address}/v1/${path}`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'X-Vault-Request': 'true',
        'X-Vault-Token': settings.VAULT_TOKEN,
        ...(settings.VAULT_NAMESPACE && { 'X-Vault-Namespace': settings.VAULT_NAMESPACE }),
      },
      body: JSON.stringify({ ciphertext: settings.MASTER_KEY_CIPHERTEXT }),
      // Another host would get the token.
      redirect: 'manual',
      signal: AbortSignal.timeout(withinMs),
    });
    text = await response.text();
  } catch (error) {
    const late = (error as Error).name === 'TimeoutError';
    throw new Error(`${address} ${late ? `did not answer within ${withinMs / 1000} s` : causeOf(error)}`, {
      cause: error,
    });
  }
  if (response.status !== 200) throw new Error(refusal(address, path, response, text));
  const plaintext = answerIn(text).data?.plaintext;
  if (typeof plaintext !== 'string')
    throw new Error(`${address} answered 200, but with nothing decrypted: is it Vault?`);
  if (Buffer.from(plaintext, 'base64').length !== KEY_BYTES)
    throw new Error(
      `MASTER_KEY_CIPHERTEXT holds no key of ${KEY_BYTES} bytes: make one with \`vault write -f transit/datakey/wrapped/${name}\``,
    );
  return plaintext;
}

function causeOf(error: unknown): string {
  const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
  return `does not answer (${code ?? message})`;
}

function refusal(address: string, path: string, { status, headers }: Response, text: string): string {
  const { errors } = answerIn(text);
  const said = Array.isArray(errors) ? errors.join('; ').replaceAll(/\s+/g, ' ').slice(0, 300) : '';
  const answer = `${address} answered ${status}${said && ` (${said})`}`;
  if (status >= 300 && status < 400)
    return `${answer}: it sends to ${headers.get('location') ?? 'another address'}; name the active node in VAULT_ADDR`;
  if (status === 403)
    return `${answer}: VAULT_TOKEN has ended, or its policy lacks \`path "${path}" { capabilities = ["update"] }\``;
  if (status === 404) return `${answer}: no transit engine is mounted there; set VAULT_TRANSIT_MOUNT`;
  if (status === 400) return `${answer}: MASTER_KEY_CIPHERTEXT was not encrypted under this key; set VAULT_TRANSIT_KEY`;
  if (status === 503) return `${answer}: Vault is sealed, or has no active node`;
  return answer;
}

type Answer = { errors?: unknown; data?: { plaintext?: unknown } };

function answerIn(text: string): Answer {
  try {
    return (JSON.parse(text) as Answer | null) ?? {};
  } catch {
    return {};
  }
}
