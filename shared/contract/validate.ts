import { isIP } from 'node:net';
import { Ajv, type ErrorObject, type FuncKeywordDefinition, type ValidateFunction } from 'ajv';
import type { Static, TSchema } from 'typebox';
import { ApiError, type ErrorDetail } from './errors.ts';
import { addressBits, blockBits } from '../values/ip.ts';
import { hideSecrets } from '../values/secrets.ts';

const MAX_DETAILS = 20;
const options = { allErrors: true, useDefaults: true, strict: true, allowUnionTypes: true } as const;
/** The formats that schemas name. */
export const formats = {
  ip: (text: string) => isIP(text) > 0 && addressBits(text) !== undefined,
  'ip-or-cidr': (text: string) => blockBits(text) !== undefined,
  'date-time': /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/,
  date: isDay,
} as const;
const keywords: FuncKeywordDefinition[] = [
  { keyword: 'x-limits', type: 'object', schemaType: 'object', errors: true, validate: withinLimits },
  { keyword: 'x-max-bytes', type: 'string', schemaType: 'number', errors: true, validate: withinBytes },
];
const ajv = new Ajv({ ...options, formats, keywords });

/** How large and how deep a JSON object from a client may be; the object itself is depth 1. */
export type JsonLimits = { maxBytes: number; maxDepth: number };

/** Checks a value against a schema and fills in defaults. Throws a 400 that names every wrong field. */
export type Validate<Schema extends TSchema> = (value: unknown) => Static<Schema>;

/** A validator of JSON bodies. It converts nothing: `"1"` is not a number. */
export function bodyValidator<Schema extends TSchema>(schema: Schema): Validate<Schema> {
  return validator(schema, (pointer) => pointer);
}

/** A validator of path and query parameters. It converts their text to the number or boolean that the schema asks for. */
export function parameterValidator<Schema extends TSchema>(schema: Schema): Validate<Schema> {
  const check = validator(schema, (pointer) => pointer.slice(1));
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> };
  return (value) => {
    const given = Object.entries(value as Record<string, unknown>);
    return check(Object.fromEntries(given.map(([name, text]) => [name, convert(text, properties[name]?.type)])));
  };
}

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

// Not left to Ajv, which would accept `1e400`, `0x10` and white space as numbers.
function convert(text: unknown, type: string | undefined): unknown {
  if (typeof text !== 'string') return text;
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function validator<Schema extends TSchema>(schema: Schema, pathOf: (pointer: string) => string): Validate<Schema> {
  // Compiled by the first value: a program has far more schemas than its first seconds need.
  let check: ValidateFunction | undefined;
  return (value) => {
    check ??= ajv.compile(schema);
    if (check(value)) return value as Static<Schema>;
    const details = (check.errors ?? []).slice(0, MAX_DETAILS).map((error) => {
      const { path, message } = describe(error);
      return { path: pathOf(path), message };
    });
    const message = `The request is not valid: ${details.map((detail) => `${detail.path || 'the body'} ${detail.message}`).join('; ')}.`;
    throw new ApiError('invalid_request', { message, details });
  };
}

function describe({ keyword, instancePath, params, message = 'is not valid' }: ErrorObject): ErrorDetail {
  const fieldPath = (name: unknown) => `${instancePath}/${pointerPart(safeName(String(name)))}`;
  if (keyword === 'additionalProperties') {
    return { path: fieldPath(params['additionalProperty']), message: 'is not a known field' };
  }
  if (keyword === 'required') return { path: fieldPath(params['missingProperty']), message: 'must be given' };
  return { path: instancePath, message };
}

// One part of a JSON pointer (RFC 6901).
function pointerPart(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

// The client chose the field's name: it may be very long, or a secret in the wrong place.
function safeName(name: string): string {
  const hidden = hideSecrets(name);
  return hidden.length > 64 ? `${hidden.slice(0, 64)}…` : hidden;
}

// The keyword `x-limits` of jsonObject schemas.
function withinLimits(limits: JsonLimits, value: object): boolean {
  const message = checkJsonObject(value, limits);
  withinLimits.errors = message ? [{ keyword: 'x-limits', message, params: {} }] : [];
  return !message;
}
withinLimits.errors = [] as Partial<ErrorObject>[];

// The keyword `x-max-bytes` of texts that every event keeps: a character takes up to 4 bytes.
function withinBytes(most: number, text: string): boolean {
  withinBytes.errors = [];
  if (text.length * 3 <= most || Buffer.byteLength(text) <= most) return true;
  withinBytes.errors = [
    { keyword: 'x-max-bytes', message: `must NOT have more than ${most} bytes in UTF-8`, params: {} },
  ];
  return false;
}
withinBytes.errors = [] as Partial<ErrorObject>[];

// A day that the calendar has: Date.parse silently reads 2026-02-30 as another one.
function isDay(text: string): boolean {
  const time = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : NaN;
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}
