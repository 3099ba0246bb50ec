/** The most that a JSON object from outside may be; the object itself is depth 1. */
export type JsonLimits = { maxBytes: number; maxDepth: number };

/**
 * What is wrong with a value that is to be a JSON object within limits, or `undefined` when it may be kept and given
 * back as it is. Names by which JavaScript reaches a prototype are refused at any depth: whoever parses the object
 * later and copies it carelessly would change objects that are not its own.
 */
export function checkJsonObject(value: unknown, { maxBytes, maxDepth }: JsonLimits): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'must be a JSON object';
  // Depth before size: measuring an object that is nested too deeply could exhaust the stack.
  const problem = checkValue(value, maxDepth, maxDepth);
  if (problem) return problem;
  const bytes = Buffer.byteLength(JSON.stringify(value));
  return bytes > maxBytes ? `must be at most ${maxBytes} bytes as JSON, and is ${bytes}` : undefined;
}

const forbiddenNames = new Set(['__proto__', 'constructor', 'prototype']);

function checkValue(value: unknown, levelsLeft: number, maxDepth: number): string | undefined {
  // JSON.parse reads 1e400 as Infinity, which could only be given back as null.
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
