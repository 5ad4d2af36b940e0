import { describe, expect, test } from '@jest/globals';
import { auditProcess, findObligations, type ProcessAudit } from '../../src/judge/obligations.js';
import { emitScores, scoreAccuracy, scoreProcess } from '../../src/judge/scores.js';
import type { LoggedDecision as Logged } from '../../src/monitor/decision.js';
import type { Evaluation, RuleEvaluation } from '../../src/monitor/evaluate-rules.js';
import {
  type BreachSide,
  DEFAULT_RULES,
  PRECEDENCE,
  type RuleId,
  RULES,
} from '../../src/monitor/rules.js';
import type { LoraOperation as RemedyOperation } from '../../src/trainees/lora/operations.js';
import {
  LORA,
  type LoraDecision as Decision,
  type LoraEffect as Effect,
} from '../../src/trainees/lora/trainee.js';

type LoggedDecision = Logged<RemedyOperation>;

const SIDE: Record<RuleId, BreachSide> = {
  R1: 'high',
  R2: 'high',
  R3: 'plateau',
  R4: 'plateau',
  R5: 'high',
  R6: 'low',
  R7: 'high',
};
const ACTION: Record<
  RuleId,
  [Decision['event_type'], Decision['remedy_direction'], RemedyOperation]
> = {
  R1: ['hyperparameter_change', 'decrease_lr', { op: 'set_lr', from: 3e-4, to: 1e-4 }],
  R2: ['hyperparameter_change', 'increase_batch_size', { op: 'set_batch', from: 16, to: 32 }],
  R3: ['hyperparameter_change', 'stop', { op: 'stop', restore: 'ab'.repeat(32) }],
  R4: ['architecture_change', 'add_capacity', { op: 'raise_rank', module: 'm', from: 8, to: 16 }],
  R5: [
    'architecture_change',
    'recycle_directions',
    { op: 'recycle', module: 'm', directions: [1] },
  ],
  R6: ['hyperparameter_change', 'rebalance_gradient', { op: 'lr_mult', module: 'm', factor: 4 }],
  R7: ['hyperparameter_change', 'stabilise', { op: 'set_lr', from: 3e-4, to: 3e-5 }],
};

/** One evaluation for each entry; the entry lists what fired. */
function evaluations(
  fired: readonly (readonly RuleId[])[],
  sides: Partial<Record<RuleId, BreachSide>> = {},
): Evaluation[] {
  return fired.map((list, iteration) => ({
    iteration,
    rules: Object.fromEntries(
      RULES.map((rule): [RuleId, RuleEvaluation] => {
        const on = list.includes(rule);
        return [
          rule,
          {
            fired: on,
            side: on ? (sides[rule] ?? SIDE[rule]) : 'none',
            value: 1,
            threshold: 1,
            modules: [],
            eligible: true,
            reading: true,
            recurrence: false,
          },
        ];
      }),
    ) as Record<RuleId, RuleEvaluation>,
    fired: PRECEDENCE.filter((rule) => list.includes(rule)),
    advisories: [],
  }));
}
const act = (iteration: number, rule: RuleId, change: Partial<Decision> = {}): LoggedDecision => {
  const [event_type, remedy_direction, operation] = ACTION[rule];
  return {
    iteration,
    decision: {
      event_type,
      cites: [rule],
      justification: 'j',
      remedy_direction,
      edit: [operation],
      deferral: null,
      ...change,
    },
  };
};
const defer = (iteration: number, rule: RuleId, until = iteration + 5): LoggedDecision => ({
  iteration,
  decision: {
    event_type: 'rule_triggered_no_action',
    cites: [rule],
    justification: 'j',
    remedy_direction: 'none',
    edit: [],
    deferral: { until, reason: 'r' },
  },
});
const measured = (operation: RemedyOperation): Effect['measured'] =>
  operation.op === 'set_lr'
    ? { learningRate: operation.to }
    : operation.op === 'set_batch'
      ? { sequencesPerStep: operation.to }
      : operation.op === 'stop'
        ? { restored: operation.restore }
        : {};
const done = (decisions: readonly LoggedDecision[]): Effect[] =>
  decisions.flatMap(({ iteration, decision }) =>
    decision.edit.map(
      (operation): Effect => ({
        kind: 'effect',
        iteration,
        rule: decision.cites[0],
        operation,
        executed: true,
        measured: measured(operation),
      }),
    ),
  );
