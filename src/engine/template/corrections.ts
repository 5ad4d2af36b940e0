/**
 * What this project rendered otherwise until it had an interpreter of its own (before,
 * @huggingface/jinja 0.5.11 rendered). A template that has none of it keeps the id that it had; of
 * one that has some of it, prompts of then and of now are not the same. Where it depends on what a
 * value is, the kinds of values are told from the tree: adapters were trained on messages alone,
 * which are texts, and on no other variable.
 *
 * Left out are characters that no prompt is known to have where it matters: the white space U+001C
 * to U+001F, U+0085 and U+FEFF at the ends of a text that is trimmed, characters beyond U+FFFF in a
 * text that is cut by numbers, and the few characters that have a case and are no letters (U+00AA,
 * U+2177).
 */
import {
  childrenOf,
  type Arguments,
  type Comparison,
  type Expression,
  type Statement,
  type Target,
} from './syntax.js';

type Kind =
  | 'text'
  | 'role'
  | 'number'
  | 'truth'
  | 'none'
  | 'list'
  | 'dict'
  | 'message'
  | 'messages'
  | 'missing'
  | 'other';
type Node = Statement | Expression;

const COLLECTIONS: readonly Kind[] = ['list', 'dict', 'message', 'messages'];
/** Written otherwise: `True` was `true`, None was nothing, and lists were JSON. */
const WRITTEN_OTHERWISE: readonly Kind[] = ['truth', 'none', ...COLLECTIONS];

const kindsBy = (names: Partial<Record<Kind, string>>): ReadonlyMap<string, Kind> =>
  new Map(
    Object.entries(names).flatMap(([kind, all]) =>
      all.split(' ').map((name) => [name, kind as Kind]),
    ),
  );
/** Of what filters, methods and members of `loop` give; others are of another kind. */
const FILTERS = kindsBy({
  text: 'trim upper lower capitalize title replace join tojson indent string format center',
  list: 'list sort dictsort unique map select selectattr reject rejectattr items',
  number: 'length count int float abs round',
});
const METHODS = kindsBy({
  text: 'strip lstrip rstrip upper lower title capitalize replace join',
  list: 'split rsplit splitlines items keys values',
});
const OF_LOOP = kindsBy({
  number: 'index index0 revindex revindex0 length depth depth0',
  truth: 'first last',
});

/**
 * Whether prompts of this template are other ones than they were.
 * @param text the template, as it stands in the file
 */
