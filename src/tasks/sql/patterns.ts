/**
 * Kinds of questions about one table: tiers T0 to T3. Each draws its query and the words for the
 * slots of its phrasings.
 */
import { aggregateOf, count, queryOf, type Query } from './query.js';
import {
  anyAggregate,
  anyCondition,
  byCategory,
  byFigure,
  byMissing,
  listed,
  said,
  threshold,
  type Scene,
  type Stated,
  type Subject,
} from './scene.js';

export interface Drawn {
  readonly query: Query;
  /** By the name of the slot in the phrasings. */
  readonly words: Readonly<Record<string, string>>;
}

export interface Pattern {
  readonly id: string;
  readonly tier: string;
  readonly phrasings: readonly string[];
  draw(scene: Scene): Drawn;
}

/** Columns that a question asks for: often all of them, or the name, or the name and a figure. */
function asked(
  scene: Scene,
  subject: Subject,
): { readonly select: Query['select']; readonly columns: string } {
  const choice = scene.random.nextInteger(0, 9);
  if (choice < 4) return { select: '*', columns: 'all columns' };
  const select = choice < 8 ? [subject.name] : [subject.name, scene.anyFigure(subject)];
  return { select, columns: listed(select) };
}

const FILTERED = [
  'Show {columns} of the {many} {where}.',
  'List {columns} of all {many} {where}.',
  'Find the {many} {where} and return {columns}.',
  'Look up {columns} for the {many} {where}.',
];

const filter = (id: string, state: (scene: Scene, subject: Subject) => Stated): Pattern => ({
  id,
  tier: 'T0',
  phrasings: FILTERED,
  draw(scene) {
    const subject = scene.alone();
    const { condition, words } = state(scene, subject);
    const { select, columns } = asked(scene, subject);
    return {
      query: queryOf(subject.many, { select, where: [condition] }),
      words: { columns, many: subject.many, where: words },
    };
  },
});

/** One aggregate of the rows that a condition leaves. */
const aggregated = (
  id: string,
  phrasings: readonly string[],
  key: (
    scene: Scene,
    subject: Subject,
  ) => { readonly select: Query['select']; readonly words: Readonly<Record<string, string>> },
): Pattern => ({
  id,
  tier: 'T1',
  phrasings,
  draw(scene) {
    const subject = scene.alone();
    const { condition, words: where } = anyCondition(scene, subject);
    const { select, words } = key(scene, subject);
    return {
      query: queryOf(subject.many, { select, where: [condition] }),
      words: { many: subject.many, where, ...words },
    };
  },
});

/** Rows by a figure: the highest or the lowest first. */
const ordered = (
  id: string,
  phrasings: readonly string[],
  { limits, filtered }: { limits: readonly number[]; filtered: boolean },
): Pattern => ({
  id,
  tier: 'T2',
  phrasings,
  draw(scene) {
    const subject = scene.alone();
    const key = scene.orderingFigure(subject);
    const descending = scene.pick([true, true, false]);
    const select =
      limits[0] === 1 || scene.random.nextInteger(0, 1) === 0
        ? [subject.name]
        : [subject.name, key];
    const stated = filtered ? byCategory(scene, subject) : null;
    const limit = limits.length === 0 ? null : scene.pick(limits);
    return {
      query: queryOf(subject.many, {
        select,
        where: stated === null ? [] : [stated.condition],
        orderBy: [{ key, descending }],
        limit,
      }),
      words: {
        columns: listed(select),
        many: subject.many,
        one: subject.one,
        c: said(key),
        most: descending ? 'highest' : 'lowest',
        limit: String(limit),
        where: stated?.words ?? '',
      },
    };
  },
});

const extreme = (id: string, aggregate: 'MAX' | 'MIN', phrasings: readonly string[]): Pattern =>
  aggregated(id, phrasings, (scene, subject) => {
    const of = scene.anyFigure(subject);
    return { select: [aggregateOf(aggregate, of)], words: { c: said(of) } };
  });

