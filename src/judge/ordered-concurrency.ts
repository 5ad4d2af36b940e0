/**
 * Yields each item with the result of `call`, in the order of the items, with at most `atOnce`
 * calls in progress. An error is thrown in the place of its item, an error of the source after
 * everything before it.
 */
export async function* callAhead<T, R>(
  items: Iterable<T> | AsyncIterable<T>,
  atOnce: number,
  call: (item: T) => Promise<R>,
): AsyncGenerator<readonly [T, R]> {
  const begun: { readonly item: T; readonly result: Promise<R> }[] = [];
  const first = async (): Promise<readonly [T, R]> => {
    const { item, result } = begun.shift()!;
    return [item, await result];
  };
  let failure: { readonly error: unknown } | null = null;
  for await (const given of settled(items)) {
    if ('error' in given) {
      failure = given;
      break;
    }
    const result = call(given.item);
    result.catch(() => undefined); // reported in its turn
    begun.push({ item: given.item, result });
    if (begun.length >= atOnce) yield await first();
  }
  while (begun.length > 0) yield await first();
  if (failure !== null) throw failure.error;
}

async function* settled<T>(
  items: Iterable<T> | AsyncIterable<T>,
): AsyncGenerator<{ readonly item: T } | { readonly error: unknown }> {
  try {
    for await (const item of items) yield { item };
  } catch (error) {
    yield { error };
  }
}
