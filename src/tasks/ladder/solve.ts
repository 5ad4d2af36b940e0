import type { LadderProblem } from './problem.js';

/** What is to be said where the context does not answer the question. */
export const ABSTAIN = 'unknown';

const bySize = (a: string, b: string): number => Number(a) - Number(b);

/** The one right answer. */
export function solve({ operation, position, items, facts, question }: LadderProblem): string {
  const at = (position ?? 1) - 1;
  switch (operation) {
    case 'upper':
      return items.map((item, index) => (index === at ? item.toUpperCase() : item)).join(' ');
    case 'drop':
      return items.filter((_, index) => index !== at).join(' ');
    case 'swap':
      return [...items.slice(0, at), items[at + 1], items[at], ...items.slice(at + 2)].join(' ');
    case 'item':
      return items[at]!;
    case 'smallest':
      return [...items].sort(bySize)[0]!;
    case 'largest':
      return [...items].sort(bySize).at(-1)!;
    case 'ascending':
      return [...items].sort(bySize).join(' ');
    case 'descending':
      return [...items].sort(bySize).reverse().join(' ');
    case 'reverse':
      return [...items].reverse().join(' ');
    case 'sum':
      return String(items.reduce((sum, term) => sum + Number(term.replace(' ', '')), 0));
    case 'ask':
      return (
        facts.find(({ who, relation }) => who === question!.who && relation === question!.relation)
          ?.what ?? ABSTAIN
      );
  }
}
