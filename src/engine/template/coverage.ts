/** What of a template is covered here, without running it. */
import { FILTER_NAMES } from './filters.js';
import { METHODS } from './methods.js';
import { childrenOf, type Expression, type Statement } from './syntax.js';
import { TEST_NAMES } from './tests.js';

const REFUSED_FUNCTIONS = new Set(['lipsum', 'cycler', 'joiner']);
/** Of `loop`, which may be called too. */
const LOOP_METHODS = new Set(['cycle', 'changed']);

function* nodes(body: readonly (Statement | Expression)[]): Generator<Statement | Expression> {
  const left = [...body].reverse();
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    yield node;
    left.push(...childrenOf(node).reverse());
  }
}

function unknownIn(node: Statement | Expression): string | null {
  switch (node.kind) {
    case 'unknown':
      return `the statement "${node.name}"`;
    case 'filter':
      return FILTER_NAMES.has(node.name) ? null : `the filter "${node.name}"`;
    case 'test':
      return TEST_NAMES.has(node.name) ? null : `the test "${node.name}"`;
    case 'call': {
      const { called } = node;
      if (called.kind === 'name') return REFUSED_FUNCTIONS.has(called.name) ? `the function "${called.name}"` : null;
      return called.kind !== 'attribute' || METHODS.has(called.name) || LOOP_METHODS.has(called.name)
        ? null
        : `the method "${called.name}"`;
    }
    default:
      return null;
  }
}

/** What a rendering that reaches it is refused for, each once. */
export const uncovered = (body: readonly Statement[]): string[] => [...new Set([...nodes(body)].flatMap((node) => unknownIn(node) ?? []))];