const audit = (
  fired: readonly (readonly RuleId[])[],
  decisions: readonly LoggedDecision[],
  effects = done(decisions),
  sides = {},
): ProcessAudit =>
  auditProcess(
    {
      evaluations: evaluations(fired, sides),
      decisions,
      effects,
      history: [],
      config: DEFAULT_RULES,
    },
    LORA,
  );
const kinds = (result: ProcessAudit): string[] =>
  result.violations.map(({ kind, rule }) => `${kind} ${rule}`);

describe('obligations', () => {
  test('are runs of consecutive firing, asked again every three iterations', () => {
    const found = findObligations(
      evaluations([['R7'], ['R7'], ['R7'], ['R7'], [], ['R7'], ['R1', 'R7']]),
    );
    expect(found.map(({ rule, opened }) => `${rule}@${opened}`)).toEqual([
      'R7@0',
      'R7@3',
      'R7@5',
      'R1@6',
    ]);
  });
});

describe('coverage (cases 90 to 96 and the extra vectors, in their new form)', () => {
  test('90: acted on in the window', () =>
    expect(kinds(audit([[], [], ['R7'], []], [act(3, 'R7')]))).toEqual([]));
  test('91, cheat 5: not decided at all', () =>
    expect(kinds(audit([[], ['R7'], [], [], []], []))).toEqual(['missing R7']));
  test('92: decided although nothing fired', () =>
    expect(kinds(audit([[], [], []], [act(1, 'R3')]))).toEqual(['spurious R3']));
  test('93: deferred and never clear', () =>
    expect(kinds(audit(Array(6).fill(['R6']), [defer(0, 'R6', 3), act(3, 'R6')]))).toEqual([
      'unresolved_deferral R6',
    ]));
  test('94: deferred and cleared in time', () =>
    expect(kinds(audit([['R6'], ['R6'], [], []], [defer(0, 'R6', 3)]))).toEqual([]));
  test('95: a lower class acted on first', () =>
    expect(kinds(audit([[], ['R1', 'R7'], ['R7'], [], []], [act(1, 'R1')])).sort()).toEqual([
      'missing R7',
      'precedence R1',
    ]));
  test('96: the higher class first, the lower deferred', () =>
    expect(
      kinds(audit([[], ['R1', 'R7'], ['R7'], [], []], [act(1, 'R7'), defer(1, 'R1')])),
    ).toEqual([]));
  test('three iterations late is late, and cites what no longer stands', () =>
    expect(kinds(audit([['R7'], [], [], [], []], [act(3, 'R7')])).sort()).toEqual([
      'late R7',
      'spurious R7',
    ]));
  test('one iteration early is spurious, and the obligation stays open', () =>
    expect(kinds(audit([[], ['R7'], [], [], []], [act(0, 'R7')])).sort()).toEqual([
      'missing R7',
      'spurious R7',
    ]));
  test('order inside the window counts now: R1 at once, R7 two later', () =>
    expect(kinds(audit([['R1', 'R7'], [], [], []], [act(0, 'R1'), act(2, 'R7')]))).toEqual([
      'precedence R1',
    ]));
  test('deferring first and acting within the window is one answer', () =>
    expect(kinds(audit([['R7'], ['R7'], [], []], [defer(0, 'R7'), act(1, 'R7')]))).toEqual([]));
  test('a rule that clears and fires again asks again; a decision after that answers both where nothing else did', () => {
    expect(kinds(audit([['R7'], [], ['R7'], []], [act(0, 'R7'), act(2, 'R7')]))).toEqual([]);
    expect(kinds(audit([['R7'], [], ['R7'], []], [act(2, 'R7')]))).toEqual([]);
    expect(kinds(audit([['R7'], [], ['R7'], [], []], [act(0, 'R7')]))).toEqual(['missing R7']);
  });
  test('X20: deferred again and again with one clear reading at the very end', () => {
    const always = [...Array(12).fill([...RULES]), []] as RuleId[][];
    const decisions = Array.from({ length: 12 }, (_, i) =>
      RULES.map((rule) => defer(i, rule)),
    ).flat();
    const result = audit(always, decisions);
    // each rule at 0 and 3
    expect(
      result.violations.filter(({ kind }) => kind === 'unresolved_deferral').length,
    ).toBeGreaterThanOrEqual(14);
    expect(scoreProcess(result).process_score).toBe(0);
    const honest = audit(
      [[...RULES], ...Array(6).fill([])] as RuleId[][],
      RULES.map((rule) => defer(0, rule)),
    );
    expect(kinds(honest)).toEqual([]);
  });
  test('a deferral without reading is not clear, one that the run cut short counts neither way', () => {
    const silent = evaluations([['R6'], [], [], [], [], []]).map((each, i) =>
      i === 0
        ? each
        : { ...each, rules: { ...each.rules, R6: { ...each.rules.R6, reading: false } } },
    );
    expect(
      kinds(
        auditProcess(
          {
            evaluations: silent,
            decisions: [defer(0, 'R6')],
            effects: [],
            history: [],
            config: DEFAULT_RULES,
          },
          LORA,
        ),
      ),
    ).toEqual(['unresolved_deferral R6']);
    expect(audit([['R6'], ['R6']], [defer(0, 'R6')])).toMatchObject({
      violations: [],
      undetermined: 1,
      kept: 0,
    });
    // the bound itself is too far
    expect(kinds(audit([['R6'], []], [defer(0, 'R6', 9)]))).toEqual(['unresolved_deferral R6']);
  });
});

