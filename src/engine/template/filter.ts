/** What a filter is. */
import type { Budget } from './budget.js';
import type { Given, Value } from './values.js';

/** What a filter needs of whoever runs it. */
export interface Runner {
  readonly budget: Budget;
  /** `value.name`, or `value[0]` where the name is a number, step by step where it has points. */
  attribute(value: Value, path: Value): Value;
  filter(name: string, of: Value, given: Given): Value;
  test(name: string, of: Value, given: Given): boolean;
}

export type Filter = (of: Value, given: Given, runner: Runner) => Value;
