import type { Random } from '../../random.js';
import type { Column, Table, Values } from './problem.js';
import type { AggregateFunction, Aggregate, ColumnName, Comparison, Condition } from './query.js';
import type { Entity, Figure, Theme } from './theme.js';

/** Rows of a table in a hidden database; a table to which others refer has fewer. */
const ROWS = { main: [8, 16], parent: [5, 8] } as const;

/**
 * A thing of a question: its table, and of its columns those that the question or the schema has
 * use for.
 */
export class Subject {
  readonly entity: Entity;
  readonly rows: readonly [number, number];
  readonly #values = new Map<string, { type: Column['type']; values: Values }>();

  constructor(entity: Entity, rows: readonly [number, number]) {
    this.entity = entity;
    this.rows = rows;
  }

  get many(): string {
    return this.entity.many;
  }

  get one(): string {
    return this.entity.one;
  }

  get key(): ColumnName {
    return this.#use('id', 'INTEGER', { kind: 'serial' });
  }

  get name(): ColumnName {
    return this.#use(this.entity.name, 'TEXT', {
      kind: 'text',
      of: this.entity.names,
      distinct: true,
      nulls: false,
    });
  }

  get category(): ColumnName {
    return this.#use(this.entity.category, 'TEXT', {
      kind: 'text',
      of: this.entity.categories,
      distinct: false,
      nulls: false,
    });
  }

  figure(which: 0 | 1): ColumnName {
    const { column, low, high, decimals } = this.entity.figures[which];
    const values: Values = {
      kind: 'number',
      low,
      high,
      decimals,
      distinct: false,
      nulls: false,
      near: [],
    };
    return this.#use(column, decimals === 0 ? 'INTEGER' : 'REAL', values);
  }

  /** The column by which a row belongs to one of another table. */
  keyOf(other: Subject): ColumnName {
    return this.#use(`${other.one}_id`, 'INTEGER', {
      kind: 'reference',
      table: other.many,
      nulls: false,
    });
  }

  /** Changes how the numbers of a column are drawn. */
  draw({ column }: ColumnName, change: Partial<Extract<Values, { kind: 'number' }>>): void {
    const { type, values } = this.#values.get(column)!;
    if (values.kind === 'number')
      this.#values.set(column, { type, values: { ...values, ...change } });
  }

  figureOf({ column }: ColumnName): Figure {
    return this.entity.figures.find((figure) => figure.column === column)!;
  }

  /** Key first, references last, the others in the order that is drawn. */
  table(random: Random): Table {
    const columns = [...this.#values].map(([name, { type, values }]) => ({ name, type, values }));
    const of = (...kinds: Values['kind'][]): Column[] =>
      columns.filter(({ values }) => kinds.includes(values.kind));
    return {
      name: this.many,
      rows: this.rows,
      columns: [...of('serial'), ...random.shuffle(of('text', 'number')), ...of('reference')],
    };
  }

  #use(column: string, type: Column['type'], values: Values): ColumnName {
    if (!this.#values.has(column)) this.#values.set(column, { type, values });
    return { table: this.many, column };
  }
}

/** What a pattern draws a question from. */
export class Scene {
  readonly random: Random;
  readonly #theme: Theme;
  readonly #subjects: Subject[] = [];

  constructor(random: Random, theme: Theme) {
    this.random = random;
    this.#theme = theme;
  }

  get tables(): readonly Table[] {
    return this.#subjects.map((subject) => subject.table(this.random));
  }

  /** The one table of a question, with all its columns. */
  alone(): Subject {
    const { main, first, second } = this.#theme;
    const subject = this.#add(this.pick([main, main, first, second]), ROWS.main);
    if (this.random.nextInteger(0, 1) === 1) void subject.key;
    void [subject.name, subject.category, subject.figure(0), subject.figure(1)];
    return subject;
  }

  /**
   * A table and the one or two to which its rows belong; what refers stands below what is referred
   * to.
   */
  related(others: 1 | 2): readonly [main: Subject, first: Subject, second: Subject] {
    const { main, first, second } = this.#theme;
    const chosen = others === 2 ? [first, second] : [this.pick([first, second])];
    const parents = chosen.map((entity) => {
      const parent = this.#add(entity, ROWS.parent);
      void [parent.key, parent.name];
      return parent;
    });
    const child = this.#add(main, ROWS.main);
    void child.name;
    for (const parent of parents) void child.keyOf(parent);
    return [child, parents[0]!, parents.at(-1)!];
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.random.nextInteger(0, choices.length - 1)]!;
  }

  anyFigure(subject: Subject): ColumnName {
    return subject.figure(this.pick([0, 1]));
  }

  /** A figure by which rows can be put in order: no two have the same. */
  orderingFigure(subject: Subject): ColumnName {
    const wide = ([0, 1] as const).filter((which) => {
      const { low, high, decimals } = subject.entity.figures[which];
      return (high - low) * 10 ** decimals >= 1.25 * subject.rows[1];
    });
    const key = subject.figure(this.pick(wide));
    subject.draw(key, { distinct: true });
    return key;
  }

  /** A round number well inside the range of a figure. */
  constant({ low, high, decimals }: Figure): number {
    const step = Math.max(10 ** -decimals, 10 ** (Math.floor(Math.log10(high - low)) - 1));
    const steps = Math.floor((high - low) / step);
    const value =
      low + step * this.random.nextInteger(Math.ceil(steps / 4), Math.floor((3 * steps) / 4));
    const round = Math.round(value / step) * step;
    return Number(Math.min(high, Math.max(low, round)).toFixed(decimals));
  }

  #add(entity: Entity, rows: readonly [number, number]): Subject {
    const subject = new Subject(entity, rows);
    this.#subjects.push(subject);
    return subject;
  }
}

