/** Lists as OpenAI pages them. */
import { z } from 'zod';

export const pageQuery = z.object({
  after: z.string().max(200).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
});

export interface Page<T> {
  readonly object: 'list';
  readonly data: readonly T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

export const page = <T extends { readonly id: string }>(
  data: readonly T[],
  hasMore: boolean,
): Page<T> => ({
  object: 'list',
  data,
  first_id: data[0]?.id ?? null,
  last_id: data.at(-1)?.id ?? null,
  has_more: hasMore,
});

/** Page of the items after the one with that id. */
export function pageOf<T extends { readonly id: string }>(
  all: readonly T[],
  { after, limit }: { readonly after?: string | undefined; readonly limit: number },
): Page<T> {
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  return page(all.slice(from, from + limit), all.length > from + limit);
}
