/**
 * Kinds of questions that compose what the others have singly, a join with groups or an order,
 * groups with a query in a query: tier T6.
 */
import { join, oneJoin } from './joined-patterns.js';
import type { Pattern } from './patterns.js';
import { aggregateOf, count, queryOf } from './query.js';
import { byCategory, byFigure, said } from './scene.js';

export const COMPOSED_PATTERNS: readonly Pattern[] = [
  oneJoin(
    'join-group-having',
    'T6',
    [
      'Show the {othername} of the {others} that have {threshold} {many} {where}, and how many those are.',
      'Which {others} have {threshold} {many} {where}? Return the {othername} and the number of those {many}.',
      'Count the {many} {where} of each {other}. Where there are {threshold}, return the {othername} and the count.',
      'Return the {othername} and the number of {many} {where} for each {other} that has {threshold} of them.',
    ],
    (scene, child, parent) => {
      const { condition, words: where } = byFigure(scene, child, ['>', '>=', '<', '<=']);
      const least = scene.pick([1, 2]);
      const having = [{ left: count, operator: '>', right: { value: least } }] as const;
      const select = [parent.name, count];
      const joins = [join(child, parent)];
      return {
        query: queryOf(child.many, {
          select,
          joins,
          where: [condition],
          groupBy: [parent.key],
          having,
        }),
        words: { where, threshold: `more than ${least}` },
      };
    },
  ),
  oneJoin(
    'join-group-first',
    'T6',
    [
      'Show the {othername} of the {limit} {others} whose {many} have the {most} total {c}, {most} first.',
      'Which {limit} {others} have the {most} total {c} over their {many}? Return the {othername}, {most} first.',
      'Add up the {c} of the {many} of each {other}. Return the {othername} of the {limit} with the {most} total, {most} first.',
      'List the {othername} of the {limit} {others} with the {most} sum of {c} over their {many}, {most} first.',
    ],
    (scene, child, parent) => {
      const of = scene.anyFigure(child);
      void child.category;
      const descending = scene.pick([true, false]);
      const limit = scene.pick([2, 3]);
      const orderBy = [{ key: aggregateOf('SUM', of), descending }];
      return {
        query: queryOf(child.many, {
          select: [parent.name],
          joins: [join(child, parent)],
          groupBy: [parent.key],
          orderBy,
          limit,
        }),
        words: { c: said(of), most: descending ? 'highest' : 'lowest', limit: String(limit) },
      };
    },
  ),
  oneJoin(
    'join-filter-sorted',
    'T6',
    [
      'Show the {name} of the {many} that belong to {others} {where}, sorted by {c}, {most} first.',
      'Which {many} belong to {others} {where}? Return the {name}, in order of {c}, {most} first.',
      'List the {name} of all {many} of the {others} {where}, ordered by {c} with the {most} first.',
      'Find the {others} {where} and return the {name} of their {many}, sorted by {c}, {most} first.',
    ],
    (scene, child, parent) => {
      const { condition, words: where } = byCategory(scene, parent, scene.pick(['=', '<>']));
      const key = scene.orderingFigure(child);
      const descending = scene.pick([true, false]);
      return {
        query: queryOf(child.many, {
          select: [child.name],
          joins: [join(child, parent)],
          where: [condition],
          orderBy: [{ key, descending }],
        }),
        words: { where, c: said(key), most: descending ? 'highest' : 'lowest' },
      };
    },
  ),
  {
    id: 'group-beside-average',
    tier: 'T6',
    phrasings: [
      'Show each {g} whose {many} have an average {c} {side} the average {c} of all {many}.',
      'For which values of {g} is the average {c} of the {many} {side} the overall average? Return the {g}.',
      'Group the {many} by {g} and list each {g} where the average {c} is {side} the average of all {many}.',
      'Return every {g} for which the mean {c} of its {many} is {side} the mean {c} of all {many}.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const group = subject.category;
      const of = scene.anyFigure(subject);
      const above = scene.pick([true, false]);
      const query = queryOf(subject.many, { select: [aggregateOf('AVG', of)] });
      const having = [
        { left: aggregateOf('AVG', of), operator: above ? '>' : '<', right: { query } },
      ] as const;
      return {
        query: queryOf(subject.many, { select: [group], groupBy: [group], having }),
        words: { g: said(group), many: subject.many, c: said(of), side: above ? 'above' : 'below' },
      };
    },
  },
  {
    id: 'filter-group-first',
    tier: 'T6',
    phrasings: [
      'Among the {many} {where}, which {g} has the most {many}? Return only that {g}.',
      'Count the {many} {where} by {g} and return the {g} with the highest count.',
      'Return the {g} that occurs most often among the {many} {where}.',
      'Look at the {many} {where} only. Which value of {g} do most of them have? Return that {g}.',
    ],
    draw(scene) {
      const subject = scene.alone();
      const group = subject.category;
      const { condition, words } = byFigure(scene, subject, ['>', '>=', '<', '<=']);
      const orderBy = [{ key: count, descending: true }];
      return {
        query: queryOf(subject.many, {
          select: [group],
          where: [condition],
          groupBy: [group],
          orderBy,
          limit: 1,
        }),
        words: { g: said(group), many: subject.many, where: words },
      };
    },
  },
];