export function isCorrected(text: string, body: readonly Statement[]): boolean {
  // line ends; white space before a first statement, which was kept
  return text.includes('\r') || /^[ \t]+\{[%#](?![-+])/.test(text) || new Corrections(body).found();
}

class Corrections {
  readonly #body: readonly Statement[];
  /** What a name may stand for, anywhere in the template. */
  readonly #names = new Map<string, (() => Kind[])[]>();
  readonly #known = new Map<string, readonly Kind[]>();

  constructor(body: readonly Statement[]) {
    this.#body = body;
  }

  found(): boolean {
    const nodes = [...this.#walk(this.#body)];
    for (const node of nodes) this.#define(node);
    return nodes.some((node) => this.#isOtherwise(node));
  }

  *#walk(from: readonly Node[]): Generator<Node> {
    const left: Node[] = [...from];
    for (let node = left.pop(); node !== undefined; node = left.pop()) {
      yield node;
      left.push(...childrenOf(node));
    }
  }

  #define(node: Node): void {
    if (node.kind === 'set') this.#name(node.target, () => this.#kinds(node.value));
    if (node.kind === 'set block') this.#name(node.target, () => ['text']);
    if (node.kind === 'for')
      this.#name(node.target, () =>
        this.#kinds(node.over).map((kind) => (kind === 'messages' ? 'message' : 'other')),
      );
    if (node.kind === 'with')
      for (const [target, value] of node.values) this.#name(target, () => this.#kinds(value));
    if (node.kind === 'macro' || node.kind === 'call block')
      for (const { name } of node.parameters) this.#name({ kind: 'name', name }, () => ['other']);
    if (node.kind === 'macro') this.#name({ kind: 'name', name: node.name }, () => ['other']);
  }

  #name(target: Target, kinds: () => Kind[]): void {
    if (target.kind === 'targets')
      for (const one of target.targets) this.#name(one, () => ['other']);
    else {
      const name = target.kind === 'name' ? target.name : `${target.of}.${target.name}`;
      this.#names.set(name, [...(this.#names.get(name) ?? []), kinds]);
    }
  }

  #named(name: string): readonly Kind[] {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    this.#known.set(name, []); // one that is made of itself
    const kinds = [
      ...(this.#names.get(name) ?? []).flatMap((kindsOf) => kindsOf()),
      ...this.#given(name),
    ];
    this.#known.set(name, kinds);
    return kinds;
  }

  /** Before any assignment. */
  #given(name: string): Kind[] {
    if (name === 'messages') return ['messages'];
    if (name === 'bos_token' || name === 'eos_token') return ['text'];
    if (name === 'add_generation_prompt') return ['truth'];
    return this.#names.has(name) ? [] : ['missing'];
  }

  #kinds(expression: Expression): Kind[] {
    switch (expression.kind) {
      case 'constant': {
        const { value } = expression;
        if (value === null) return ['none'];
        return [
          typeof value === 'string' ? 'text' : typeof value === 'boolean' ? 'truth' : 'number',
        ];
      }
      case 'name':
        return [...this.#named(expression.name)];
      case 'list':
      case 'tuple':
        return ['list'];
      case 'dict':
        return ['dict'];
      case 'attribute':
        return this.#kindsOfMember(expression.of, expression.name);
      case 'item': {
        const { at } = expression;
        if (at.kind === 'constant' && typeof at.value === 'string')
          return this.#kindsOfMember(expression.of, at.value);
        return this.#kinds(expression.of).map((kind) =>
          kind === 'messages' ? 'message' : kind === 'text' || kind === 'role' ? 'text' : 'other',
        );
      }
      case 'slice':
        return this.#kinds(expression.of);
      case 'call': {
        const { called } = expression;
        if (called.kind !== 'attribute')
          return called.kind === 'name' && called.name === 'range' ? ['list'] : ['other'];
        if (/^(is|starts|ends)/.test(called.name)) return ['truth'];
        return [METHODS.get(called.name) ?? 'other'];
      }
      case 'filter': {
        const { name, of } = expression;
        // not of every filter: names that are made of each other are known by who asks first
        const kinds = (): Kind[] => (of === null ? [] : this.#kinds(of));
        switch (name) {
          case 'safe':
          case 'reverse':
            return of === null ? ['text'] : kinds();
          case 'default':
          case 'd': {
            const before = kinds();
            const [otherwise] = expression.given.positional;
            return otherwise === undefined ? before : [...before, ...this.#kinds(otherwise)];
          }
          case 'first':
          case 'last':
            return kinds().map((kind) => (kind === 'messages' ? 'message' : 'other'));
          default:
            return [FILTERS.get(name) ?? 'other'];
        }
      }
      case 'test':
      case 'not':
      case 'comparison':
        return ['truth'];
      case 'negative':
      case 'positive':
        return ['number'];
      case 'concatenation':
        return ['text'];
      case 'operation': {
        const kinds = [...this.#kinds(expression.left), ...this.#kinds(expression.right)];
        if (expression.operator !== '+') return kinds.includes('text') ? ['text'] : ['number'];
        return kinds.includes('text') || kinds.includes('role') ? ['text'] : [...new Set(kinds)];
      }
      case 'and':
      case 'or':
        return [...this.#kinds(expression.left), ...this.#kinds(expression.right)];
      case 'condition':
        return [
          ...this.#kinds(expression.then),
          ...(expression.otherwise === null ? [] : this.#kinds(expression.otherwise)),
        ];
    }
  }

  #kindsOfMember(of: Expression, name: string): Kind[] {
    if (of.kind === 'name') {
      if (of.name === 'loop') return [OF_LOOP.get(name) ?? 'other'];
      if (this.#names.has(`${of.name}.${name}`)) return [...this.#named(`${of.name}.${name}`)];
    }
    return this.#kinds(of).map((kind) => {
      if (kind !== 'message') return 'other';
      return name === 'role' ? 'role' : name === 'content' ? 'text' : 'missing';
    });
  }

  #may(expression: Expression | null, kinds: readonly Kind[]): boolean {
    return expression !== null && this.#kinds(expression).some((kind) => kinds.includes(kind));
  }

  #isOtherwise(node: Node): boolean {
    switch (node.kind) {
      case 'break':
      case 'continue':
        return true;
      case 'output':
        return this.#may(node.of, WRITTEN_OTHERWISE);
      case 'concatenation':
        return node.parts.some((part) => this.#may(part, WRITTEN_OTHERWISE));
      case 'constant':
        return typeof node.value === 'bigint'
          ? node.value > 2n ** 53n
          : typeof node.value === 'number' && node.value >= 1e16;
      case 'operation':
        return node.operator === '%' && (mayBeNegative(node.left) || mayBeNegative(node.right));
      case 'comparison':
        return node.rest.some(([operator, right], i) =>
          this.#comparesOtherwise(i === 0 ? node.first : node.rest[i - 1]![1], operator, right),
        );
      case 'filter':
        return this.#filtersOtherwise(node.name, node.of, node.given);
      case 'test':
        if (node.name === 'iterable') return this.#may(node.of, ['missing', 'message', 'dict']);
        return (
          node.name === 'lower' ||
          node.name === 'upper' ||
          (node.name === 'number' && this.#may(node.of, ['truth']))
        );
      case 'call':
        return (
          node.called.kind === 'attribute' &&
          this.#callsOtherwise(node.called.name, node.called.of, node.given)
        );
      case 'for':
        return this.#leaks(node);
      case 'generation':
        return node.body.some(({ kind }) => kind === 'set' || kind === 'set block');
      default:
        return false;
    }
  }

  #comparesOtherwise(left: Expression, operator: Comparison, right: Expression): boolean {
    if (operator !== '==' && operator !== '!=') return false;
    const either = (some: readonly Kind[], others: readonly Kind[]): boolean =>
      (this.#may(left, some) && this.#may(right, others)) ||
      (this.#may(right, some) && this.#may(left, others));
    return (
      either(['none'], ['missing']) ||
      either(['number'], ['text']) ||
      either(COLLECTIONS, COLLECTIONS)
    );
  }

  #filtersOtherwise(
    name: string,
    of: Expression | null,
    { positional, keywords }: Arguments,
  ): boolean {
    switch (name) {
      case 'trim':
        return positional.length + keywords.length > 0;
      case 'string':
        return this.#may(of, WRITTEN_OTHERWISE);
      case 'capitalize':
      case 'title':
        return of === null || this.#kinds(of).some((kind) => kind !== 'role');
      case 'join':
        return positional.length > 1 || keywords.some((one) => one.name === 'attribute');
      case 'tojson':
        return keywords.some((one) => one.name === 'sort_keys');
      default:
        return false;
    }
  }

  #callsOtherwise(name: string, of: Expression, { positional, keywords }: Arguments): boolean {
    switch (name) {
      case 'strip':
      case 'lstrip':
      case 'rstrip':
        return positional.length + keywords.length > 0;
      case 'startswith':
      case 'endswith':
        return positional.length > 1 || positional.some(({ kind }) => kind === 'tuple');
      case 'capitalize':
        return this.#kinds(of).some((kind) => kind !== 'role');
      default:
        return false;
    }
  }

  /**
   * One step of a loop saw what an earlier one had set: a name that is read where this step may not
   * have set it yet.
   */
  #leaks(loop: Extract<Statement, { kind: 'for' }>): boolean {
    const own = new Set<string>();
    for (const node of this.#walkInScope(loop.body))
      if (node.kind === 'set' || node.kind === 'set block')
        for (const name of namesOf(node.target)) own.add(name);
    return own.size > 0 && readsBeforeSet(loop.body, new Set(namesOf(loop.target)), own).leaks;
  }

  /** Without the loops, macros and blocks inside, whose names are their own. */
  *#walkInScope(body: readonly Statement[]): Generator<Statement> {
    for (const statement of body) {
      yield statement;
      if (statement.kind === 'if') {
        for (const branch of statement.branches) yield* this.#walkInScope(branch.body);
        yield* this.#walkInScope(statement.otherwise);
      }
    }
  }
}

