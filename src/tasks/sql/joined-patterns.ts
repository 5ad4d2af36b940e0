/**
 * Kinds of questions about two or three tables, or with a query inside a query: tiers T4 and T5.
 */
import type { Drawn, Pattern } from './patterns.js';
import { aggregateOf, count, queryOf, type Join } from './query.js';
import { anyCondition, byCategory, byFigure, said, type Scene, type Subject } from './scene.js';

export const join = (child: Subject, parent: Subject): Join => ({
  kind: 'JOIN',
  table: parent.many,
  on: [child.keyOf(parent), parent.key],
});
/** Every parent, with its children or with nothing. */
const leftJoin = (parent: Subject, child: Subject): Join => ({
  kind: 'LEFT JOIN',
  table: child.many,
  on: [child.keyOf(parent), parent.key],
});

/** The words for a table of children and the one to which its rows belong. */
const nouns = (child: Subject, parent: Subject): Record<string, string> => ({
  many: child.many,
  one: child.one,
  name: said(child.name),
  others: parent.many,
  other: parent.one,
  othername: said(parent.name),
});

/** A pattern of one join between children and the parents to which they belong. */
export const oneJoin = (
  id: string,
  tier: string,
  phrasings: readonly string[],
  draw: (scene: Scene, child: Subject, parent: Subject) => Drawn,
): Pattern => ({
  id,
  tier,
  phrasings,
  draw(scene) {
    const [child, parent] = scene.related(1);
    const { query, words } = draw(scene, child, parent);
    return { query, words: { ...nouns(child, parent), ...words } };
  },
});

const twoJoins = (
  id: string,
  phrasings: readonly string[],
  draw: (scene: Scene, child: Subject, first: Subject, second: Subject) => Drawn,
): Pattern => ({
  id,
  tier: 'T5',
  phrasings,
  draw(scene) {
    const [child, first, second] = scene.related(2);
    const { query, words } = draw(scene, child, first, second);
    const more = { third: second.one, thirds: second.many, thirdname: said(second.name) };
    return { query, words: { ...nouns(child, first), ...more, ...words } };
  },
});

const ONE_JOIN: readonly Pattern[] = [
  oneJoin(
    'join-names',
    'T4',
    [
      'Show the {name} of each of the {many} {where} and the {othername} of its {other}.',
      'For the {many} {where}, list the {name} and the {othername} of the {other}.',
      'Give the {name} of all {many} {where}, each with the {othername} of its {other}.',
      'Which {many} are there {where}, and of which {other}? Return the {name} and the {othername} of the {other}.',
    ],
    (scene, child, parent) => {
      const { condition, words: where } = anyCondition(scene, child);
      const select = [child.name, parent.name];
      return {
        query: queryOf(child.many, { select, joins: [join(child, parent)], where: [condition] }),
        words: { where },
      };
    },
  ),
  oneJoin(
    'join-filter',
    'T4',
    [
      'Show the {name} of the {many} that belong to {others} {where}.',
      'List the {name} of all {many} of the {others} {where}.',
      'Which {many} belong to {others} {where}? Return the {name}.',
      'Find the {others} {where} and return the {name} of their {many}.',
    ],
    (scene, child, parent) => {
      const { condition, words: where } = anyCondition(scene, parent);
      return {
        query: queryOf(child.many, {
          select: [child.name],
          joins: [join(child, parent)],
          where: [condition],
        }),
        words: { where },
      };
    },
  ),
  oneJoin(
    'join-count',
    'T4',
    [
      'How many {many} belong to {others} {where}?',
      'Count the {many} of the {others} {where}.',
      'What is the number of {many} that belong to {others} {where}?',
      'Give the number of all {many} of the {others} {where}.',
    ],
    (scene, child, parent) => {
      void child.category;
      const { condition, words: where } = anyCondition(scene, parent);
      return {
        query: queryOf(child.many, {
          select: [count],
          joins: [join(child, parent)],
          where: [condition],
        }),
        words: { where },
      };
    },
  ),
  oneJoin(
    'join-aggregate',
    'T4',
    [
      'What is the {aggregate} {c} of the {many} that belong to {others} {where}?',
      'Give the {aggregate} {c} of all {many} of the {others} {where}.',
      'Find the {aggregate} {c} among the {many} that belong to {others} {where}.',
      'For the {others} {where}, what is the {aggregate} {c} of their {many} together?',
    ],
    (scene, child, parent) => {
      const { condition, words: where } = byCategory(scene, parent);
      const of = scene.anyFigure(child);
      const aggregate = scene.pick(['AVG', 'SUM', 'MAX', 'MIN'] as const);
      const called = { AVG: 'average', SUM: 'total', MAX: 'highest', MIN: 'lowest' }[aggregate];
      const select = [aggregateOf(aggregate, of)];
      return {
        query: queryOf(child.many, { select, joins: [join(child, parent)], where: [condition] }),
        words: { where, aggregate: called, c: said(of) },
      };
    },
  ),
  oneJoin(
    'left-join-none',
    'T4',
    [
      'Show the {othername} of the {others} to which no {one} belongs.',
      'Which {others} have no {many}? Return the {othername}.',
      'List the {othername} of every {other} without any {many}.',
      'Find the {others} that none of the {many} belongs to and return the {othername}.',
    ],
    (_scene, child, parent) => {
      void [child.category, parent.category];
      const where = [{ left: child.keyOf(parent), operator: 'IS NULL' }] as const;
      return {
        query: queryOf(parent.many, {
          select: [parent.name],
          joins: [leftJoin(parent, child)],
          where,
        }),
        words: {},
      };
    },
  ),
  oneJoin(
    'left-join-count',
    'T4',
    [
      'For every {other}, also those without {many}, show the {othername} and the number of its {many}.',
      'How many {many} does each {other} have? Return the {othername} and the number, 0 for those without.',
      'List the {othername} of all {others} with the number of their {many}, even where that is 0.',
      'Count the {many} of each {other}. Return the {othername} and the count, which may be 0.',
    ],
    (_scene, child, parent) => {
      void child.category;
      const select = [parent.name, aggregateOf('COUNT', child.keyOf(parent))];
      const joins = [leftJoin(parent, child)];
      return { query: queryOf(parent.many, { select, joins, groupBy: [parent.key] }), words: {} };
    },
  ),
];

