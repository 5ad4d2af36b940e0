/** Runs a template's tree: what jinja2 writes where transformers configures it, within a budget. */
import { ownValue } from '../../dictionary.js';
import { bound } from './arguments.js';
import { itemOf, negative, operation, slice } from './arithmetic.js';
import type { Budget } from './budget.js';
import { NotCovered, TemplateError, TemplateLimit } from './failures.js';
import type { Runner } from './filter.js';
import { filtered } from './filters.js';
import { methodOf } from './methods.js';
import { str } from './python-text.js';
import { Scope } from './scope.js';
import type {
  Arguments,
  Comparison,
  Expression,
  Filter,
  Parameter,
  Statement,
  Target,
} from './syntax.js';
import { tested } from './tests.js';
import {
  Callable,
  COMPARES,
  Dict,
  equal,
  Items,
  iterated,
  Loop,
  Namespace,
  numeric,
  tuple,
  truth,
  typeName,
  Undefined,
  type Given,
  type Value,
} from './values.js';

/** How a list of statements ended. */
type Ending = 'end' | 'break' | 'continue';
type For = Extract<Statement, { kind: 'for' }>;

export class Interpreter implements Runner {
  readonly budget: Budget;
  #written: string[] = [];

  constructor(budget: Budget) {
    this.budget = budget;
  }

  /** @throws TemplateError */
  run(body: readonly Statement[], globals: Scope): string {
    return this.#captured(() => this.#statements(body, new Scope(globals)));
  }

  // ---- statements

