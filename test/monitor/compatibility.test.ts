import { describe, expect, test } from '@jest/globals';
import { type CompatibilityEpoch, evaluateCompatibility } from '../../src/monitor/compatibility.js';
import { type RuleId, RULES } from '../../src/monitor/rules.js';
import { Ema, Persistence, smooth } from '../../src/monitor/smoothing.js';

type Series = {
  readonly [K in keyof CompatibilityEpoch]?: readonly NonNullable<CompatibilityEpoch[K]>[];
};
const times = <T>(n: number, x: T): T[] => Array.from({ length: n }, () => x);
const ramp = (n: number, start: number, step: number): number[] =>
  Array.from({ length: n }, (_, i) => start + step * i);

/**
 * Epochs from one list for each signal; a list may be shorter, then its key is absent at the end.
 */
function epochs(series: Series): CompatibilityEpoch[] {
  const length = Math.max(...Object.values(series).map((values) => values.length));
  return Array.from({ length }, (_, i) =>
    Object.fromEntries(
      Object.entries(series).flatMap(([key, values]) =>
        i < values.length ? [[key, values[i]]] : [],
      ),
    ),
  );
}
const fires = (rule: RuleId, series: Series): boolean =>
  evaluateCompatibility(epochs(series))[rule];
const firingEpochs = (rule: RuleId, series: Series): number[] => {
  const all = epochs(series);
  return all.flatMap((_, i) => (evaluateCompatibility(all.slice(0, i + 1))[rule] ? [i] : []));
};

describe('smoothing and persistence (cases 27 to 34)', () => {
  test('27, 28: the average', () => {
    expect(smooth(times(100, 10), 0.1).at(-1)).toBeCloseTo(10, 3);
    expect(new Ema(0.3).update(5)).toBe(5);
  });
  test('29: factors outside (0, 1] are refused', () => {
    for (const alpha of [0, 1.5, -1, NaN])
      expect(() => new Ema(alpha)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
      );
    for (const n of [0, -1, 1.5])
      expect(() => new Persistence(n)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
      );
  });
  test('30, 31: the trace', () => {
    expect(smooth([1, 2, 3, 4, 5], 0.5)).toEqual([1, 1.5, 2.25, 3.125, 4.0625]);
    expect(smooth([], 0.5)).toEqual([]);
  });
  test('32 to 34: persistence', () => {
    const trace = (n: number, conditions: string): string => {
      const persistence = new Persistence(n);
      return [...conditions].map((c) => (persistence.update(c === 'T') ? 'T' : 'F')).join('');
    };
    expect(trace(3, 'TTT')).toBe('FFT');
    expect(trace(3, 'TTFTTT')).toBe('FFFFFT');
    expect(trace(2, 'TTTF')).toBe('FTTF');
  });
});

describe('evaluate_rules (cases 35 to 37)', () => {
  test('gives exactly seven booleans, and several may be true', () => {
    const result = evaluateCompatibility([{ val_loss: 2 }, { val_loss: 1.5 }]);
    expect(Object.keys(result)).toEqual([...RULES]);
    expect(Object.values(result).every((fired) => fired === false)).toBe(true);
    expect(evaluateCompatibility([])).toEqual(result);
    const both = evaluateCompatibility(
      epochs({ min_layer_grad_norm: times(10, 1e-7), max_layer_grad_norm: times(10, 50) }),
    );
    expect([both.R6, both.R7]).toEqual([true, true]);
  });
});

describe('rule thresholds (cases 38 to 65)', () => {
  const cases: [number, RuleId, Series, boolean][] = [
    [38, 'R1', { update_to_param_ratio: times(10, 1e-3), val_loss: ramp(10, 2, -0.1) }, false],
    [
      39,
      'R1',
      { update_to_param_ratio: [...times(5, 1e-3), ...times(3, 5e-2)], val_loss: times(8, 2) },
      true,
    ],
    [
      40,
      'R1',
      { update_to_param_ratio: [...times(5, 1e-3), ...times(3, 1e-6)], val_loss: times(8, 2) },
      true,
    ],
    [
      41,
      'R1',
      { update_to_param_ratio: times(7, 1e-3), val_loss: [2, 1.5, 1, 0.9, 1, 1, 1] },
      true,
    ],
    [
      42,
      'R1',
      {
        update_to_param_ratio: [...times(5, 1e-3), ...times(3, 5e-2), ...times(8, 1e-3)],
        val_loss: ramp(16, 2, -0.1),
      },
      false,
    ],
    [43, 'R2', { grad_noise_scale: times(10, 500) }, false],
    [44, 'R2', { grad_noise_scale: times(10, 5) }, true],
    [45, 'R2', { grad_noise_scale: [...times(5, 500), ...times(20, 50_000)] }, true],
    [46, 'R2', { grad_noise_scale: [...times(5, 500), ...times(3, 5), ...times(15, 500)] }, false],
    [47, 'R3', { val_loss: ramp(10, 2, -0.1) }, false],
    [48, 'R3', { val_loss: [2, 1.8, 1.5, 1.2, 1, 1, 1, 1, 1, 1] }, true],
    [49, 'R3', { val_loss: [1, 1, 1, 1, 0.5, 0.5] }, false],
    [50, 'R3', { val_loss: [1, 0.9995, 0.9994, 0.9993, 0.9992, 0.9991, 0.999] }, true],
    [51, 'R4', { train_acc: ramp(10, 0.3, 0.05) }, false],
    [52, 'R4', { train_acc: [0.3, 0.5, 0.7, 0.8, 0.805, 0.81, 0.815] }, true],
    [53, 'R4', { train_acc: [0.3, 0.5, 0.7, 0.8, 0.805, 0.81, 0.815, 0.9] }, false],
    [54, 'R5', { dead_relu_fraction: times(10, 0.05) }, false],
    [55, 'R5', { dead_relu_fraction: [...times(5, 0.05), ...times(20, 0.7)] }, true],
    [56, 'R5', { dead_relu_fraction: [...times(5, 0.05), 0.95, ...times(5, 0.05)] }, false],
    [57, 'R5', { dead_relu_fraction: [...times(4, 0.7), ...times(30, 0.05)] }, false],
    [58, 'R6', { min_layer_grad_norm: times(10, 1e-2) }, false],
    [59, 'R6', { min_layer_grad_norm: times(10, 1e-7) }, true],
    [60, 'R6', { min_layer_grad_norm: [...times(4, 1e-7), ...times(30, 1e-2)] }, false],
    [61, 'R7', { max_layer_grad_norm: times(10, 2) }, false],
    [62, 'R7', { max_layer_grad_norm: [...times(5, 2), ...times(20, 50)] }, true],
    [63, 'R7', { max_layer_grad_norm: [2, 2], train_loss: [1, NaN] }, true],
    [64, 'R7', { max_layer_grad_norm: [2, 2], val_loss: [1, Infinity] }, true],
    [65, 'R7', { max_layer_grad_norm: [...times(4, 50), ...times(30, 2)] }, false],
  ];
  test.each(cases)('%i: %s', (_, rule, series, expected) => {
    expect(fires(rule, series)).toBe(expected);
  });

  test('39 and 40 fire through the plateau: the ratio alone does not', () => {
    for (const late of [5e-2, 1e-6])
      expect(fires('R1', { update_to_param_ratio: [...times(5, 1e-3), ...times(3, late)] })).toBe(
        false,
      );
  });
});