const NESTED: readonly Pattern[] = [
  {
    id: 'beside-average',
    tier: 'T5',
    phrasings: [
      'Show the {name} of the {many} whose {c} is {side} the average {c} of all {many}.',
      'Which {many} have a {c} {side} the average of all {many}? Return the {name}.',
      'List the {name} of every {one} with a {c} {side} the overall average {c}.',
      'Find the average {c} of all {many} and return the {name} of those {side} it.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const of = scene.anyFigure(subject);
      const above = scene.pick([true, false]);
      const query = queryOf(subject.many, { select: [aggregateOf('AVG', of)] });
      return {
        query: queryOf(subject.many, {
          select: [subject.name],
          where: [{ left: of, operator: above ? '>' : '<', right: { query } }],
        }),
        words: {
          name: said(subject.name),
          many: subject.many,
          one: subject.one,
          c: said(of),
          side: above ? 'above' : 'below',
        },
      };
    },
  },
  {
    id: 'extreme-of-some',
    tier: 'T5',
    phrasings: [
      'Show the {name} of all {many} whose {c} is {than} the {most} {c} of the {many} {where}.',
      'Which {many} have a {c} {than} the {most} {c} among the {many} {where}? Return the {name}.',
      'Take the {most} {c} of the {many} {where} and list the {name} of all {many} with a {c} {than} that.',
      'Return the {name} of every {one} with a {c} {than} the {most} one of the {many} {where}.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const of = scene.anyFigure(subject);
      const greater = scene.pick([true, false]);
      const { condition, words: where } = byCategory(scene, subject);
      const query = queryOf(subject.many, {
        select: [aggregateOf(greater ? 'MIN' : 'MAX', of)],
        where: [condition],
      });
      return {
        query: queryOf(subject.many, {
          select: [subject.name],
          where: [{ left: of, operator: greater ? '>' : '<', right: { query } }],
        }),
        words: {
          name: said(subject.name),
          many: subject.many,
          one: subject.one,
          c: said(of),
          than: greater ? 'greater than' : 'less than',
          most: greater ? 'lowest' : 'highest',
          where,
        },
      };
    },
  },
  oneJoin(
    'without-any',
    'T5',
    [
      'Show the {othername} of the {others} that have no {many} {where}.',
      'Which {others} have none of the {many} {where}? Return the {othername}.',
      'List the {othername} of every {other} without {many} {where}.',
      'Return the {othername} of those {others} to which none of the {many} {where} belongs.',
    ],
    (scene, child, parent) => {
      void parent.category;
      const { condition, words: where } = anyCondition(scene, child);
      const query = queryOf(child.many, { select: [child.keyOf(parent)], where: [condition] });
      const outside = { left: parent.key, operator: 'NOT IN', right: { query } } as const;
      return {
        query: queryOf(parent.many, { select: [parent.name], where: [outside] }),
        words: { where },
      };
    },
  ),
];

const TWO_JOINS: readonly Pattern[] = [
  twoJoins(
    'two-joins-names',
    [
      'Show the {name} of the {many} {where}, each with the {othername} of its {other} and the {thirdname} of its {third}.',
      'For the {many} {where}, list the {name}, the {othername} of the {other} and the {thirdname} of the {third}.',
      'Give the {name}, the {othername} of the {other} and the {thirdname} of the {third} for all {many} {where}.',
      'Find the {many} {where}. Return their {name}, the {othername} of the {other} and the {thirdname} of the {third}.',
    ],
    (scene, child, first, second) => {
      const { condition, words: where } = anyCondition(scene, child);
      const select = [child.name, first.name, second.name];
      const joins = [join(child, first), join(child, second)];
      return {
        query: queryOf(child.many, { select, joins, where: [condition] }),
        words: { where },
      };
    },
  ),
  twoJoins(
    'two-joins-filter',
    [
      'Show the {name} of the {many} that belong to {others} {where} and to {thirds} {also}.',
      'Which {many} belong to {others} {where} and also to {thirds} {also}? Return the {name}.',
      'List the {name} of all {many} of {others} {where} that are also of {thirds} {also}.',
      'Return the {name} of every {one} that belongs both to {others} {where} and to {thirds} {also}.',
    ],
    (scene, child, first, second) => {
      const [one, other] = [
        byCategory(scene, first, '<>'),
        byFigure(scene, second, ['>', '>=', '<', '<=']),
      ];
      const joins = [join(child, first), join(child, second)];
      const where = [one.condition, other.condition];
      return {
        query: queryOf(child.many, { select: [child.name], joins, where }),
        words: { where: one.words, also: other.words },
      };
    },
  ),
];

export const JOINED_PATTERNS: readonly Pattern[] = [...ONE_JOIN, ...NESTED, ...TWO_JOINS];
