import { describe, expect, test } from '@jest/globals';
import { slopeUpperBound } from '../../src/monitor/capacity-rules.js';
import {
  evaluateHistory,
  evaluateRules,
  type Evaluation,
} from '../../src/monitor/evaluate-rules.js';
import {
  DEFAULT_RULES,
  PRECEDENCE,
  ruleConfig,
  type RuleConfig,
  type RuleId,
  RULES,
} from '../../src/monitor/rules.js';
import { LORA, type LoraIteration as Iteration } from '../../src/trainees/lora/trainee.js';
import type { TierVerdicts } from '../../src/statistics/index.js';
import { eachModule, eachStep, heldOut, history, MODULES } from '../models/rule-history.js';

const run = (iterations: readonly Iteration[]): Evaluation[] =>
  evaluateHistory(iterations, DEFAULT_RULES, LORA.ruleSet);
const firing = (iterations: readonly Iteration[], rule: RuleId): number[] =>
  run(iterations).flatMap(({ iteration, rules }) => (rules[rule].fired ? [iteration] : []));
const sick =
  (from: number, change: (iteration: Iteration) => Iteration, to = Infinity) =>
  (iteration: Iteration, i: number): Iteration =>
    i >= from && i < to ? change(iteration) : iteration;
const last = (iterations: readonly Iteration[]): Evaluation =>
  evaluateRules(iterations, DEFAULT_RULES, LORA.ruleSet);
const flat =
  (rate: number) =>
  (iteration: Iteration): Iteration => ({
    ...iteration,
    objective: { value: rate, standardError: 0.01 },
  });

describe('a healthy history', () => {
  test('trips nothing', () => {
    for (let seed = 1n; seed <= 20n; seed++)
      expect(run(history(12, undefined, seed)).flatMap(({ fired }) => fired)).toEqual([]);
  });

  test('is judged the same at the end as on the way, and is left as it was', () => {
    const iterations = history(
      9,
      sick(4, (each) => eachModule(each, () => ({ updateRatio: 0.5 }))),
    );
    const frozen = JSON.stringify(iterations);
    const all = run(iterations);
    for (let n = 1; n <= iterations.length; n++)
      expect(evaluateRules(iterations.slice(0, n), DEFAULT_RULES, LORA.ruleSet)).toEqual(
        all[n - 1],
      );
    expect(JSON.stringify(iterations)).toBe(frozen);
  });

  test('an empty one, or iterations that do not ascend, are refused', () => {
    const [a, b] = history(2) as [Iteration, Iteration];
    for (const bad of [[], [b, a], [a, a]])
      expect(() => evaluateRules(bad, DEFAULT_RULES, LORA.ruleSet)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
      );
  });
});