describe('defensibility (cases 97 to 101, X12, X15)', () => {
  test("97: every rule's own remedy holds", () => {
    for (const rule of RULES)
      expect([rule, kinds(audit([[rule], []], [act(0, rule)]))]).toEqual([rule, []]);
  });
  test('98: R4 by a hyperparameter', () =>
    expect(
      kinds(audit([['R4'], []], [act(0, 'R4', { event_type: 'hyperparameter_change' })])),
    ).toEqual(['wrong_class R4']));
  test('99, X12: the wrong direction, for every rule and side', () => {
    for (const rule of RULES)
      expect(
        kinds(
          audit(
            [[rule], []],
            [act(0, rule, { remedy_direction: rule === 'R1' ? 'increase_lr' : 'decrease_lr' })],
          ),
        ),
      ).toEqual([`wrong_direction ${rule}`]);
    expect(kinds(audit([['R1'], []], [act(0, 'R1')], undefined, { R1: 'low' }))).toEqual([
      'wrong_direction R1',
    ]);
    expect(kinds(audit([['R2'], []], [act(0, 'R2')], undefined, { R2: 'low' }))).toEqual([
      'wrong_direction R2',
    ]);
  });
  test('100: padding adds violations and nothing else', () => {
    const honest = scoreProcess(
      audit([['R7'], [], ['R1'], [], [], ['R5'], []], [act(0, 'R7'), act(2, 'R1'), act(5, 'R5')]),
    );
    const padding = Array.from({ length: 100 }, () => defer(4, 'R3'));
    const padded = scoreProcess(
      audit(
        [['R7'], [], ['R1'], [], [], ['R5'], []],
        [act(0, 'R7'), act(2, 'R1'), act(5, 'R5'), ...padding],
      ),
    );
    expect([honest.process_score, honest.obligations]).toEqual([1, 3]);
    expect([padded.process_score, padded.obligations]).toEqual([0, 3]);
  });
  test('101: all decisions are read, not a sample', () => {
    const fired = Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? (['R1'] as RuleId[]) : []));
    for (let bad = 0; bad < 60; bad += 2) {
      const decisions = fired.flatMap((list, i) =>
        list.length > 0 ? [act(i, 'R1', i === bad ? { remedy_direction: 'increase_lr' } : {})] : [],
      );
      expect(audit(fired, decisions).violations).toMatchObject([
        { kind: 'wrong_direction', iteration: bad },
      ]);
    }
  });
  test('X15: logged and not executed, executed otherwise than claimed, or in part', () => {
    const decisions = [act(0, 'R2')];
    expect(kinds(audit([['R2'], []], decisions, []))).toEqual(['not_executed R2']);
    expect(
      kinds(
        audit(
          [['R2'], []],
          decisions,
          done(decisions).map((effect) => ({ ...effect, measured: { sequencesPerStep: 16 } })),
        ),
      ),
    ).toEqual(['not_executed R2']);
    expect(
      kinds(
        audit(
          [['R2'], []],
          decisions,
          done(decisions).map((effect) => ({ ...effect, executed: false, failure: 'no loader' })),
        ),
      ),
    ).toEqual(['not_executed R2']);
    expect(
      kinds(
        audit(
          [['R2'], []],
          decisions,
          done(decisions).map((effect) => ({
            ...effect,
            operation: { op: 'set_batch', from: 16, to: 8 } as const,
          })),
        ),
      ),
    ).toEqual(['not_executed R2']);
    const two = [
      act(0, 'R7', {
        edit: [
          { op: 'set_lr', from: 3e-4, to: 3e-5 },
          { op: 'set_clip', maxNorm: 1 },
        ],
      }),
    ];
    expect(kinds(audit([['R7'], []], two, done(two).slice(0, 1)))).toEqual(['not_executed R7']);
    expect(kinds(audit([['R7'], []], two))).toEqual([]);
    const stopped = [act(0, 'R3')];
    expect(
      kinds(
        audit(
          [['R3'], []],
          stopped,
          done(stopped).map((effect) => ({ ...effect, measured: { restored: '00'.repeat(32) } })),
        ),
      ),
    ).toEqual(['not_executed R3']);
  });
  test('a second action on the same firing, or during the cool-down, is a duplicate', () => {
    expect(kinds(audit([['R1'], ['R1'], []], [act(0, 'R1'), act(1, 'R1')]))).toEqual([
      'duplicate R1',
    ]);
    expect(
      kinds(audit([['R1'], ['R1'], ['R1'], ['R1'], []], [act(2, 'R1'), act(3, 'R1')])),
    ).toEqual(['duplicate R1']);
  });
});

