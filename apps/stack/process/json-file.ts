import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/** Reads a JSON file; undefined when it is missing or is not JSON. */
export function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Replaces a file at once: a reader finds the old text or the new one, never a part. */
export function replaceFile(file: string, text: string, mode = 0o600): void {
  const fresh = `${file}.${process.pid}.new`;
  writeFileSync(fresh, text, { mode });
  renameSync(fresh, file);
}