/** A column's name as a question says it. */
export const said = ({ column }: ColumnName): string => column.replaceAll('_', ' ');

const COMPARED: Readonly<Record<Comparison, readonly string[]>> = {
  '>': [
    'with {c} above {v}',
    'whose {c} is greater than {v}',
    'with {c} of more than {v}',
    'where the {c} is over {v}',
  ],
  '>=': [
    'with {c} of at least {v}',
    'whose {c} is {v} or more',
    'whose {c} is at least {v}',
    'where the {c} is {v} or higher',
  ],
  '<': [
    'with {c} below {v}',
    'whose {c} is less than {v}',
    'with {c} of less than {v}',
    'where the {c} is under {v}',
  ],
  '<=': [
    'with {c} of at most {v}',
    'whose {c} is {v} or less',
    'whose {c} is at most {v}',
    'where the {c} is {v} or lower',
  ],
  '=': ['whose {c} is {v}', 'with {c} {v}', 'where the {c} is {v}', 'having {c} equal to {v}'],
  '<>': [
    'whose {c} is not {v}',
    'with {c} other than {v}',
    'where the {c} is not {v}',
    'whose {c} differs from {v}',
  ],
};
const MISSING = {
  'IS NULL': [
    'whose {c} is missing (NULL)',
    'with {c} NULL',
    'where the {c} is NULL',
    'that have no {c} (NULL)',
  ],
  'IS NOT NULL': [
    'whose {c} is known (not NULL)',
    'with {c} not NULL',
    'where the {c} is not NULL',
    'that have some {c} (not NULL)',
  ],
} as const;

/** A condition, and the words that put it. */
export interface Stated {
  readonly condition: Condition;
  readonly words: string;
}

const filled = (words: string, column: ColumnName, value: string | number): string =>
  words
    .replace('{c}', said(column))
    .replace('{v}', typeof value === 'number' ? String(value) : `'${value}'`);

/** A figure compared with a constant, near which its values are drawn. */
export function byFigure(
  scene: Scene,
  subject: Subject,
  operators: readonly Comparison[] = ['>', '>=', '<', '<=', '='],
): Stated {
  const left = scene.anyFigure(subject);
  const operator = scene.pick(operators);
  const value = scene.constant(subject.figureOf(left));
  subject.draw(left, { near: [value] });
  return {
    condition: { left, operator, right: { value } },
    words: filled(scene.pick(COMPARED[operator]), left, value),
  };
}

export function byCategory(scene: Scene, subject: Subject, operator: '=' | '<>' = '='): Stated {
  const left = subject.category;
  const value = scene.pick(subject.entity.categories);
  return {
    condition: { left, operator, right: { value } },
    words: filled(scene.pick(COMPARED[operator]), left, value),
  };
}

export function byMissing(scene: Scene, subject: Subject): Stated {
  const left = scene.anyFigure(subject);
  const operator = scene.pick(['IS NULL', 'IS NOT NULL'] as const);
  subject.draw(left, { nulls: true });
  return { condition: { left, operator }, words: filled(scene.pick(MISSING[operator]), left, '') };
}

/** More often by category, so that a question is not always about numbers. */
export const anyCondition = (scene: Scene, subject: Subject): Stated =>
  scene.random.nextInteger(0, 1) === 0 ? byCategory(scene, subject) : byFigure(scene, subject);

/**
 * What is kept of groups or rows by a figure of theirs: `more than 3`, and the comparison that says
 * so.
 */
export function threshold(
  scene: Scene,
  value: number,
): { readonly operator: Comparison; readonly words: string } {
  const operator = scene.pick(['>', '>=', '<', '<='] as const);
  const words = { '>': 'more than', '>=': 'at least', '<': 'less than', '<=': 'at most' }[operator];
  return { operator, words: `${words} ${value}` };
}

const AGGREGATES: Readonly<Record<Exclude<AggregateFunction, 'COUNT'>, string>> = {
  AVG: 'average',
  SUM: 'total',
  MAX: 'highest',
  MIN: 'lowest',
};

/** An aggregate of a figure, and its words: `average rating`. */
export function anyAggregate(
  scene: Scene,
  subject: Subject,
): { readonly key: Aggregate; readonly words: string } {
  const of = scene.anyFigure(subject);
  const aggregate = scene.pick(['AVG', 'SUM', 'MAX', 'MIN'] as const);
  return { key: { aggregate, of, distinct: false }, words: `${AGGREGATES[aggregate]} ${said(of)}` };
}

/** `the title`, `the title and the year`. */
export const listed = (columns: readonly ColumnName[]): string =>
  columns.map((column) => `the ${said(column)}`).join(' and ');
