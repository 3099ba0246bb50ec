import type { ApiError } from '../../shared/contract/errors.ts';
import { importedTextFields, readImportedText } from '../../shared/contract/imported-texts.ts';
import { object } from '../../shared/contract/schema-kinds.ts';
import { bodyValidator } from '../../shared/contract/validate.ts';
import type { Item } from './rows.ts';
import type { Result } from './send.ts';

const secretIn = bodyValidator(object(importedTextFields));

/** Says of keys what keytally would say of their secrets, and imports none: for a dry run. */
export function checkKeys(keys: Item[]): Result[] {
  return keys.map(({ key, hash, allowWeak }) => {
    try {
      readImportedText(secretIn(JSON.parse(JSON.stringify({ key, hash, allowWeak }))), '');
      return { result: 'imported' };
    } catch (error) {
      const { code, message } = error as ApiError;
      return { error: { code, message } };
    }
  });
}
