import '../../../shared/runtime/require-node.ts';
import { readConfigOrExit } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { decryptByTransit } from '../vault/transit.ts';

// Prints the master key, which the transit engine of Vault decrypts: MASTER_KEY_COMMAND='node apps/api/commands/vault-key.ts'.
const config = readConfigOrExit(programs['vault-key']);
try {
  process.stdout.write(`${await decryptByTransit(config)}\n`);
} catch (error) {
  process.stderr.write(`vault-key: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
