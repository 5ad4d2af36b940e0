/** What a document must keep before anything is scored by it. */
import { IsoproError } from '../../errors.js';
import { Random } from '../../random.js';
import { roundTo } from './generators.js';
import type { Scenario } from './document.js';
import { checkStrategy, drawSeed, scoreStrategy, type Strategy } from './score.js';
import { gridSearch, hasValid, randomStrategy, upperBound } from './search.js';
import { seedOf } from '../seed.js';

export interface SelfTestOptions {
  /** Random strategies in all that are held against the bound. */
  readonly strategies?: number;
}

const SEEDS = 4;

/** What is no strategy, whatever the scenario: a good one with one thing wrong. */
export function badStrategies(
  good: Strategy,
): readonly (readonly [name: string, value: unknown])[] {
  const [first] = Object.keys(good) as [string];
  const withFirst = (value: unknown): unknown => ({ ...good, [first]: value });
  const { [first]: _first, ...missing } = good;
  return [
    ['NaN', withFirst(NaN)],
    ['Infinity', withFirst(Infinity)],
    ['-Infinity', withFirst(-Infinity)],
    ['1e309', withFirst(Number('1e309'))],
    ['true', withFirst(true)],
    ['a number in quotes', withFirst(String(good[first]))],
    ['null', withFirst(null)],
    ['a list', withFirst([good[first]])],
    ['an object', withFirst({ value: good[first] })],
    ['a missing key', missing],
    ['an extra key', { ...good, zzz: 0 }],
    ['an inherited key', Object.assign(Object.create({ [first]: good[first] }) as object, missing)],
    ['nothing', null],
    ['a list of numbers', Object.values(good)],
    ['a text', JSON.stringify(good)],
  ];
}

/**
 * Tests a scenario: its cases come out, its components and weights give its score, no random
 * strategy exceeds what is proven the most, what is no strategy is refused, and some seed can be
 * passed.
 * @throws IsoproError TASK_INVALID naming the test
 */
export function testScenario(
  scenario: Scenario,
  { strategies = 1_000 }: SelfTestOptions = {},
): void {
  const { document } = scenario;
  function fail(what: string): never {
    throw new IsoproError('TASK_INVALID', `scenario ${document.id}: ${what}`);
  }
  if (!hasValid(scenario)) fail('no strategy satisfies its constraints');
  for (const [at, { environment = {}, noise, strategy, score }] of document.cases.entries()) {
    const checked = checkStrategy(scenario, strategy);
    if (!checked.ok) fail(`case ${at + 1} is not a valid strategy: ${checked.detail}`);
    const lows = Object.fromEntries(document.environment.map(({ name, low }) => [name, low]));
    const found = scoreStrategy(
      scenario,
      { environment: { ...lows, ...environment }, noise },
      checked.strategy,
    );
    if (found?.score !== score)
      fail(`case ${at + 1} has the score ${found?.score} instead of ${score}`);
  }
  const unit = 10 ** -document.score.decimals;
  const tolerance =
    unit * (1 + document.components.reduce((sum, { weight }) => sum + Math.abs(weight), 0));
  const random = new Random(seedOf(0n, 'scenario self-test', document.id));
  let passable = false;
  for (let seed = 0; seed < SEEDS; seed++) {
    const draw = drawSeed(scenario, seed);
    const most = upperBound(scenario, draw);
    const best = gridSearch(scenario, draw);
    passable ||= best.score >= document.score.passes;
    if (best.score > most)
      fail(`seed ${seed}: a strategy scores ${best.score}, above the proven upper bound ${most}`);
    for (let sample = 0; sample < strategies / SEEDS; sample++) {
      const strategy = randomStrategy(scenario, random);
      const found = scoreStrategy(scenario, draw, strategy);
      if (found === null) fail(`seed ${seed}: ${JSON.stringify(strategy)} has no score`);
      if (!(found.score >= 0 && found.score <= most))
        fail(
          `seed ${seed}: ${JSON.stringify(strategy)} scores ${found.score}, which is not from 0 to ${most}`,
        );
      const sum = document.components.reduce(
        (total, { name, weight }) => total + weight * found.components[name]!,
        document.score.offset,
      );
      if (
        Math.abs(roundTo(Math.min(1, Math.max(0, sum)), document.score.decimals) - found.score) >
        tolerance
      )
        fail(
          `seed ${seed}: the weighted components of a strategy add up to ${sum}, but its score is ${found.score}`,
        );
    }
    for (const [name, value] of badStrategies(best.strategy))
      if (checkStrategy(scenario, value).ok) fail(`${name} is accepted as a strategy`);
  }
  if (!passable)
    fail(`no strategy reaches ${document.score.passes} on the seeds 0 to ${SEEDS - 1}`);
}