const figured = (id: string, aggregate: 'AVG' | 'SUM', phrasings: readonly string[]): Pattern =>
  aggregated(id, phrasings, (scene, subject) => {
    const of = scene.anyFigure(subject);
    return { select: [aggregateOf(aggregate, of)], words: { c: said(of) } };
  });

export const SINGLE_TABLE_PATTERNS: readonly Pattern[] = [
  filter('filter-text', (scene, subject) => byCategory(scene, subject)),
  filter('filter-number', (scene, subject) => byFigure(scene, subject)),
  filter('filter-not', (scene, subject) => byCategory(scene, subject, '<>')),
  filter('filter-null', byMissing),
  aggregated(
    'count',
    [
      'How many {many} are there {where}?',
      'Count the {many} {where}.',
      'What is the number of {many} {where}?',
      'Give the number of all {many} {where}.',
    ],
    () => ({ select: [count], words: {} }),
  ),
  extreme('maximum', 'MAX', [
    'What is the highest {c} of the {many} {where}?',
    'Find the maximum {c} among the {many} {where}.',
    'Give the largest {c} of all {many} {where}.',
    'Among the {many} {where}, what is the highest {c}?',
  ]),
  extreme('minimum', 'MIN', [
    'What is the lowest {c} of the {many} {where}?',
    'Find the minimum {c} among the {many} {where}.',
    'Give the smallest {c} of all {many} {where}.',
    'Among the {many} {where}, what is the lowest {c}?',
  ]),
  figured('average', 'AVG', [
    'What is the average {c} of the {many} {where}?',
    'Compute the mean {c} of the {many} {where}.',
    'Give the average {c} over all {many} {where}.',
    'Work out the average of the {c} for the {many} {where}.',
  ]),
  figured('total', 'SUM', [
    'What is the total {c} of the {many} {where}?',
    'Add up the {c} of the {many} {where}.',
    'Give the sum of the {c} over all {many} {where}.',
    'Work out the total of the {c} for the {many} {where}.',
  ]),
  {
    id: 'count-distinct',
    tier: 'T1',
    phrasings: [
      'How many different values of {c} are there among the {many} {where}?',
      'Count the distinct values of {c} among the {many} {where}.',
      'What is the number of different {c} values of the {many} {where}?',
      'Give the number of distinct {c} values found among the {many} {where}.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const { condition, words } = byFigure(scene, subject, ['>', '>=', '<', '<=']);
      const of = subject.category;
      return {
        query: queryOf(subject.many, {
          select: [aggregateOf('COUNT', of, true)],
          where: [condition],
        }),
        words: { c: said(of), many: subject.many, where: words },
      };
    },
  },
  ordered(
    'sorted',
    [
      'Show {columns} of all {many}, sorted by {c}, {most} first.',
      'List {columns} of every {one}, ordered by {c} with the {most} first.',
      'Give {columns} of the {many} in order of {c}, {most} first.',
      'Return {columns} of all {many}, beginning with the {most} {c} and going on in order of {c}.',
    ],
    { limits: [], filtered: false },
  ),
  ordered(
    'sorted-filtered',
    [
      'Show {columns} of the {many} {where}, sorted by {c}, {most} first.',
      'List {columns} of all {many} {where}, ordered by {c} with the {most} first.',
      'Give {columns} of the {many} {where}, in order of {c}, {most} first.',
      'Find the {many} {where} and return {columns}, sorted by {c}, {most} first.',
    ],
    { limits: [], filtered: true },
  ),
  ordered(
    'first-few',
    [
      'Show {columns} of the {limit} {many} with the {most} {c}, {most} first.',
      'Which {limit} {many} have the {most} {c}? Return {columns}, {most} {c} first.',
      'Give {columns} of the {limit} {many} that have the {most} {c}, the {most} first.',
      'List {columns} of only {limit} {many}: those with the {most} {c}, {most} first.',
    ],
    { limits: [2, 3, 4, 5], filtered: false },
  ),
  ordered(
    'first',
    [
      'Show {columns} of the one of the {many} that has the {most} {c}.',
      'Which {one} has the {most} {c}? Return {columns}.',
      'Give {columns} of the {one} with the {most} {c}.',
      'Find the {one} with the {most} {c} and return {columns}.',
    ],
    { limits: [1], filtered: false },
  ),
  ordered(
    'first-few-filtered',
    [
      'Of the {many} {where}, show {columns} of the {limit} with the {most} {c}, {most} first.',
      'Among the {many} {where}, which {limit} have the {most} {c}? Return {columns}, {most} {c} first.',
      'Give {columns} of the {limit} with the {most} {c} among the {many} {where}, the {most} first.',
      'Look at the {many} {where} only and list {columns} of the {limit} with the {most} {c}, {most} first.',
    ],
    { limits: [2, 3], filtered: true },
  ),
  {
    id: 'group-count',
    tier: 'T3',
    phrasings: [
      'For each {g}, show the {g} and the number of {many}.',
      'How many {many} are there for each {g}? Return the {g} and the number.',
      'Count the {many} by {g}. Return the {g} and the count.',
      'List every {g} together with the number of {many} that have it.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const group = subject.category;
      return {
        query: queryOf(subject.many, { select: [group, count], groupBy: [group] }),
        words: { g: said(group), many: subject.many },
      };
    },
  },
  {
    id: 'group-aggregate',
    tier: 'T3',
    phrasings: [
      'For each {g}, show the {g} and the {aggregate} of the {many}.',
      'What is the {aggregate} of the {many} for each {g}? Return the {g} and that number.',
      'Group the {many} by {g} and return the {g} and the {aggregate}.',
      'List every {g} together with the {aggregate} of the {many} that have it.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const group = subject.category;
      const { key, words } = anyAggregate(scene, subject);
      return {
        query: queryOf(subject.many, { select: [group, key], groupBy: [group] }),
        words: { g: said(group), many: subject.many, aggregate: words },
      };
    },
  },
  {
    id: 'group-count-having',
    tier: 'T3',
    phrasings: [
      'Show each {g} that {threshold} {many} have.',
      'Which values of {g} do {threshold} {many} have? Return the {g}.',
      'Return every {g} that occurs in {threshold} {many}.',
      'Group the {many} by {g} and list each {g} with {threshold} {many}.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const group = subject.category;
      const value = scene.random.nextInteger(2, 3);
      const { operator, words } = threshold(scene, value);
      return {
        query: queryOf(subject.many, {
          select: [group],
          groupBy: [group],
          having: [{ left: count, operator, right: { value } }],
        }),
        words: { g: said(group), many: subject.many, threshold: words },
      };
    },
  },
  {
    id: 'group-aggregate-having',
    tier: 'T3',
    phrasings: [
      'Show each {g} for which the {aggregate} of the {many} is {threshold}.',
      'For which values of {g} is the {aggregate} of the {many} {threshold}? Return the {g}.',
      'Return every {g} whose {many} have a {aggregate} of {threshold}.',
      'Group the {many} by {g} and list each {g} where the {aggregate} is {threshold}.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const group = subject.category;
      const of = scene.anyFigure(subject);
      const aggregate = scene.pick(['AVG', 'MAX', 'MIN'] as const);
      const value = scene.constant(subject.figureOf(of));
      const { operator, words } = threshold(scene, value);
      subject.draw(of, { near: [value] });
      const left = aggregateOf(aggregate, of);
      const called = { AVG: 'mean', MAX: 'maximum', MIN: 'minimum' }[aggregate];
      return {
        query: queryOf(subject.many, {
          select: [group],
          groupBy: [group],
          having: [{ left, operator, right: { value } }],
        }),
        words: {
          g: said(group),
          many: subject.many,
          aggregate: `${called} ${said(of)}`,
          threshold: words,
        },
      };
    },
  },
];