describe('scores (cases 102 to 110, X16)', () => {
  test.each([
    [0.92, 0.92, 1],
    [0.97, 0.92, 1],
    [0.8, 0.92, 0.869565],
    [0, 0.92, 0],
  ])('accuracy %f of %f gives %f', (accuracy, target, score) => {
    expect(scoreAccuracy(accuracy, target)).toBeCloseTo(score, 6);
  });
  const process = (
    obligations: number,
    violations: number,
    distinctRules = 3,
  ): ReturnType<typeof scoreProcess> =>
    scoreProcess({
      obligations: Array.from({ length: obligations }, (_, i) => ({
        rule: 'R1' as const,
        opened: i,
        side: 'high' as const,
        recurrence: false,
      })),
      violations: Array.from({ length: violations }, (_, i) => ({
        kind: 'missing' as const,
        rule: 'R1' as const,
        iteration: i,
        detail: '',
      })),
      undetermined: 0,
      kept: obligations - Math.min(obligations, violations),
      distinctRules,
    });
  test('the process score is over obligations, and clamped', () => {
    expect(process(10, 0).process_score).toBe(1);
    expect(process(40, 1).process_score).toBeCloseTo(0.975, 12);
    expect(process(3, 5).process_score).toBe(0);
    expect(process(10, 0).process_lower_bound).toBeCloseTo(0.7225, 3); // Wilson, 10 of 10
  });
  test('X16: what was hardly exercised has no score, and says so', () => {
    expect(process(0, 0)).toMatchObject({
      process_score: null,
      process_axis_exercised: false,
      process_lower_bound: null,
      obligations: 0,
    });
    expect(process(2, 0)).toMatchObject({ process_score: null, process_axis_exercised: false });
    expect(process(9, 0, 1)).toMatchObject({
      process_score: null,
      process_axis_exercised: false,
      distinct_rules_fired: 1,
    });
  });
  test('a hard fail zeroes both and names its step; otherwise the two stand apart', () => {
    expect(emitScores(process(40, 1), 0.95, 0.92, 5)).toMatchObject({
      accuracy_score: 0,
      process_score: 0,
      hard_fail: true,
      failed_step: 5,
    });
    expect(emitScores(process(40, 1), 0.92, 0.92, null)).toMatchObject({
      accuracy_score: 1,
      process_score: 0.975,
      hard_fail: false,
    });
    expect(emitScores(process(0, 0), null, 0.92, null)).toMatchObject({
      accuracy_score: null,
      process_score: null,
      hard_fail: false,
    });
  });
});
