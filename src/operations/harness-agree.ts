/** Ask a decider the questions of the decisions that a person called gold. */
import { z } from 'zod';
import { openArm } from '../harness/arms.js';
import { choiceOf } from '../harness/consequences.js';
import { goldScenarios } from '../harness/reviews.js';
import { findRun } from '../lookup/runs.js';
import { wilsonInterval, type Interval } from '../statistics/index.js';
import { seedText } from './members.js';
import { operation, WrongSetting } from './operation.js';

const settings = z.strictObject({
  runs: z
    .array(z.string().min(1))
    .min(1)
    .describe('runs with reviewed decisions: folders, or starts of run ids in ./runs')
    .meta({ positional: true }),
  policy: z
    .string()
    .min(1)
    .default('scripted')
    .describe('who is asked: scripted, observe, random, table, or model:FILE')
    .meta({ local: true }),
  seed: seedText.default('0').describe('64-bit seed of a decider that draws'),
});

export interface AgreementResult {
  readonly policy: string;
  readonly asked: readonly {
    readonly run: string;
    readonly iteration: number;
    readonly rule: string;
    readonly expected: string;
    readonly choice: string | null;
    readonly source: string;
  }[];
  readonly agrees: number;
  readonly interval: Interval;
}

export const harnessAgree = operation({
  id: 'harness agree',
  title: 'Ask a decider the questions whose answers a person called gold',
  settings,
  async run({ runs, policy, seed }, { signal, tell }): Promise<AgreementResult> {
    const gold = (await Promise.all(runs.map((run) => goldScenarios(findRun(run))))).flatMap(
      ({ scenarios }) => scenarios,
    );
    if (gold.length === 0)
      throw new WrongSetting('runs: no decision of them is gold and has its question in the log');
    await using arm = openArm(policy, { signal });
    const asked: AgreementResult['asked'][number][] = [];
    for (const { run, iteration, rule, expected, context } of gold) {
      const { option, source } = await choiceOf(await arm.open(BigInt(seed)), context, signal);
      asked.push({ run, iteration, rule, expected, choice: option, source });
      tell({
        type: 'progress',
        data: { stage: 'questions', done: asked.length, total: gold.length, unit: 'answers' },
      });
    }
    const agrees = asked.filter(({ choice, expected }) => choice === expected).length;
    return { policy: arm.name, asked, agrees, interval: wilsonInterval(agrees, asked.length) };
  },
});
