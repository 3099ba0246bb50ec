/** The value under a name, which is made if it is missing. */
export function entryOf<Value>(map: Map<string, Value>, name: string, make: () => Value): Value {
  const known = map.get(name);
  if (known !== undefined) return known;
  const made = make();
  map.set(name, made);
  return made;
}
