import { wrong } from './call.ts';

type Names = Record<string, string | null>;

/** What usage names are called elsewhere, as text: `tokens=llm_tokens, internal=`. */
export function textOfNames(names: Record<string, unknown>): string {
  return Object.entries(names as Names)
    .map(([name, called]) => `${name}=${called ?? ''}`)
    .join(', ');
}

/** The names in such a text. */
export function namesIn(text = ''): Names {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  const names = pairs.map((pair) => {
    const [name = '', called, ...rest] = pair.split('=').map((one) => one.trim());
    if (called === undefined || rest.length > 0) throw refused('must have one = in each name, such as a=b, c=');
    return [name, called || null] as const;
  });
  return Object.fromEntries(names);
}

/** The names in a text that was edited; nothing where it is as it was shown. */
export function changedNames(before: Record<string, unknown>, text = ''): { eventNames?: Names } {
  if (text === textOfNames(before).trim()) return {};
  const texts = Object.entries(before as Names).flat();
  if (texts.some((one) => /[,=]|^\s|\s$/.test(one ?? '')))
    throw refused('holds commas, = or spaces inside of names: the api alone can change it');
  return { eventNames: namesIn(text) };
}

const refused = (message: string) => wrong('The event names stay as they were.', [{ path: 'eventNames', message }]);