describe('the lag of the arithmetic average (first and last firing epoch)', () => {
  const cases: [string, RuleId, Series, number | null, number | null][] = [
    ['2 then 50', 'R7', { max_layer_grad_norm: [...times(5, 2), ...times(40, 50)] }, 8, 44],
    ['2 then 14.2', 'R7', { max_layer_grad_norm: [...times(5, 2), ...times(40, 14.2)] }, 17, 44],
    ['50 then 2', 'R7', { max_layer_grad_norm: [...times(4, 50), ...times(40, 2)] }, 2, 20],
    ['0.05 then 0.7', 'R5', { dead_relu_fraction: [...times(5, 0.05), ...times(40, 0.7)] }, 14, 44],
    ['0.7 then 0.05', 'R5', { dead_relu_fraction: [...times(4, 0.7), ...times(40, 0.05)] }, 2, 8],
    [
      'the published run',
      'R5',
      { dead_relu_fraction: [0.53, 0.59, 0.684, 0.72, ...times(20, 0)] },
      2,
      6,
    ],
    ['1e-2 then 0', 'R6', { min_layer_grad_norm: [...times(5, 1e-2), ...times(80, 0)] }, 72, 84],
    [
      '1e-7 then 1e-2',
      'R6',
      { min_layer_grad_norm: [...times(4, 1e-7), ...times(40, 1e-2)] },
      2,
      3,
    ],
    [
      'ratio 1e-3 then 5e-2, three times',
      'R1',
      { update_to_param_ratio: [...times(5, 1e-3), ...times(3, 5e-2)] },
      null,
      null,
    ],
    [
      'the same, then back',
      'R1',
      { update_to_param_ratio: [...times(5, 1e-3), ...times(3, 5e-2), ...times(8, 1e-3)] },
      8,
      10,
    ],
    [
      'ratio 1e-3 then 1e-6',
      'R1',
      { update_to_param_ratio: [...times(5, 1e-3), ...times(40, 1e-6)] },
      28,
      44,
    ],
    [
      'noise 500 then 50000',
      'R2',
      { grad_noise_scale: [...times(5, 500), ...times(40, 50_000)] },
      7,
      44,
    ],
  ];
  test.each(cases)('%s', (_, rule, series, first, last) => {
    const firing = firingEpochs(rule, series);
    expect([firing[0] ?? null, firing.at(-1) ?? null]).toEqual([first, last]);
  });

  test('numeric edges', () => {
    expect(fires('R5', { dead_relu_fraction: times(10, 0.4) })).toBe(false);
    expect(fires('R7', { max_layer_grad_norm: times(10, 10) })).toBe(false);
    expect(fires('R6', { min_layer_grad_norm: times(10, 1e-5) })).toBe(false);
    for (const bound of [50, 5000])
      expect(fires('R2', { grad_noise_scale: times(10, bound) })).toBe(false);
    // rounding: the average becomes 0.010000000000000002
    expect(fires('R1', { update_to_param_ratio: times(10, 1e-2) })).toBe(true);
    // the differences round to just above 0.02
    expect(fires('R4', { train_acc: [0.5, 0.52, 0.54, 0.56] })).toBe(false);
    expect(fires('R3', { val_loss: [...times(5, 1), 0.999] })).toBe(true);
    expect(fires('R3', { val_loss: [...times(5, 1), 0.99899] })).toBe(false);
  });

  test('one NaN silences a smoothed rule for good (the fault that X14 mends in the new evaluator)', () => {
    expect(fires('R5', { dead_relu_fraction: [NaN, ...times(20, 0.9)] })).toBe(false);
    expect(fires('R7', { max_layer_grad_norm: [NaN, ...times(20, 50)] })).toBe(false);
    expect(
      fires('R7', { max_layer_grad_norm: times(20, 2), train_loss: [NaN, ...times(19, 1)] }),
    ).toBe(false);
  });
});
