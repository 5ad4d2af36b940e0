/**
 * A caller's policy: what it is told, and what becomes of answers that are late, missing or no
 * answers at all.
 */
import { describe, expect, test } from '@jest/globals';
import { observe } from '../../src/monitor/policy.js';
import { monitorDigests } from '../../src/monitor/rule-set.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import {
  LORA,
  type LoraDecision,
  type LoraDecisionContext,
  type LoraPolicy,
} from '../../src/trainees/lora/trainee.js';
import { MonitorSession, type LoraReport } from '../../src/training/monitor-session.js';
import { createHash } from 'node:crypto';
import { eachModule, eachStep, history, SETTINGS as settings } from '../models/rule-history.js';
import type { NewRunRecord } from '../../src/run-folder/streams.js';

/** R1 fires on its high side from iteration 4 on, and later R2 too. */
const SICK = history(16, (each, i) => {
  if (i < 2) return each;
  const fast = eachModule(each, () => ({ updateRatio: 0.5 }));
  return i < 4
    ? fast
    : eachStep(fast, (step) => ({
        microBatchNorms: step.microBatchNorms.map(() => step.gradNorm * 1.999),
      }));
});

interface Played {
  readonly reports: readonly LoraReport[];
  readonly records: readonly NewRunRecord[];
  readonly executed: readonly string[];
}

async function play(
  decide: LoraPolicy['decide'],
  options: { readonly timeout?: number; readonly signal?: AbortSignal } = {},
): Promise<Played> {
  const records: NewRunRecord[] = [];
  const executed: string[] = [];
  const session = new MonitorSession({
    watched: LORA,
    rules: DEFAULT_RULES,
    policy: { name: 'caller', decide },
    policyTimeout: options.timeout ?? 5000,
    log: { append: (appended) => void records.push(...appended) },
  });
  const reports: LoraReport[] = [];
  for (const iteration of SICK) {
    const executor = {
      execute: async ({ op }: { op: string }) => {
        executed.push(op);
        return {};
      },
    };
    const cancelling = options.signal === undefined ? {} : { signal: options.signal };
    reports.push(await session.iteration(iteration, { settings, executor, ...cancelling }));
  }
  return { reports, records, executed };
}
/** Misbehaves when it is asked for the first time, and does what the playbook says from then on. */
const onceThenScripted = (misbehave: LoraPolicy['decide']): LoraPolicy['decide'] => {
  let asked = 0;
  return (context, options) =>
    asked++ === 0 ? misbehave(context, options) : scripted.decide(context);
};
const refusals = ({ records }: Played) =>
  records.filter(({ payload }) => payload.kind === 'refused').map(({ payload }) => payload);

describe('a policy is told', () => {
  test('the rule, measurements, history, decisions, states and the very playbook of the genesis, all of it frozen', async () => {
    const contexts: LoraDecisionContext[] = [];
    const { reports } = await play((context) => {
      contexts.push(context);
      return observe.decide(context);
    });
    const [first] = contexts;
    const at = first!.measurements.iteration;
    expect(first).toMatchObject({
      rule: 'R1',
      settings,
      decisions: [],
      snapshots: { best: 'ab'.repeat(32), sound: 'cd'.repeat(32) },
    });
    expect(first!.measurements.steps).toEqual(SICK[at]!.steps);
    expect(first!.history).toEqual(SICK.slice(0, at));
    expect(first!.evaluations.at(-1)).toEqual(reports[at]!.evaluation);
    expect(createHash('sha256').update(first!.playbook).digest('hex')).toBe(
      monitorDigests(LORA.ruleSet, DEFAULT_RULES).playbook,
    );
    expect(contexts.at(-1)!.decisions.length).toBeGreaterThan(0);
    expect(contexts.at(-1)!.decisions[0]).toMatchObject({
      iteration: at,
      decision: { cites: ['R1'] },
    });
    const frozen = (value: unknown): boolean =>
      typeof value !== 'object' ||
      value === null ||
      (Object.isFrozen(value) && Object.values(value).every(frozen));
    expect(contexts.every(frozen)).toBe(true);
  });

  test('how long it may take, and when nobody waits any more', async () => {
    let given: { readonly signal: AbortSignal; readonly timeout: number } | undefined;
    const hanging = onceThenScripted((_, options) => {
      given = options;
      return new Promise<never>(() => undefined);
    });
    await play(hanging, { timeout: 40 });
    expect(given!.timeout).toBe(40);
    expect(given!.signal.aborted).toBe(true);
  });
});

const surrogate = '\ud800';
const hostile = {
  toString: (): never => {
    throw new Error('no words');
  },
};
const valid = (context: LoraDecisionContext): LoraDecision => scripted.decide(context);
const rubbish: [string, (context: LoraDecisionContext) => unknown][] = [
  ['nothing', () => undefined],
  ['text', () => JSON.stringify('decrease_lr')],
  ['a decision as text', (context) => JSON.stringify(valid(context))],
  ['a function', () => () => undefined],
  ['a decision that holds a function', (context) => ({ ...valid(context), toJSON: () => null })],
  ['a decision behind a proxy', (context) => new Proxy(valid(context), {})],
  [
    'a member that throws',
    (context) =>
      Object.defineProperty({ ...valid(context) }, 'edit', {
        enumerable: true,
        get: () => {
          throw new Error('not for you');
        },
      }),
  ],
  ['a member that no decision has', (context) => ({ ...valid(context), iteration: 0 })],
  [
    'half of a surrogate pair, which no log can hold',
    (context) => ({ ...valid(context), justification: `because ${surrogate}` }),
  ],
  ['a rule that did not fire', (context) => ({ ...valid(context), cites: ['R7'] })],
  [
    'an operation of its own',
    (context) => ({ ...valid(context), edit: [{ op: 'rm', path: '/' }] }),
  ],
  [
    'itself in itself',
    (context) => {
      const endless: Record<string, unknown> = { ...valid(context) };
      return Object.assign(endless, { edit: [endless] });
    },
  ],
];