const mayBeNegative = (expression: Expression): boolean =>
  expression.kind === 'negative' ||
  (expression.kind === 'operation' &&
    (expression.operator === '-' ||
      mayBeNegative(expression.left) ||
      mayBeNegative(expression.right))) ||
  (expression.kind === 'constant' &&
    typeof expression.value !== 'string' &&
    Number(expression.value) < 0);

function namesOf(target: Target): string[] {
  if (target.kind === 'targets') return target.targets.flatMap(namesOf);
  return target.kind === 'name' ? [target.name] : [];
}

/**
 * @param set names that were set for certain;
 * @param own those of the loop, which an earlier step may have set
 */
function readsBeforeSet(
  body: readonly Statement[],
  set: Set<string>,
  own: ReadonlySet<string>,
): { leaks: boolean; set: Set<string> } {
  let known = set;
  const reads = (node: Node): boolean =>
    (node.kind === 'name' && own.has(node.name) && !known.has(node.name)) ||
    childrenOf(node).some(reads);
  for (const statement of body) {
    if (statement.kind === 'if') {
      const ends: Set<string>[] = [];
      for (const { test, body: branch } of [
        ...statement.branches,
        { test: null, body: statement.otherwise },
      ]) {
        if (test !== null && reads(test)) return { leaks: true, set: known };
        const end = readsBeforeSet(branch, new Set(known), own);
        if (end.leaks) return end;
        ends.push(end.set);
      }
      known = new Set([...ends[0]!].filter((name) => ends.every((one) => one.has(name))));
    } else {
      if (reads(statement)) return { leaks: true, set: known };
      if (statement.kind === 'set' || statement.kind === 'set block')
        for (const name of namesOf(statement.target)) known.add(name);
    }
  }
  return { leaks: false, set: known };
}
