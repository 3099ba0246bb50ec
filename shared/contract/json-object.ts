/** How large and how deep a JSON object from a client may be; the object itself is depth 1. */
export type JsonLimits = { maxBytes: number; maxDepth: number };

/**
 * Checks that a value is a JSON object within limits. Answers what is wrong with it, or `undefined` when it can be stored
 * and returned unchanged. Names by which JavaScript reaches a prototype are refused at any depth: a program that parses
 * the object later and copies it carelessly would change the prototype of other objects.
 */
export function checkJsonObject(value: unknown, { maxBytes, maxDepth }: JsonLimits): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'must be a JSON object';
  // Check depth before size: measuring an object that is nested too deeply could exhaust the stack.
  const problem = checkValue(value, maxDepth, maxDepth);
  if (problem) return problem;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes > maxBytes ? `must be at most ${maxBytes} bytes as JSON, and is ${bytes}` : undefined;
}

const forbiddenNames = new Set(['__proto__', 'constructor', 'prototype']);

function checkValue(value: unknown, levelsLeft: number, maxDepth: number): string | undefined {
  // JSON.parse reads 1e400 as Infinity, which JSON.stringify would return as null.
  if (typeof value === 'number' && !Number.isFinite(value))
    return 'must not hold a number beyond the range of a double';
  if (typeof value !== 'object' || value === null) return undefined;
  if (levelsLeft === 0) return `must be nested at most ${maxDepth} deep`;
  for (const [name, inner] of Object.entries(value)) {
    if (forbiddenNames.has(name)) return `must not have a field named ${name}`;
    const problem = checkValue(inner, levelsLeft - 1, maxDepth);
    if (problem) return problem;
  }
  return undefined;
}