describe('an answer that does not hold leaves its rule without one, and the run goes on', () => {
  const expectRefused = async (
    decide: LoraPolicy['decide'],
    code: string,
    reason: RegExp,
    timeout?: number,
  ): Promise<Played> => {
    const played = await play(onceThenScripted(decide), timeout === undefined ? {} : { timeout });
    expect(refusals(played)).toEqual([
      {
        kind: 'refused',
        iteration: 4,
        rule: 'R1',
        code,
        reason: expect.stringMatching(reason) as never,
      },
    ]);
    const at = played.reports.findIndex(({ refused }) => refused !== null);
    expect(played.reports[at]).toMatchObject({
      iteration: 4,
      decisions: [],
      effects: [],
      refused: { rule: 'R1', code },
    });
    // asked again, and heard, while the rule fires
    expect(played.reports[at + 1]).toMatchObject({
      decisions: [{ cites: ['R1'] }],
      effects: [{ executed: true }],
      refused: null,
    });
    return played;
  };

  test.each(rubbish)('%s', async (_, answer) => {
    await expectRefused((context) => answer(context) as never, 'DECISION_INVALID', /./);
    await expectRefused(async (context) => answer(context) as never, 'DECISION_INVALID', /./);
  });

  test.each<[string, unknown, RegExp]>([
    [
      'an error',
      new Error('the network is down'),
      /^the policy caller threw: the network is down$/,
    ],
    ['an error with half of a surrogate pair', new Error(surrogate), /threw: \ufffd$/],
    ['nothing', undefined, /threw: undefined$/],
    ['what cannot be converted to text', hostile, /cannot be converted to text$/],
    ['a megabyte', 'x'.repeat(2 ** 20), /^the policy caller threw: x{900,1000}$/],
    [
      'an abortion of its own',
      Object.assign(new Error('aborted'), { code: 'ABORTED' }),
      /threw: aborted$/,
    ],
  ])('it throws %s', async (_, thrown, reason) => {
    const sync = (): never => {
      throw thrown;
    };
    await expectRefused(sync, 'POLICY_FAILED', reason);
    await expectRefused(async () => sync(), 'POLICY_FAILED', reason);
  });

  test('it hangs, and it throws when nobody listens any more', async () => {
    const { executed } = await expectRefused(
      () => new Promise<never>(() => undefined),
      'POLICY_TIMEOUT',
      /within 60 ms$/,
      60,
    );
    expect(executed).toContain('set_lr');
    const afterwards = (): Promise<never> =>
      new Promise((_, reject) => setTimeout(() => reject(new Error('too late')), 90));
    await expectRefused(afterwards, 'POLICY_TIMEOUT', /within 60 ms$/, 60);
  });

  test('it answers in time by its own clock alone, since it held the event loop', async () => {
    const blocking = (context: LoraDecisionContext): LoraDecision => {
      const until = performance.now() + 90;
      while (performance.now() < until);
      return valid(context);
    };
    await expectRefused(blocking, 'POLICY_TIMEOUT', /within 60 ms$/, 60);
  });

  test('what it decided on another rule before stays', async () => {
    const { reports } = await play((context) => {
      if (context.rule === 'R1') return observe.decide(context);
      throw new Error('no idea');
    });
    const both = reports.find(({ refused }) => refused !== null)!;
    expect(both.evaluation.fired).toEqual(expect.arrayContaining(['R1', 'R2']));
    expect(both.refused).toMatchObject({ rule: 'R2', code: 'POLICY_FAILED' });
    expect(
      reports.flatMap(({ decisions }) => decisions).every(({ cites }) => cites[0] === 'R1'),
    ).toBe(true);
  });
});

describe('cancelling', () => {
  test('while it decides ends the wait at once, and is no answer', async () => {
    const cancel = new AbortController();
    let given: AbortSignal | undefined;
    const played = play(
      (_, { signal }) => {
        given = signal;
        setTimeout(() => cancel.abort(), 20);
        return new Promise<never>(() => undefined);
      },
      { signal: cancel.signal, timeout: 2 ** 31 - 1 },
    );
    await expect(played).rejects.toMatchObject({ code: 'ABORTED' });
    expect(given!.aborted).toBe(true);
  });

  test('before asks nobody', async () => {
    let asked = 0;
    const played = play(
      (context) => {
        asked++;
        return observe.decide(context);
      },
      {
        signal: AbortSignal.abort(),
      },
    );
    await expect(played).rejects.toMatchObject({ code: 'ABORTED' });
    expect(asked).toBe(0);
  });
});
