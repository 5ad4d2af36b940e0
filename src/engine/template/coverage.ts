/** What of a template is covered here, without running it. */
import { uncoveredFilter } from './filters.js';
import { REFUSED_FUNCTIONS } from './globals.js';
import { METHODS } from './methods.js';
import { childrenOf, type Expression, type Statement } from './syntax.js';
import { uncoveredTest } from './tests.js';

/** Of `loop`, which may be called too. */
const LOOP_METHODS = new Set(['cycle', 'changed']);
/**
 * Filters that are told by a text which filter or test they apply: by the place of its name among
 * their arguments.
 */
const APPLYING: ReadonlyMap<
  string,
  readonly [place: number, uncovered: (name: string) => string | null]
> = new Map([
  ['map', [0, uncoveredFilter]],
  ['select', [0, uncoveredTest]],
  ['reject', [0, uncoveredTest]],
  ['selectattr', [1, uncoveredTest]],
  ['rejectattr', [1, uncoveredTest]],
]);

function* nodes(body: readonly (Statement | Expression)[]): Generator<Statement | Expression> {
  const left = [...body].reverse();
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    yield node;
    left.push(...childrenOf(node).reverse());
  }
}

function appliedBy({ name, given }: Extract<Expression, { kind: 'filter' }>): string | null {
  const [place, uncoveredName] = APPLYING.get(name) ?? [];
  const applied = place === undefined ? undefined : given.positional[place];
  return applied?.kind === 'constant' && typeof applied.value === 'string'
    ? uncoveredName!(applied.value)
    : null;
}

function unknownIn(node: Statement | Expression): string | null {
  switch (node.kind) {
    case 'unknown':
      return `the statement "${node.name}"`;
    case 'filter':
      return uncoveredFilter(node.name) ?? appliedBy(node);
    case 'test':
      return uncoveredTest(node.name);
    case 'call': {
      const { called } = node;
      if (called.kind === 'name')
        return REFUSED_FUNCTIONS.has(called.name) ? `the function "${called.name}"` : null;
      return called.kind !== 'attribute' ||
        METHODS.has(called.name) ||
        LOOP_METHODS.has(called.name)
        ? null
        : `the method "${called.name}"`;
    }
    default:
      return null;
  }
}

/** What a rendering that reaches it is refused for, each once. */
export const uncovered = (body: readonly Statement[]): string[] => [
  ...new Set([...nodes(body)].flatMap((node) => unknownIn(node) ?? [])),
];