describe('each rule fires on its own signal, on the right side, and on nothing else', () => {
  const cases: [string, RuleId, string, (iteration: Iteration) => Iteration, number][] = [
    // name, rule, side, change from iteration 5 on, first firing iteration
    [
      'weights that move too fast',
      'R1',
      'high',
      (each) => eachModule(each, () => ({ updateRatio: 0.3 })),
      7,
    ],
    [
      'weights that hardly move',
      'R1',
      'low',
      (each) => eachModule(each, () => ({ updateRatio: 1e-9 })),
      8,
    ],
    ['a policy that runs away', 'R1', 'high', (each) => ({ ...each, kl: 0.2 }), 7],
    ['an objective that stands still', 'R1', 'plateau', flat(0.4), 8],
    [
      'noise that drowns the gradient',
      'R2',
      'high',
      (each) =>
        eachStep(each, (step) => ({
          microBatchNorms: step.microBatchNorms.map(() => step.gradNorm * 1.999),
        })),
      11,
    ], // the averages of G² and S cross 10 at the fifth bad reading: 0.7^5
    [
      'micro-batches that agree',
      'R2',
      'low',
      (each) =>
        eachStep(each, (step) => ({
          microBatchNorms: step.microBatchNorms.map(() => step.gradNorm * 1.0001),
        })),
      11,
    ], // 0.7^k / (2 - 0.7^k) is below 0.1 from k = 5
    [
      'held-out accuracy that stands still',
      'R3',
      'plateau',
      (each) => ({ ...each, heldOut: heldOut(68, 68) }),
      9,
    ],
    [
      'dormant directions',
      'R5',
      'high',
      (each) =>
        eachModule(each, (_, name) => (name === MODULES[2] ? { dormantFraction: 0.9 } : {})),
      8,
    ],
    [
      'a module that gets no gradient to speak of',
      'R6',
      'low',
      (each) => eachModule(each, (_, name) => (name === MODULES[1] ? { pairGradNorm: 1e-9 } : {})),
      8,
    ], // log10: 0.3 · −8.3 is above −3, the second reading is not
    [
      'a module that gets exactly none',
      'R6',
      'low',
      (each) => eachModule(each, (_, name) => (name === MODULES[1] ? { pairGradNorm: 0 } : {})),
      7,
    ],
    [
      'one module that explodes',
      'R7',
      'high',
      (each) =>
        eachModule(each, (module, name) =>
          name === MODULES[3] ? { pairGradNorm: module.pairGradNorm * 100 } : {},
        ),
      7,
    ],
    [
      'gradients far outside their past',
      'R7',
      'high',
      (each) =>
        eachStep(each, (step) => ({
          gradNorm: step.gradNorm * 30,
          microBatchNorms: step.microBatchNorms.map((x) => x * 30),
        })),
      7,
    ],
    ['clipping all the time', 'R7', 'high', (each) => eachStep(each, () => ({ clipped: true })), 7],
    [
      'a loss that is not finite',
      'R7',
      'nonfinite',
      (each) => eachStep(each, () => ({ loss: NaN })),
      5,
    ],
    [
      'a tensor that is not finite',
      'R7',
      'nonfinite',
      (each) => eachStep(each, () => ({ nonFinite: ['blk.1.attn_v'] })),
      5,
    ],
  ];
  test.each(cases)('%s: %s %s', (_, rule, side, change, first) => {
    const iterations = history(18, sick(5, change));
    const evaluations = run(iterations);
    const at = evaluations.find(({ rules }) => rules[rule].fired);
    expect([at?.iteration, at?.rules[rule].side]).toEqual([first, side]);
    const others = evaluations
      .slice(0, first + 1)
      .flatMap(({ fired }) => fired)
      .filter((other) => other !== rule);
    expect(others).toEqual([]);
    const { value, threshold } = at!.rules[rule];
    if (side === 'high') expect(value!).toBeGreaterThan(threshold!);
    if (side === 'low') expect(value!).toBeLessThan(threshold!);
  });

  test('R4 needs a flat objective below its target, used rank, healthy gradients and a rate in its band', () => {
    const full = (iteration: Iteration): Iteration =>
      eachModule(flat(0.5)(iteration), (_, name) => ({
        rankUse: name === MODULES[0] ? 0.4 : 0.95,
      }));
    const grown = history(14, sick(0, full));
    expect(last(grown).rules.R4).toMatchObject({
      fired: true,
      side: 'plateau',
      modules: MODULES.slice(1).sort(),
    });
    expect(last(history(14, sick(0, flat(0.5)))).rules.R4.fired).toBe(false); // rank to spare
    expect(
      last(
        history(
          14,
          sick(0, (each) => ({ ...full(each), objective: { value: 0.96, standardError: 0.01 } })),
        ),
      ).rules.R4.fired,
    ).toBe(false); // target reached
    expect(
      last(
        history(14, (each, i) => ({
          ...full(each),
          objective: { value: 0.03 * i, standardError: 0.01 },
        })),
      ).rules.R4.fired,
    ).toBe(false); // still rising
    expect(
      last(
        history(
          14,
          sick(0, (each) => eachModule(full(each), () => ({ updateRatio: 0.5 }))),
        ),
      ).rules,
    ).toMatchObject({ R4: { fired: false }, R1: { side: 'high' } });
    expect(
      last(
        history(
          14,
          sick(0, (each) => ({
            ...full(each),
            ...(each.iteration > 8 ? eachStep(full(each), () => ({ clipped: true })) : {}),
          })),
        ),
      ).rules,
    ).toMatchObject({ R4: { fired: false }, R7: { fired: true } });
  });

  test('modules are named, and only those that breach', () => {
    expect(
      last(
        history(
          12,
          sick(5, (each) =>
            eachModule(each, (_, name) => (name === MODULES[1] ? { pairGradNorm: 1e-9 } : {})),
          ),
        ),
      ).rules.R6.modules,
    ).toEqual([MODULES[1]]);
    expect(
      last(
        history(
          12,
          sick(5, (each) =>
            eachModule(each, (_, name) => (name === MODULES[2] ? { dormantFraction: 0.9 } : {})),
          ),
        ),
      ).rules.R5.modules,
    ).toEqual([MODULES[2]]);
    expect(
      last(
        history(
          12,
          sick(5, (each) => eachStep(each, () => ({ nonFinite: ['b', 'a', 'b'] }))),
        ),
      ).rules.R7.modules,
    ).toEqual(['a', 'b']);
  });

  test('clipping from the first step on is a setting, not an explosion', () => {
    expect(
      run(history(12, (each) => eachStep(each, () => ({ clipped: true })))).flatMap(
        ({ fired }) => fired,
      ),
    ).toEqual([]);
  });

  test('nor is it where the bound lies among the healthy gradients, and more of them than before are clipped', () => {
    expect(
      run(
        history(12, (each, i) =>
          eachStep(each, (step) => ({ clipped: i > 4 || step.step % 3 === 0 })),
        ),
      ).flatMap(({ fired }) => fired),
    ).toEqual([]);
  });

  test('an objective that stands still under a rate that hardly moves the weights asks neither for less of it nor for capacity', () => {
    const still = (updateRatio: number): Evaluation[] =>
      run(
        history(14, (each) => eachModule(flat(0.5)(each), () => ({ updateRatio, rankUse: 0.95 }))),
      );
    expect(new Set(still(1e-3).flatMap(({ fired }) => fired))).toEqual(new Set(['R1', 'R4']));
    expect(still(5e-5).flatMap(({ fired }) => fired)).toEqual([]);
  });

  test('R6 compares modules for their size', () => {
    const parameters = {
      [MODULES[0]!]: 100_000_000,
      [MODULES[1]!]: 100,
      [MODULES[2]!]: 100,
      [MODULES[3]!]: 100,
    };
    const iterations = history(12, (each) => ({
      ...eachModule(each, (_, name) => ({ pairGradNorm: Math.sqrt(parameters[name]!) })),
      parameters,
    }));
    expect(firing(iterations, 'R6')).toEqual([]);
  });

  test('R3 knows a loss too, and counts only improvement beyond the noise of the sample', () => {
    const losses = (values: number[]): Iteration[] =>
      history(values.length, (each, i) => ({ ...each, heldOut: { loss: values[i]! } }));
    expect(firing(losses([2, 1.5, 1, 1, 1, 1, 1, 1]), 'R3')).toEqual([7]);
    expect(firing(losses([2, 1.8, 1.6, 1.4, 1.2, 1, 0.8, 0.6]), 'R3')).toEqual([]);
    // what is not finite is no evaluation
    expect(firing(losses([1, NaN, 1, NaN, 1, 1, 1, 1]), 'R3')).toEqual([7]);
  });

  describe('R3 compares problem by problem', () => {
    const config = (patience: number): RuleConfig => ruleConfig.parse({ r3: { patience } });
    /** The base model's verdicts first; each evaluation meets the best before it. */
    const stops = (verdicts: readonly string[], patience: number): number[] => {
      const tiers = (text: string): TierVerdicts[] => [{ weight: 1, verdicts: text }];
      const passed = (text: string): number => [...text].filter((each) => each === 'p').length;
      let best = verdicts[0]!;
      const iterations = history(verdicts.length - 1).map((each, i) => {
        const now = verdicts[i + 1]!;
        const evaluated = {
          ...each,
          iteration: i + 1,
          heldOut: {
            passRate: passed(now) / now.length,
            n: now.length,
            verdicts: tiers(now),
            best: tiers(best),
          },
        };
        if (passed(now) >= passed(best)) best = now;
        return evaluated;
      });
      return evaluateHistory(iterations, config(patience), LORA.ruleSet).flatMap(
        ({ iteration, rules }) => (rules.R3.fired ? [iteration] : []),
      );
    };
    const share = (passed: number, n = 40): string => 'p'.repeat(passed) + 'f'.repeat(n - passed);

    test('a model that gains 3 points an iteration from 50 is not stopped, with the patience and the dev set of a downloaded one', () => {
      expect(
        stops(
          [20, 21, 22, 24, 25, 26, 27].map((passed) => share(passed)),
          2,
        ),
      ).toEqual([]);
    });

    test('nor is one that has shown nothing yet on so few problems; on more of them, or where problems are lost, it is', () => {
      expect(
        stops(
          [20, 20, 20].map((passed) => share(passed)),
          2,
        ),
      ).toEqual([]);
      expect(
        stops(
          [40, 40, 40].map((passed) => share(passed, 80)),
          2,
        ),
      ).toEqual([2]);
      expect(
        stops(
          [20, 18, 18].map((passed) => share(passed)),
          2,
        ),
      ).toEqual([2]);
    });

    test('as many gained as lost say less than none of either', () => {
      const swapped = 'f'.repeat(8) + 'p'.repeat(40) + 'f'.repeat(32);
      expect(stops([share(40, 80), share(40, 80)], 1)).toEqual([1]);
      expect(stops([share(40, 80), swapped], 1)).toEqual([]);
    });

    test('one evaluation that may be a gain is enough to go on, and the best before the window is the measure for all of it', () => {
      expect(
        stops(
          [40, 38, 43, 38].map((passed) => share(passed, 80)),
          3,
        ),
      ).toEqual([]);
      // one problem more each time, never significant: over the window it is the gain that counts
      expect(
        stops(
          [40, 41, 42, 43, 44, 45].map((passed) => share(passed, 80)),
          3,
        ),
      ).toEqual([]);
    });

    test('evaluations of other problems are refused', () => {
      const [first] = history(1) as [Iteration];
      const mixed: Iteration = {
        ...first,
        heldOut: { ...heldOut(10, 10, 40), best: heldOut(10, 10, 41).best },
      };
      expect(() => evaluateRules([mixed], DEFAULT_RULES, LORA.ruleSet)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
      );
    });
  });
});