  #captured(write: () => void): string {
    const before = this.#written;
    this.#written = [];
    write();
    const text = this.#written.join('');
    this.#written = before;
    return text;
  }

  #write(text: string): void {
    this.budget.text(text.length);
    this.#written.push(text);
  }

  #statements(body: readonly Statement[], scope: Scope): Ending {
    for (const statement of body) {
      this.budget.enter();
      const ending = this.#statement(statement, scope);
      this.budget.leave();
      if (ending !== 'end') return ending;
    }
    return 'end';
  }

  #statement(statement: Statement, scope: Scope): Ending {
    switch (statement.kind) {
      case 'text':
        this.#write(statement.text);
        return 'end';
      case 'output':
        this.#write(str(this.#value(statement.of, scope), this.budget));
        return 'end';
      case 'if': {
        const branch = statement.branches.find(({ test }) => truth(this.#value(test, scope)));
        return this.#statements(branch?.body ?? statement.otherwise, scope);
      }
      case 'for':
        this.#for(statement, this.#value(statement.over, scope), scope, 0);
        return 'end';
      case 'set':
        this.#assign(statement.target, this.#value(statement.value, scope), scope);
        return 'end';
      case 'set block': {
        const text = this.#captured(() => this.#statements(statement.body, new Scope(scope)));
        this.#assign(
          statement.target,
          statement.filter === null ? text : this.#filters(statement.filter, text, scope),
          scope,
        );
        return 'end';
      }
      case 'with': {
        const inner = new Scope(scope);
        for (const [target, value] of statement.values)
          this.#assign(target, this.#value(value, scope), inner);
        return this.#statements(statement.body, inner);
      }
      case 'macro':
        scope.set(
          statement.name,
          this.#macro(statement.name, statement.parameters, statement.body, scope),
        );
        return 'end';
      case 'call block': {
        const caller = this.#macro('caller', statement.parameters, statement.body, scope);
        this.#write(str(this.#call(statement.call, scope, [['caller', caller]]), this.budget));
        return 'end';
      }
      case 'filter block': {
        const text = this.#captured(() => this.#statements(statement.body, new Scope(scope)));
        this.#write(str(this.#filters(statement.filter, text, scope), this.budget));
        return 'end';
      }
      case 'generation':
        this.#statements(statement.body, new Scope(scope));
        return 'end';
      case 'break':
      case 'continue':
        return statement.kind;
      case 'unknown':
        throw new NotCovered(`the statement "${statement.name}"`);
    }
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    if (target.kind === 'name') scope.set(target.name, value);
    else if (target.kind === 'member') {
      const namespace = scope.get(target.of);
      if (!(namespace instanceof Namespace))
        throw new TemplateError(
          `"${target.of}" is not a namespace: only members of a namespace can be set`,
        );
      namespace.members.set(target.name, value);
    } else {
      if (value instanceof Undefined) value.fail();
      const members = iterated(value, this.budget);
      if (members.length !== target.targets.length)
        throw new TemplateError(
          `cannot assign ${members.length} values to ${target.targets.length} names`,
        );
      for (const [i, one] of target.targets.entries()) this.#assign(one, members[i]!, scope);
    }
  }

  #for(loop: For, over: Value, scope: Scope, depth: number): void {
    const given = [...iterated(over, this.budget)];
    this.budget.members(given.length);
    const members =
      loop.test === null
        ? given
        : given.filter((member) => {
            const inner = new Scope(scope);
            this.#assign(loop.target, member, inner);
            return truth(this.#value(loop.test!, inner));
          });
    if (members.length === 0) return void this.#statements(loop.otherwise, new Scope(scope));
    const again = (value: Value): Value =>
      this.#captured(() => this.#for(loop, value, scope, depth + 1));
    let changed: Value | undefined;
    let at = 0;
    const { length } = members;
    const isChanged = new Callable('loop.changed', ({ positional }) => {
      const now = tuple(...positional);
      const isSame = changed !== undefined && equal(changed, now, this.budget);
      changed = now;
      return !isSame;
    });
    const cycle = new Callable('loop.cycle', ({ positional }) => {
      if (positional.length === 0)
        throw new TemplateError('loop.cycle needs something to choose from');
      return positional[at % positional.length]!;
    });
    const state: Loop = new Loop(
      {
        index: () => BigInt(at + 1),
        index0: () => BigInt(at),
        revindex: () => BigInt(length - at),
        revindex0: () => BigInt(length - at - 1),
        first: () => at === 0,
        last: () => at === length - 1,
        length: () => BigInt(length),
        depth: () => BigInt(depth + 1),
        depth0: () => BigInt(depth),
        previtem: () => (at === 0 ? new Undefined('there is no previous item') : members[at - 1]!),
        nextitem: () =>
          at === length - 1 ? new Undefined('there is no next item') : members[at + 1]!,
        changed: () => isChanged,
        cycle: () => cycle,
      },
      loop.recursive ? again : null,
    );
    for (; at < members.length; at++) {
      const inner = new Scope(scope);
      inner.set('loop', state);
      this.#assign(loop.target, members[at]!, inner);
      if (this.#statements(loop.body, inner) === 'break') return;
    }
  }

  #macro(
    name: string,
    parameters: readonly Parameter[],
    body: readonly Statement[],
    scope: Scope,
  ): Callable {
    return new Callable(name, ({ positional, keywords }) => {
      const inner = new Scope(scope);
      const own = new Map(keywords);
      const caller = own.get('caller');
      own.delete('caller');
      inner.set('caller', caller ?? new Undefined("'caller' is undefined"));
      for (const special of ['varargs', 'kwargs']) inner.refuse(special, `"${special}" in a macro`);
      const values = bound(
        `the macro "${name}"`,
        parameters.map((parameter) => parameter.name),
        { positional, keywords: own },
      );
      for (const [i, parameter] of parameters.entries())
        inner.set(
          parameter.name,
          values[i] !== undefined
            ? values[i]
            : parameter.fallback === null
              ? new Undefined(`parameter '${parameter.name}' was not provided`)
              : this.#value(parameter.fallback, inner),
        );
      return this.#captured(() => this.#statements(body, inner));
    });
  }

  // ---- expressions

  #value(expression: Expression, scope: Scope): Value {
    this.budget.enter();
    const value = this.#evaluated(expression, scope);
    this.budget.leave();
    return value;
  }

  #evaluated(expression: Expression, scope: Scope): Value {
    switch (expression.kind) {
      case 'constant':
        return expression.value;
      case 'name':
        return scope.get(expression.name);
      case 'list':
        return this.#all(expression.members, scope);
      case 'tuple':
        return tuple(...this.#all(expression.members, scope));
      case 'dict': {
        this.budget.members(2 * expression.entries.length);
        return new Dict(
          expression.entries.map(([key, value]) => [
            this.#value(key, scope),
            this.#value(value, scope),
          ]),
        );
      }
      case 'attribute':
        return this.#attribute(this.#value(expression.of, scope), expression.name);
      case 'item':
        return this.#item(this.#value(expression.of, scope), this.#value(expression.at, scope));
      case 'slice': {
        const of = this.#value(expression.of, scope);
        const bounds = [expression.from, expression.to, expression.step].map((one) =>
          one === null ? null : this.#value(one, scope),
        );
        return slice(of, bounds, this.budget);
      }
      case 'call':
        return this.#call(expression, scope, []);
      case 'filter':
        return this.filter(
          expression.name,
          this.#value(expression.of!, scope),
          this.#given(expression.given, scope),
        );
      case 'test': {
        const holds = this.test(
          expression.name,
          this.#value(expression.of, scope),
          this.#given(expression.given, scope),
        );
        return holds !== expression.negated;
      }
      case 'not':
        return !truth(this.#value(expression.of, scope));
      case 'negative':
        return negative(this.#value(expression.of, scope));
      case 'positive': {
        const value = this.#value(expression.of, scope);
        if (value instanceof Undefined) value.fail();
        const number = numeric(value);
        if (number === null)
          throw new TemplateError(`a sign cannot be applied to ${typeName(value)}`);
        return number;
      }
      case 'operation':
        return operation(
          expression.operator,
          this.#value(expression.left, scope),
          this.#value(expression.right, scope),
          this.budget,
        );
      case 'concatenation':
        return expression.parts
          .map((part) => str(this.#value(part, scope), this.budget))
          .reduce((text, part) => this.budget.joined(text, part));
      case 'comparison':
        return this.#comparison(expression.first, expression.rest, scope);
      case 'and': {
        const left = this.#value(expression.left, scope);
        return truth(left) ? this.#value(expression.right, scope) : left;
      }
      case 'or': {
        const left = this.#value(expression.left, scope);
        return truth(left) ? left : this.#value(expression.right, scope);
      }
      case 'condition':
        if (truth(this.#value(expression.test, scope))) return this.#value(expression.then, scope);
        return expression.otherwise === null
          ? new Undefined('an "if" expression without "else" has a false condition')
          : this.#value(expression.otherwise, scope);
    }
  }

  #all(members: readonly Expression[], scope: Scope): Value[] {
    this.budget.members(members.length);
    return members.map((member) => this.#value(member, scope));
  }

  #comparison(
    first: Expression,
    rest: readonly (readonly [Comparison, Expression])[],
    scope: Scope,
  ): boolean {
    let left = this.#value(first, scope);
    for (const [operator, expression] of rest) {
      const right = this.#value(expression, scope);
      if (!COMPARES[operator](left, right, this.budget)) return false;
      left = right;
    }
    return true;
  }

  /** `value.name`: a method before a key, as jinja2 has it. */
  #attribute(value: Value, name: string): Value {
    if (value instanceof Undefined) value.fail();
    const own = this.#member(value, name);
    if (own !== undefined) return own;
    const item = value instanceof Dict ? value.get(name) : undefined;
    return item !== undefined
      ? item
      : new Undefined(`'${typeName(value)} object' has no attribute '${name}'`);
  }

  /** `value[at]`: a key before a method. */
  #item(value: Value, at: Value): Value {
    if (value instanceof Undefined) value.fail();
    if (value instanceof Dict && (typeof at !== 'object' || at === null)) {
      const item = value.get(at);
      if (item !== undefined) return item;
    }
    const index = typeof at === 'boolean' ? BigInt(at) : at;
    if (typeof index === 'bigint') {
      const isIndexed = typeof value === 'string' || Array.isArray(value);
      const members = isIndexed
        ? value
        : value instanceof Items && (value.kind === 'tuple' || value.kind === 'range')
          ? value.members
          : null;
      if (typeof members === 'string') this.budget.read(members.length);
      const item = members === null ? undefined : itemOf(members, index);
      if (item !== undefined) return item;
    }
    const own = typeof at === 'string' ? this.#member(value, at) : undefined;
    return (
      own ??
      new Undefined(
        `'${typeName(value)} object' has no item ${typeof at === 'string' ? `'${at.slice(0, 100)}'` : 'at that index'}`,
      )
    );
  }

  #member(value: Value, name: string): Value | undefined {
    if (value instanceof Namespace) return value.members.get(name);
    if (value instanceof Loop) return ownValue(value.members, name)?.();
    if (value instanceof Callable) throw new NotCovered(`the member "${name}" of a function`);
    const method = methodOf(value, name, this.budget);
    return method === null ? undefined : new Callable(name, method);
  }

  #call(
    { called, given }: Extract<Expression, { kind: 'call' }>,
    scope: Scope,
    more: readonly (readonly [string, Value])[],
  ): Value {
    const callee = this.#value(called, scope);
    if (callee instanceof Undefined) callee.fail();
    const { positional, keywords } = this.#given(given, scope);
    if (callee instanceof Loop) {
      const [over] = positional;
      if (callee.again === null || over === undefined)
        throw new TemplateError('this loop is not recursive');
      return callee.again(over);
    }
    if (!(callee instanceof Callable))
      throw new TemplateError(`${typeName(callee)} cannot be called`);
    return callee.call({
      positional,
      keywords: more.length === 0 ? keywords : new Map([...keywords, ...more]),
    });
  }

  #given({ positional, keywords, spread, spreadKeywords }: Arguments, scope: Scope): Given {
    const values = positional.map((one) => this.#value(one, scope));
    const named = new Map(keywords.map(({ name, value }) => [name, this.#value(value, scope)]));
    const more = spread === null ? [] : iterated(this.#value(spread, scope), this.budget);
    const moreNamed = spreadKeywords === null ? null : this.#value(spreadKeywords, scope);
    if (moreNamed !== null) {
      if (!(moreNamed instanceof Dict))
        throw new TemplateError(`"**" needs a dict, not ${typeName(moreNamed)}`);
      for (const [name, value] of moreNamed.entries()) named.set(str(name, this.budget), value);
    }
    if (values.length + more.length > MOST_ARGUMENTS)
      throw new TemplateLimit(`a call has more than ${MOST_ARGUMENTS} arguments`);
    return { positional: [...values, ...more], keywords: named };
  }

  // ---- what filters ask for

  filter(name: string, of: Value, given: Given): Value {
    this.budget.steps(1);
    return filtered(name, of, given, this);
  }

  test(name: string, of: Value, given: Given): boolean {
    this.budget.steps(1);
    return tested(name, of, given, this.budget);
  }

  attribute(value: Value, path: Value): Value {
    if (typeof path === 'bigint') return this.#item(value, path);
    if (typeof path !== 'string')
      throw new TemplateError(`an attribute name must be a string, not ${typeName(path)}`);
    const parts = path.split('.').map((part) => (/^\d+$/.test(part) ? BigInt(part) : part));
    return parts.reduce((of: Value, part) => this.#item(of, part), value);
  }

  /** The filters of a block, the innermost of which takes its text. */
  #filters({ of, name, given }: Filter, text: string, scope: Scope): Value {
    const before = of === null ? text : this.#filters(of as Filter, text, scope);
    return this.filter(name, before, this.#given(given, scope));
  }
}

const MOST_ARGUMENTS = 1000;
