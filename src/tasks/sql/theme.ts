/** A figure of an entity: multiples of 10^-decimals from low to high. */
export interface Figure {
  readonly column: string;
  readonly low: number;
  readonly high: number;
  readonly decimals: number;
}

/** A kind of thing that a table holds. */
export interface Entity {
  /** Of the table, and of many of the things. */
  readonly many: string;
  readonly one: string;
  /** Column with the name of each, which no two share. */
  readonly name: string;
  readonly names: readonly string[];
  readonly category: string;
  readonly categories: readonly string[];
  readonly figures: readonly [Figure, Figure];
}

/**
 * What a theme is about: each of `main` belongs to one of `first` and one of `second`, by columns
 * `<one>_id`.
 */
export interface Theme {
  readonly id: string;
  readonly main: Entity;
  readonly first: Entity;
  readonly second: Entity;
}

/** 16 names of two words each. */
export const pairs = (firsts: string, seconds: string): string[] =>
  firsts.split(' ').flatMap((one) => seconds.split(' ').map((other) => `${one} ${other}`));

/** `column low high` or `column low high decimals`, twice, separated by commas. */
function figures(text: string): [Figure, Figure] {
  const [one, other] = text.split(', ').map((part) => {
    const [column, low, high, decimals] = part.split(' ');
    return {
      column: column!,
      low: Number(low),
      high: Number(high),
      decimals: Number(decimals ?? 0),
    };
  });
  return [one!, other!];
}

/** `films film title`, names, `genre: drama comedy …`, figures. */
export function entity(
  nouns: string,
  names: readonly string[],
  category: string,
  numbers: string,
): Entity {
  const [many, one, name] = nouns.split(' ');
  const [column, values] = category.split(': ');
  return {
    many: many!,
    one: one!,
    name: name!,
    names,
    category: column!,
    categories: values!.split(' '),
    figures: figures(numbers),
  };
}

/** `theme(id, main, first, second)` */
export const theme = (id: string, main: Entity, first: Entity, second: Entity): Theme => ({
  id,
  main,
  first,
  second,
});
