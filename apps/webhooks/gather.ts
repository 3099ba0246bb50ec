/**
 * Makes a function that does some work for many at a time: what comes while it works waits, and is then done together, at most
 * `most` at once. Each gets the result at its place, or the error of all that it was done with.
 */
export function gather<Item, Result>(most: number, work: (items: Item[]) => Promise<Result[]>) {
  const waiting: { item: Item; resolve: (result: Result) => void; reject: (error: unknown) => void }[] = [];
  let isBusy = false;

  return function add(item: Item): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    waiting.push({ item, resolve, reject });
    if (!isBusy) void workOff();
    return promise;
  };

  async function workOff(): Promise<void> {
    isBusy = true;
    while (waiting.length > 0) {
      const some = waiting.splice(0, most);
      try {
        const results = await work(some.map(({ item }) => item));
        for (const [i, { resolve }] of some.entries()) resolve(results[i]!);
      } catch (error) {
        for (const { reject } of some) reject(error);
      }
    }
    isBusy = false;
  }
}