describe('LoRA traps and readings that are none', () => {
  test('X14: one NaN in a reading is recorded by R7 at once and does not silence the smoothed rules', () => {
    const poisoned = (change: (iteration: Iteration) => Iteration): Iteration[] =>
      history(16, (each, i) =>
        i === 3
          ? eachModule(
              eachStep(each, () => ({ loss: NaN, gradNorm: NaN })),
              () => ({ dormantFraction: NaN, pairGradNorm: NaN, updateRatio: NaN }),
            )
          : i >= 4
            ? change(each)
            : each,
      );
    const dormant = poisoned((each) => eachModule(each, () => ({ dormantFraction: 0.95 })));
    expect(firing(dormant, 'R7')).toEqual([3]);
    expect(firing(dormant, 'R5').length).toBeGreaterThan(5);
    expect(
      firing(
        poisoned((each) =>
          eachModule(each, (module) => ({ pairGradNorm: module.pairGradNorm * 100 })),
        ),
        'R7',
      ),
    ).toEqual([3, ...Array.from({ length: 10 }, (_, i) => 6 + i)]);
  });

  test('B = 0 at the start, and modules that are zero then, are no vanishing gradients', () => {
    const zeroB = history(10, (each, i) =>
      i < 4
        ? eachModule(each, () => ({
            rankUse: 0,
            pairGradNorm: 0,
            updateRatio: 0,
            dormantFraction: 1,
          }))
        : each,
    );
    expect(run(zeroB).flatMap(({ fired }) => fired)).toEqual([]);
    expect(run(zeroB)[1]!.rules.R6).toMatchObject({ eligible: false, reading: false });
  });

  test('iterations without informative groups give no reading to R1, R2, R5 and R6, and S0 is told after three', () => {
    const silent = history(10, (each, i) =>
      i >= 4
        ? {
            ...eachModule(each, () => ({ pairGradNorm: 0, updateRatio: 0 })),
            informativeGroupFraction: 0,
          }
        : each,
    );
    const evaluations = run(silent);
    expect(evaluations.flatMap(({ fired }) => fired)).toEqual([]);
    for (const rule of ['R1', 'R2', 'R5', 'R6'] as const)
      expect(evaluations[5]!.rules[rule].reading).toBe(false);
    expect(evaluations.map(({ advisories }) => advisories.length)).toEqual([
      0, 0, 0, 0, 0, 0, 1, 1, 1, 1,
    ]);
  });

  test('evaluations of an adapter that no step has changed end no run, and those after the first step count as before', () => {
    const flat = (stepsFrom: number) =>
      history(12, (each, i) => ({
        ...each,
        heldOut: heldOut(20, 20),
        ...(i < stepsFrom ? { steps: [], informativeGroupFraction: 0 } : {}),
      }));
    const { patience } = DEFAULT_RULES.r3;
    expect(firing(flat(12), 'R3')).toEqual([]);
    expect([firing(flat(0), 'R3')[0], firing(flat(3), 'R3')[0]]).toEqual([
      patience - 1,
      patience + 2,
    ]); // the first is 0;
  });

  test('a drop from 1e-2 to 1e-7 of the median fires at the fifth bad reading, as log smoothing says', () => {
    // log10 EMA: -2 - 5 (1 - 0.7^k) is below -3 from the first bad reading on (k = 1: -3.5), so
    // persistence decides: the third
    const iterations = history(14, (each, i) =>
      eachModule(each, (_, name) => ({
        pairGradNorm: name === MODULES[0] ? (i < 6 ? 1e-2 : 1e-7) : 1,
      })),
    );
    expect(firing(iterations, 'R6')[0]).toBe(8);
    const [low, config] = [1e-5, ruleConfig.parse({ r6: { relativeGradientLow: 1e-5 } })];
    const found = evaluateHistory(iterations, config, LORA.ruleSet).find(
      ({ rules }) => rules.R6.fired,
    );
    // crosses 1e-5 at the third bad reading (10^-5.3), and persists for three: the fifth
    expect(found?.iteration).toBe(10);
    expect(found!.rules.R6.value!).toBeLessThan(low);
  });
});

