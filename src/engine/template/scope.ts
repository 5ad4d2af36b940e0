/** Names and what they stand for, inner ones before outer ones. */
import { NotCovered } from './failures.js';
import { Undefined, type Value } from './values.js';

export class Scope {
  readonly #outer: Scope | null;
  readonly #values = new Map<string, Value>();
  #refused: Map<string, string> | null = null;

  constructor(outer: Scope | null) {
    this.#outer = outer;
  }

  /** @throws NotCovered */
  get(name: string): Value {
    for (let scope: Scope | null = this; scope !== null; scope = scope.#outer) {
      const value = scope.#values.get(name);
      if (value !== undefined) return value;
      const refused = scope.#refused?.get(name);
      if (refused !== undefined) throw new NotCovered(refused);
    }
    return new Undefined(`'${name}' is undefined`);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  /** A name of jinja2's that is not covered here. */
  refuse(name: string, what: string): void {
    (this.#refused ??= new Map()).set(name, what);
  }
}
