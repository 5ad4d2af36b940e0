/** The scenarios that ship as data, in `assets/scenarios`. A test runs their self-tests. */
import { readFileSync } from 'node:fs';
import { frozenIndex } from '../frozen-sets.js';
import { readScenario, type Scenario } from './document.js';
import { readScenarioProblem, taskOf } from './scenario-task.js';

const FOLDER = new URL('../../../../assets/scenarios/', import.meta.url);

export const SHIPPED = ['grid_ctf', 'othello', 'irrigation', 'convoy'] as const;

export const shippedScenario = (name: (typeof SHIPPED)[number]): Scenario =>
  readScenario(JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8')));

export function shippedTask(name: (typeof SHIPPED)[number]) {
  const scenario = shippedScenario(name);
  return {
    task: taskOf(scenario, { isFrozen: (id) => frozenIndex(scenario.document.id).has(id) }),
    readProblem: (value: unknown) => readScenarioProblem(scenario, value),
  };
}