describe('after a remedy', () => {
  const hot = (each: Iteration): Iteration => eachModule(each, () => ({ updateRatio: 0.5 }));

  test('the rule is silent for an iteration, measures anew, and a cure is a cure at once', () => {
    const cured = history(14, (each, i) => ({
      ...(i >= 4 && i <= 6 ? hot(each) : each),
      executed: i === 6 ? ['R1'] : [],
    }));
    expect(firing(cured, 'R1')).toEqual([6]);
    expect(run(cured)[7]!.rules.R1.eligible).toBe(false);
    const uncured = history(14, (each, i) => ({
      ...(i >= 4 ? hot(each) : each),
      executed: i === 6 ? ['R1'] : [],
    }));
    expect(firing(uncured, 'R1')).toEqual([6, 9, 10, 11, 12, 13]);
    expect(run(uncured)[9]!.rules.R1.recurrence).toBe(true);
    expect(run(uncured)[6]!.rules.R1.recurrence).toBe(false);
    expect(run(uncured)[12]!.rules.R1.recurrence).toBe(false); // more than five iterations after
    const others = history(14, (each, i) => ({
      ...(i >= 4 ? hot(each) : each),
      executed: i === 6 ? ['R5'] : [],
    }));
    // only its own remedy counts
    expect(firing(others, 'R1')).toEqual([6, 7, 8, 9, 10, 11, 12, 13]);
  });

  test('without a remedy in the log the old readings still hold it up', () => {
    const untreated = history(14, sick(4, hot, 7));
    expect(firing(untreated, 'R1').length).toBeGreaterThan(1);
  });

  test('not finite is not silenced by a cool-down', () => {
    const iterations = history(8, (each, i) => ({
      ...(i >= 4 ? eachStep(each, () => ({ loss: Infinity })) : each),
      executed: i === 4 ? ['R7'] : [],
    }));
    expect(firing(iterations, 'R7')).toEqual([4, 5, 6, 7]);
  });
});

