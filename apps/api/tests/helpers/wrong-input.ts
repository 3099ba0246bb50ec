// What a schema refuses, made from the schema itself.

/** A value that is wrong in one place, and the JSON pointer to that place. Of some an answer tells so much that it has no room for others. */
export type Fault = { at: string; value: any; alone?: true };

// An answer tells of 20 faults, and one value may have several. The smallest body that an operation takes has 16 KiB.
const [MOST, MOST_CHARACTERS] = [6, 12_000];
const OF_EACH_TYPE: Record<string, unknown> = { string: 'x', boolean: true, integer: 1, array: [], object: {} };

/** A value for each way to be wrong: of another type, just beyond each bound, without a field, with one more. */
export function faultsOf(schema: any): Fault[] {
  const types = [schema.type ?? (schema.enum ? 'string' : [])].flat() as string[];
  const here = (...values: unknown[]): Fault[] => values.map((value) => ({ at: '', value }));
  const faults: Fault[] = [];
  const other = Object.keys(OF_EACH_TYPE).find((type) => !types.includes(type) && !isNumber(type, types));
  if (types.length > 0) faults.push(...here(OF_EACH_TYPE[other!]));
  if (schema.enum) faults.push(...here('none of these'));
  if (schema.format) faults.push(...here('no such form'));
  if (schema.minLength > 0) faults.push(...here(''));
  if (schema.maxLength !== undefined) faults.push(...here('x'.repeat(schema.maxLength + 1)));
  const bytes = schema['x-max-bytes'];
  // Four bytes each: few enough characters, and one too many bytes.
  if (bytes !== undefined) faults.push(...here('𝕏'.repeat(bytes / 4 + 1)));
  if (schema.pattern && !new RegExp(schema.pattern, 'u').test('\u0007')) faults.push(...here('\u0007'));
  if (schema.minimum !== undefined) faults.push(...here(schema.minimum - 1));
  if (schema.maximum !== undefined) faults.push(...here(schema.maximum + 1));
  if (schema.minItems > 0) faults.push(...here([]));
  if (types.includes('array'))
    faults.push({ at: '', value: Array(schema.maxItems + 1).fill(null), alone: true }, ...faultsIn(schema.items));
  if (schema.uniqueItems) faults.push(...here(['x', 'x']));
  for (const name of schema.required ?? [])
    if (schema.properties[name].default === undefined) faults.push({ at: `/${name}`, value: {} });
  if (schema.additionalProperties === false) faults.push({ at: '/unknown', value: { unknown: 1 } });
  for (const [name, property] of Object.entries(schema.properties ?? {}))
    for (const fault of faultsOf(property))
      faults.push({ ...fault, at: `/${name}${fault.at}`, value: { [name]: fault.value } });
  return faults;
}

/** The faults in groups, each of which one request can have: all in different fields, and no more than an answer tells of. */
export function together(faults: Fault[]): Fault[][] {
  const groups: Fault[][] = [];
  for (const fault of faults) {
    const field = fieldOf(fault);
    const isFree = (group: Fault[]) =>
      group.length < MOST &&
      !group.some((one) => one.alone || [field, ''].includes(fieldOf(one))) &&
      JSON.stringify(valueOf([...group, fault])).length < MOST_CHARACTERS;
    const group = field === '' || fault.alone ? undefined : groups.find(isFree);
    if (group) group.push(fault);
    else groups.push([fault]);
  }
  return groups;
}

/** The value that has all faults of a group. */
export function valueOf(group: Fault[]): any {
  return group.length === 1 ? group[0]!.value : Object.assign({}, ...group.map(({ value }) => value as object));
}

// Empty where the whole value is wrong.
function fieldOf({ value }: Fault): string {
  return typeof value === 'object' ? (Object.keys(value as object)[0] ?? '') : '';
}

function faultsIn(items: any): Fault[] {
  return faultsOf(items).map((fault) => ({ ...fault, at: `/0${fault.at}`, value: [fault.value] }));
}

function isNumber(type: string, types: string[]): boolean {
  return type === 'integer' && types.includes('number');
}
