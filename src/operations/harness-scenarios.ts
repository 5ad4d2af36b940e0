/** The scenarios of the consequence bank: what there are, and what each answer to them leads to. */
import path from 'node:path';
import { z } from 'zod';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { given } from '../given.js';
import { measureBank } from '../harness/bank.js';
import { choicesOfTable, regretsOf, regretTable, type OptionRegret } from '../harness/regret.js';
import { PURPOSES, SCENARIOS, type Purpose } from '../harness/scenarios.js';
import { count, output, seedText } from './members.js';
import { operation, WrongSetting } from './operation.js';

const settings = z.strictObject({
  measure: z
    .boolean()
    .default(false)
    .describe('measure what each answer to each scenario leads to; about a minute for each draw'),
  only: z
    .array(z.enum(SCENARIOS.map(({ id }) => id) as [string, ...string[]]))
    .min(1)
    .optional()
    .describe('scenarios; default: all')
    .meta({ defaultText: 'all' }),
  purposes: z
    .array(z.enum(PURPOSES))
    .min(1)
    .default(['training'])
    .describe('what the draws are for: each purpose has seeds of its own'),
  draws: count(1000).default(1).describe('draws of each scenario for each purpose'),
  seed: seedText.default('0').describe('64-bit seed of the draws'),
  out: output.default('bank').describe('folder of the measurements, bank.jsonl'),
  table: output
    .optional()
    .describe('also write the answers of least regret on the training draws to this file'),
});

export interface ListedScenario {
  readonly id: string;
  readonly name: string;
  readonly rule: string;
  readonly side: string;
  readonly criterion: string;
}

export interface ScenarioFigures {
  readonly draws: number;
  /** Draws in which the scenario's rule did not fire on its side. */
  readonly silent: number;
  /** Draws whose answers differ by less than a thousandth of a nat. */
  readonly alike: number;
  /** By purpose, and by rule and side: options by their mean regret, the least first. */
  readonly regret: Partial<Record<Purpose, Readonly<Record<string, readonly OptionRegret[]>>>>;
}

export interface ScenariosResult {
  readonly scenarios: readonly ListedScenario[];
  readonly measured: ScenarioFigures | null;
  readonly table: string | null;
}

export const harnessScenarios = operation({
  id: 'harness scenarios',
  title: 'List the scenarios, and measure what each answer to them leads to',
  settings,
  contradictions: ({ table, measure, purposes }) =>
    table !== undefined && !(measure && purposes.includes('training'))
      ? ['table: it needs measure, and training among the purposes']
      : [],
  async run(
    { measure, only, purposes, draws, seed, out, table },
    { signal, tell },
  ): Promise<ScenariosResult> {
    const chosen = SCENARIOS.filter(({ id }) => only === undefined || only.includes(id));
    const scenarios = chosen.map(({ id, name, rule, side, criterion }) => ({
      id,
      name,
      rule,
      side,
      criterion,
    }));
    if (!measure) return { scenarios, measured: null, table: null };
    const measured = await measureBank({
      file: path.join(out, 'bank.jsonl'),
      purposes,
      draws,
      scenarios: chosen,
      seed: BigInt(seed),
      ...given({ signal }),
      onRun: (done, total) =>
        tell({ type: 'progress', data: { stage: 'scenarios', done, total, unit: 'runs' } }),
    });
    const of = (purpose: Purpose) => measured.filter((each) => each.purpose === purpose);
    const choices = choicesOfTable(of('training'));
    if (table !== undefined) {
      if (Object.keys(choices).length === 0)
        throw new WrongSetting('table: no scenario has answers that differ');
      await writeFileAtomically(table, [
        Buffer.from(
          `${JSON.stringify({ format: 'isopro.table.v1', choices, seed, draws }, null, 2)}\n`,
        ),
      ]);
    }
    const regrets = measured.map((each) => regretsOf(each));
    return {
      scenarios,
      measured: {
        draws: measured.length,
        silent: regrets.filter((each) => each === null).length,
        alike: regrets.filter((each) => each?.byOption === null).length,
        regret: Object.fromEntries(
          purposes.map((purpose) => [purpose, Object.fromEntries(regretTable(of(purpose)))]),
        ),
      },
      table: table ?? null,
    };
  },
});