describe('order', () => {
  test('all that fire are listed, first the one that goes first', () => {
    const everything = (each: Iteration): Iteration => ({
      ...eachStep(
        eachModule(each, (module, name) => ({
          updateRatio: 0.5,
          dormantFraction: 0.9,
          pairGradNorm: name === MODULES[0] ? 1e-9 : module.pairGradNorm,
        })),
        (step) => ({
          nonFinite: step.step % 10 === 0 ? ['x'] : [],
          microBatchNorms: step.microBatchNorms.map(() => step.gradNorm * 1.999),
        }),
      ),
      heldOut: heldOut(20, 68),
    });
    expect(last(history(16, sick(4, everything))).fired).toEqual([
      'R7',
      'R6',
      'R5',
      'R1',
      'R2',
      'R3',
    ]);
    expect([...PRECEDENCE].sort()).toEqual([...RULES]);
  });
});

test('the slope bound is least squares plus its standard error', () => {
  expect(slopeUpperBound([0, 1, 2, 3, 4])).toBeCloseTo(1, 12);
  // by hand: y = 0 1 0 1 0: slope 0, residual 1.2, s² = 0.4, spread 10
  expect(slopeUpperBound([0, 1, 0, 1, 0])).toBeCloseTo(Math.sqrt(1.2 / 3 / 10), 12);
});
