/**
 * From a template's pieces to its tree, by jinja2's grammar (`jinja2/parser.py` of release 3.1).
 */
import { TemplateError } from './failures.js';
import { tokensOf, type Token, type TokenKind } from './lexer.js';
import type {
  Arguments,
  Comparison,
  Expression,
  Filter,
  Keyword,
  Operator,
  Parameter,
  Statement,
  Target,
} from './syntax.js';

/**
 * Statements within statements and expressions within expressions: what is deeper than this was
 * written to exhaust a stack.
 */
const DEEPEST = 200;
/** `a + a + a + …` nests too, to the left. */
const LONGEST_CHAIN = 500;

const NOT_COVERED = new Set(
  'include import from extends block autoescape do trans debug'.split(' '),
);
const COMPARISONS = new Set<string>(['==', '!=', '<', '<=', '>', '>=']);
const CONSTANTS: Readonly<Record<string, boolean | null>> = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
};
const NO_ARGUMENTS: Arguments = {
  positional: [],
  keywords: [],
  spread: null,
  spreadKeywords: null,
};

/** @throws TemplateError */
export function parse(template: string): readonly Statement[] {
  return new Parser(tokensOf(template)).template();
}

/** Nothing is escaped: where it ends an output, the filter `safe` changes nothing. */
const outputOf = (of: Expression): Statement => ({
  kind: 'output',
  of: of.kind === 'filter' && of.name === 'safe' && of.of !== null ? of.of : of,
});

