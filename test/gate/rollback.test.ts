/** The watch over a version in use. */
import { describe, expect, test } from '@jest/globals';
import { decideRollback, type TrialInput } from '../../src/gate/index.js';
import { Random } from '../../src/random.js';
import { both, NEW, OLD, scored } from '../models/gate-trials.js';

const watched = (differences: readonly number[], policy = {}) =>
  decideRollback(NEW, OLD, scored(differences), policy);

describe('rollback', () => {
  test('scores of 0 after a promotion take it back within ten problems, at once or after a good time', () => {
    const fallen = watched(new Array<number>(30).fill(-1));
    expect(fallen.decision).toBe('rollback');
    expect(fallen.at).toBeLessThanOrEqual(10);
    const later = watched([...new Array<number>(200).fill(0.2), ...new Array<number>(30).fill(-1)]);
    expect(later.decision).toBe('rollback');
    expect(later.at).toBeGreaterThan(200);
    expect(later.at).toBeLessThanOrEqual(225);
  });

  test('once it is there it stays, and a version that is no worse stays in use', () => {
    expect(
      watched([...new Array<number>(30).fill(-1), ...new Array<number>(300).fill(1)]),
    ).toMatchObject({
      decision: 'rollback',
      blocks: 330,
    });
    expect(watched(new Array<number>(300).fill(0))).toMatchObject({
      decision: 'keep',
      at: null,
      logE: expect.closeTo(0, 12),
    });
    expect(watched([])).toMatchObject({ decision: 'keep', blocks: 0 });
    expect(watched(new Array<number>(300).fill(-0.1), { margin: 0.2 }).decision).toBe('keep');
    expect(watched(new Array<number>(300).fill(-0.1)).decision).toBe('rollback');
  });

  test('takes versions back that are as good as the one before with a chance of at most alpha', () => {
    const lives = 200;
    let taken = 0;
    for (let life = 0; life < lives; life++) {
      const random = new Random(BigInt(life));
      if (
        watched(
          Array.from({ length: 40 }, () => random.nextInteger(-1, 1)),
          { alpha: 0.2 },
        ).decision === 'rollback'
      )
        taken++;
    }
    expect(taken / lives).toBeLessThanOrEqual(0.2 + 3 * Math.sqrt((0.2 * 0.8) / lives));
  });

  test('a trial that failed does not switch the alarm off, and one that fits no pair is invalid', () => {
    const trials = scored(new Array<number>(30).fill(-1));
    const { score: _, ...without } = trials[0]!;
    const failing: TrialInput[] = [{ ...without, error: 'no memory' }, ...trials.slice(1)];
    const result = decideRollback(NEW, OLD, failing);
    expect(result).toMatchObject({ decision: 'rollback', blocks: 29 });
    expect(result.failed).toHaveLength(1);
    expect(decideRollback(NEW, OLD, trials.slice(1)).decision).toBe('invalid');
    expect(
      decideRollback(NEW, OLD, [...trials, ...both('more', 1, 1, { epoch: 'another' })]).decision,
    ).toBe('invalid');
    expect(() => decideRollback(NEW, OLD, 'x' as never)).toThrow(
      expect.objectContaining({ code: 'GATE_EVIDENCE_INVALID' }),
    );
    expect(() => decideRollback(NEW, OLD, [], { alpha: 2 })).toThrow(
      expect.objectContaining({ code: 'GATE_POLICY_INVALID' }),
    );
  });
});