const integerOf = (digits: string): Expression => ({
  kind: 'constant',
  value: BigInt(digits.replaceAll('_', '')),
});

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;
  #loops = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  template(): Statement[] {
    const body = this.#statements([]);
    if (this.#now.kind !== 'end') this.#unexpected();
    return body;
  }

  get #now(): Token {
    return this.#tokens[this.#at]!;
  }

  #next(): Token {
    return this.#tokens[this.#at++]!;
  }

  #is(kind: TokenKind, text?: string, ahead = 0): boolean {
    const token = this.#tokens[this.#at + ahead];
    return token?.kind === kind && (text === undefined || token.text === text);
  }

  #skip(kind: TokenKind, text: string): boolean {
    const found = this.#is(kind, text);
    if (found) this.#at++;
    return found;
  }

  #expect(kind: TokenKind, text?: string): Token {
    if (!this.#is(kind, text)) this.#unexpected(text ?? kind.replace('_', ' '));
    return this.#next();
  }

  #unexpected(expected?: string): never {
    const { kind, text } = this.#now;
    const seen =
      kind === 'end'
        ? 'the end of the template'
        : text === ''
          ? kind.replace('_', ' ')
          : JSON.stringify(text.slice(0, 60));
    this.#fail(expected === undefined ? `unexpected ${seen}` : `expected ${expected}, got ${seen}`);
  }

  #fail(what: string): never {
    throw new TemplateError(`line ${this.#now.line}: ${what}`);
  }

  #nested<T>(parsed: () => T): T {
    if (++this.#depth > DEEPEST) this.#fail(`it is nested more than ${DEEPEST} levels deep`);
    const found = parsed();
    this.#depth--;
    return found;
  }

  /** Up to a statement of one of these names, which is left to be read. */
  #statements(ends: readonly string[]): Statement[] {
    const found: Statement[] = [];
    for (;;) {
      if (this.#is('data')) found.push({ kind: 'text', text: this.#next().text });
      else if (this.#is('variable_begin')) {
        this.#next();
        found.push(outputOf(this.#tuple()));
        this.#expect('variable_end');
      } else if (this.#is('block_begin')) {
        if (this.#is('name', undefined, 1) && ends.includes(this.#tokens[this.#at + 1]!.text))
          return found;
        this.#next();
        found.push(...this.#nested(() => this.#statement()));
        this.#expect('block_end');
      } else if (ends.length > 0) this.#fail(`the template ends before ${ends.join(' or ')}`);
      else return found;
    }
  }

  /** Behind the begin of a statement: its body up to an end of these names, which is read. */
  #body(...ends: readonly string[]): { body: Statement[]; end: string } {
    this.#expect('block_end');
    const body = this.#statements(ends);
    this.#next();
    return { body, end: this.#next().text };
  }

  /** A statement without those around it; `break` means nothing in there. */
  #closedBody(end: string): Statement[] {
    const loops = this.#loops;
    this.#loops = 0;
    const { body } = this.#body(end);
    this.#loops = loops;
    return body;
  }

  #statement(): Statement[] {
    const { text: name } = this.#expect('name');
    switch (name) {
      case 'for':
        return [this.#for()];
      case 'if':
        return [this.#if()];
      case 'set':
        return [this.#set()];
      case 'with':
        return [this.#with()];
      case 'macro': {
        const macro = this.#expect('name').text;
        const parameters = this.#parameters();
        return [{ kind: 'macro', name: macro, parameters, body: this.#closedBody('endmacro') }];
      }
      case 'call': {
        const parameters = this.#is('operator', '(') ? this.#parameters() : [];
        const call = this.#expression();
        if (call.kind !== 'call') this.#fail('expected a call');
        return [{ kind: 'call block', parameters, call, body: this.#closedBody('endcall') }];
      }
      case 'filter': {
        const filter = this.#filters(null, true) as Filter;
        return [{ kind: 'filter block', filter, body: this.#body('endfilter').body }];
      }
      case 'generation':
        return [{ kind: 'generation', body: this.#closedBody('endgeneration') }];
      case 'print': {
        const outputs: Statement[] = [];
        while (!this.#is('block_end')) {
          if (outputs.length > 0) this.#expect('operator', ',');
          outputs.push(outputOf(this.#expression()));
        }
        return outputs;
      }
      case 'break':
      case 'continue':
        if (this.#loops === 0) this.#fail(`"${name}" outside a loop`);
        return [{ kind: name }];
      default:
        return [this.#notCovered(name)];
    }
  }

  /**
   * What follows such a statement is read as if the statement were not there; a rendering ends
   * where it is reached.
   */
  #notCovered(name: string): Statement {
    if (!NOT_COVERED.has(name)) this.#fail(`there is no statement "${name}"`);
    while (!this.#is('block_end') && !this.#is('end')) this.#next();
    if (name === 'block' || name === 'autoescape' || name === 'trans') this.#body(`end${name}`);
    while (!this.#is('block_end') && !this.#is('end')) this.#next();
    return { kind: 'unknown', name };
  }

  #for(): Statement {
    const target = this.#targets('in');
    this.#expect('name', 'in');
    const over = this.#tuple({ conditions: false, end: 'recursive' });
    const test = this.#skip('name', 'if') ? this.#expression() : null;
    const recursive = this.#skip('name', 'recursive');
    this.#loops++;
    const { body, end } = this.#body('endfor', 'else');
    this.#loops--;
    const otherwise = end === 'else' ? this.#body('endfor').body : [];
    return { kind: 'for', target, over, test, recursive, body, otherwise };
  }

  #if(): Statement {
    const branches: { test: Expression; body: Statement[] }[] = [];
    let end = 'elif';
    while (end === 'elif') {
      const test = this.#tuple({ conditions: false });
      const found = this.#body('elif', 'else', 'endif');
      branches.push({ test, body: found.body });
      ({ end } = found);
    }
    return { kind: 'if', branches, otherwise: end === 'else' ? this.#body('endif').body : [] };
  }

  #set(): Statement {
    const target = this.#targets('');
    if (this.#skip('operator', '=')) return { kind: 'set', target, value: this.#tuple() };
    const filter = this.#filters(null, false) as Filter | null;
    return { kind: 'set block', target, filter, body: this.#body('endset').body };
  }

  #with(): Statement {
    const values: [Target, Expression][] = [];
    while (!this.#is('block_end')) {
      if (values.length > 0) this.#expect('operator', ',');
      const target = this.#target();
      this.#expect('operator', '=');
      values.push([target, this.#expression()]);
    }
    return { kind: 'with', values, body: this.#body('endwith').body };
  }

  #targets(end: string): Target {
    const targets = [this.#target()];
    let several = false;
    while (this.#skip('operator', ',')) {
      several = true;
      if (this.#is('name', end) || this.#is('operator', '=') || this.#is('block_end')) break;
      targets.push(this.#target());
    }
    return several ? { kind: 'targets', targets } : targets[0]!;
  }

  #target(): Target {
    if (this.#skip('operator', '(')) {
      const found = this.#nested(() => this.#targets(''));
      this.#expect('operator', ')');
      return found;
    }
    const { text: name } = this.#expect('name');
    if (Object.hasOwn(CONSTANTS, name)) this.#fail(`cannot assign to ${name}`);
    if (this.#skip('operator', '.'))
      return { kind: 'member', of: name, name: this.#expect('name').text };
    return { kind: 'name', name };
  }

  #parameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.#expect('operator', '(');
    while (!this.#is('operator', ')')) {
      if (parameters.length > 0) this.#expect('operator', ',');
      const { text: name } = this.#expect('name');
      const fallback = this.#skip('operator', '=') ? this.#expression() : null;
      if (fallback === null && parameters.at(-1)?.fallback != null)
        this.#fail('a parameter without a default follows one with a default');
      parameters.push({ name, fallback });
    }
    this.#next();
    return parameters;
  }

  /** One expression, or several with commas between them. */
  #tuple({ conditions = true, end = '', parenthesised = false } = {}): Expression {
    const members: Expression[] = [];
    let several = false;
    for (;;) {
      if (members.length > 0) {
        if (!this.#skip('operator', ',')) break;
        several = true;
      }
      if (
        this.#is('variable_end') ||
        this.#is('block_end') ||
        this.#is('operator', ')') ||
        (end !== '' && this.#is('name', end))
      )
        break;
      members.push(conditions ? this.#expression() : this.#nested(() => this.#or()));
      if (!this.#is('operator', ',')) break;
    }
    if (!several && members.length === 1) return members[0]!;
    if (members.length === 0 && !parenthesised) this.#unexpected('an expression');
    return { kind: 'tuple', members };
  }

  #expression(): Expression {
    return this.#nested(() => {
      let then = this.#or();
      for (const chain = this.#chain(); this.#skip('name', 'if'); chain()) {
        const test = this.#or();
        const otherwise = this.#skip('name', 'else') ? this.#expression() : null;
        then = { kind: 'condition', test, then, otherwise };
      }
      return then;
    });
  }

  /** Counts the links of a chain. */
  #chain(): () => void {
    let links = 0;
    return () => {
      if (++links > LONGEST_CHAIN)
        this.#fail(`an expression has more than ${LONGEST_CHAIN} parts in a row`);
    };
  }

  #or(): Expression {
    return this.#joined('or', () => this.#joined('and', () => this.#not()));
  }

  #joined(kind: 'or' | 'and', operand: () => Expression): Expression {
    let left = operand();
    for (const chain = this.#chain(); this.#skip('name', kind); chain())
      left = { kind, left, right: operand() };
    return left;
  }

  #not(): Expression {
    if (this.#skip('name', 'not')) return { kind: 'not', of: this.#nested(() => this.#not()) };
    return this.#comparison();
  }

  #comparison(): Expression {
    const first = this.#sum();
    const rest: [Comparison, Expression][] = [];
    for (;;) {
      const { kind, text } = this.#now;
      if (kind === 'operator' && COMPARISONS.has(text)) {
        this.#next();
        rest.push([text as Comparison, this.#sum()]);
      } else if (this.#skip('name', 'in')) rest.push(['in', this.#sum()]);
      else if (this.#is('name', 'not') && this.#is('name', 'in', 1)) {
        this.#at += 2;
        rest.push(['not in', this.#sum()]);
      } else break;
    }
    return rest.length === 0 ? first : { kind: 'comparison', first, rest };
  }

  #operations(operators: readonly string[], operand: () => Expression): Expression {
    let left = operand();
    for (
      const chain = this.#chain();
      this.#now.kind === 'operator' && operators.includes(this.#now.text);
      chain()
    ) {
      const operator = this.#next().text as Operator;
      left = { kind: 'operation', operator, left, right: operand() };
    }
    return left;
  }

  #sum(): Expression {
    return this.#operations(['+', '-'], () => this.#concatenation());
  }

  #concatenation(): Expression {
    const parts = [this.#product()];
    while (this.#skip('operator', '~')) parts.push(this.#product());
    return parts.length === 1 ? parts[0]! : { kind: 'concatenation', parts };
  }

  #product(): Expression {
    return this.#operations(['*', '/', '//', '%'], () => this.#power());
  }

  /** From left to right, other than Python has it. */
  #power(): Expression {
    return this.#operations(['**'], () => this.#unary(true));
  }

  #unary(filters: boolean): Expression {
    const sign = this.#is('operator', '-')
      ? 'negative'
      : this.#is('operator', '+')
        ? 'positive'
        : null;
    if (sign !== null) this.#next();
    const read: Expression =
      sign === null ? this.#primary() : { kind: sign, of: this.#nested(() => this.#unary(false)) };
    const found = this.#postfix(read);
    return filters ? this.#filtersAndTests(found) : found;
  }

  #primary(): Expression {
    const { kind, text } = this.#now;
    switch (kind) {
      case 'name':
        this.#next();
        return Object.hasOwn(CONSTANTS, text)
          ? { kind: 'constant', value: CONSTANTS[text]! }
          : { kind: 'name', name: text };
      case 'string': {
        const texts: string[] = [];
        while (this.#is('string')) texts.push(this.#next().text);
        return { kind: 'constant', value: texts.join('') };
      }
      case 'integer':
        this.#next();
        if (text.length > 1000) this.#fail('a number has more than 1,000 digits');
        return integerOf(text);
      case 'float':
        this.#next();
        return { kind: 'constant', value: Number(text.replaceAll('_', '')) };
      default:
    }
    if (this.#skip('operator', '(')) {
      const found = this.#nested(() => this.#tuple({ parenthesised: true }));
      this.#expect('operator', ')');
      return found;
    }
    if (this.#skip('operator', '['))
      return { kind: 'list', members: this.#members(']', () => this.#expression()) };
    if (this.#skip('operator', '{'))
      return {
        kind: 'dict',
        entries: this.#members('}', () => {
          const key = this.#expression();
          this.#expect('operator', ':');
          return [key, this.#expression()] as const;
        }),
      };
    return this.#unexpected('an expression');
  }

  #members<Member>(end: string, read: () => Member): Member[] {
    const members: Member[] = [];
    while (!this.#is('operator', end)) {
      if (members.length > 0) this.#expect('operator', ',');
      if (this.#is('operator', end)) break;
      members.push(read());
    }
    this.#next();
    return members;
  }

  #postfix(read: Expression): Expression {
    let found = read;
    for (const chain = this.#chain(); ; chain()) {
      if (this.#skip('operator', '.')) {
        const { kind, text } = this.#next();
        if (kind === 'name') found = { kind: 'attribute', of: found, name: text };
        else if (kind === 'integer') found = { kind: 'item', of: found, at: integerOf(text) };
        else this.#fail('expected a name or a number after the dot');
      } else if (this.#skip('operator', '[')) found = this.#subscript(found);
      else if (this.#is('operator', '('))
        found = { kind: 'call', called: found, given: this.#arguments() };
      else return found;
    }
  }

  #subscript(of: Expression): Expression {
    const parts = this.#members(']', () => this.#subscribed(of));
    if (parts.length === 1 && parts[0]!.kind === 'slice') return parts[0]!;
    if (parts.length === 0 || parts.some(({ kind }) => kind === 'slice'))
      this.#fail('expected one index or slice');
    const at: Expression[] = parts.map(
      (part) => (part as Extract<Expression, { kind: 'item' }>).at,
    );
    return { kind: 'item', of, at: at.length === 1 ? at[0]! : { kind: 'tuple', members: at } };
  }

  #subscribed(of: Expression): Extract<Expression, { kind: 'slice' | 'item' }> {
    const parts: (Expression | null)[] = [];
    const bound = (): Expression | null =>
      this.#is('operator', ':') || this.#is('operator', ']') || this.#is('operator', ',')
        ? null
        : this.#expression();
    const first = bound();
    if (first !== null && !this.#is('operator', ':')) return { kind: 'item', of, at: first };
    while (parts.length < 2 && this.#skip('operator', ':')) parts.push(bound());
    if (parts.length === 0) this.#unexpected('an expression');
    return { kind: 'slice', of, from: first, to: parts[0] ?? null, step: parts[1] ?? null };
  }

  #arguments(): Arguments {
    const positional: Expression[] = [];
    const keywords: Keyword[] = [];
    let spread: Expression | null = null;
    let spreadKeywords: Expression | null = null;
    this.#expect('operator', '(');
    this.#members(')', () => {
      if (this.#skip('operator', '*')) spread = this.#expression();
      else if (this.#skip('operator', '**')) spreadKeywords = this.#expression();
      else if (this.#is('name') && this.#is('operator', '=', 1)) {
        const { text: name } = this.#next();
        this.#next();
        keywords.push({ name, value: this.#expression() });
      } else {
        if (keywords.length > 0 || spread !== null || spreadKeywords !== null)
          this.#fail('a positional argument follows one with a name');
        positional.push(this.#expression());
      }
    });
    return { positional, keywords, spread, spreadKeywords };
  }

  #dottedName(): string {
    let { text: name } = this.#expect('name');
    while (this.#skip('operator', '.')) name += `.${this.#expect('name').text}`;
    return name;
  }

  #filters(of: Expression | null, inline: boolean): Expression | null {
    let found = of;
    let begins = inline;
    for (const chain = this.#chain(); begins || this.#is('operator', '|'); chain()) {
      if (!begins) this.#next();
      begins = false;
      const name = this.#dottedName();
      found = {
        kind: 'filter',
        name,
        of: found,
        given: this.#is('operator', '(') ? this.#arguments() : NO_ARGUMENTS,
      };
    }
    return found;
  }

  #filtersAndTests(read: Expression): Expression {
    let found = read;
    for (const chain = this.#chain(); ; chain()) {
      if (this.#is('operator', '|')) found = this.#filters(found, false)!;
      else if (this.#skip('name', 'is')) found = this.#test(found);
      else if (this.#is('operator', '('))
        found = { kind: 'call', called: found, given: this.#arguments() };
      else return found;
    }
  }

  #test(of: Expression): Expression {
    const negated = this.#skip('name', 'not');
    const name = this.#dottedName();
    return { kind: 'test', name, of, given: this.#testArguments(), negated };
  }

  /** In parentheses, or one value without them. */
  #testArguments(): Arguments {
    if (this.#is('operator', '(')) return this.#arguments();
    const { kind, text } = this.#now;
    const isArgument =
      kind === 'name'
        ? !['else', 'or', 'and'].includes(text)
        : ['string', 'integer', 'float'].includes(kind) ||
          (kind === 'operator' && ['[', '{'].includes(text));
    if (!isArgument) return NO_ARGUMENTS;
    if (text === 'is' && kind === 'name') this.#fail('tests cannot be chained with "is"');
    return { ...NO_ARGUMENTS, positional: [this.#postfix(this.#primary())] };
  }
}
