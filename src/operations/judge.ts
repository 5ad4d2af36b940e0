/** Verification of a finished run from its folder. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { requireModelName } from '../backends/names.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { requireTarget } from '../files.js';
import { given } from '../given.js';
import { FRESH_PER_TIER, MOST_FRESH } from '../judge/options.js';
import { judgeRun, type JudgeReport } from '../judge/judge.js';
import { DEFAULT_TARGET, refuseKeyInside } from '../judge/options.js';
import { STEPS } from '../judge/steps.js';
import { writeJudgeTrace } from '../judge/trace-file.js';
import { Registry } from '../registry/registry.js';
import { findRun, findRunOrPath } from '../lookup/runs.js';
import { isRunFolder, runPaths } from '../run-folder/paths.js';
import { CHECK_HELP } from '../tasks/data/check.js';
import { isTruthRun } from '../truth-seeking/run/folder.js';
import { judgeTruthRun, type TruthJudgement } from '../truth-seeking/run/judge.js';
import {
  isBeliefGuards,
  judgeBeliefGuards,
  type BeliefGuardsJudgement,
} from './gates/belief-guards.js';
import { REGISTRY, verifierThreads } from './members.js';
import { contextOf, memoryOf, memoryOfGrader } from './memory.js';
import { operation } from './operation.js';

export type { JudgeReport } from '../judge/judge.js';

/** Report of a run with the file of its trace; null if the folder is not writable. */
export type Judgement =
  | (JudgeReport & { readonly trace: string | null })
  | TruthJudgement
  | BeliefGuardsJudgement;

const settings = z.strictObject({
  run: z
    .string()
    .min(1)
    .describe('run folder, or the start of a run id in ./runs')
    .meta({ positional: true, names: 'run' }),
  model: z
    .string()
    .min(1)
    .optional()
    .describe("the run's base model: a GGUF file, an alias, or an hf: URI")
    .meta({ names: 'model', defaultText: EMBEDDED_MODEL }),
  key: z
    .string()
    .min(1)
    .optional()
    .describe("public key of the run's witness; default: this machine's own")
    .meta({ local: true }),
  head: z
    .array(z.string().min(1))
    .optional()
    .describe('file with a signed head that was stored elsewhere')
    .meta({ local: true }),
  task: z
    .string()
    .min(1)
    .optional()
    .describe(
      "your copy of the run's task, if it is a file; without it, rollouts and accuracy are not judged",
    )
    .meta({ names: 'task' }),
  check: z
    .string()
    .min(1)
    .optional()
    .describe(`your copy of the run's check, if it is a file or program: ${CHECK_HELP}`)
    .meta({ names: 'check' }),
  target: z.number().gt(0).max(1).default(DEFAULT_TARGET).describe('accuracy that scores 1'),
  heldOut: z
    .enum(['both', 'after', 'none'])
    .default('both')
    .describe('test accuracies to measure again'),
  fresh: z
    .int()
    .min(0)
    .max(MOST_FRESH)
    .default(FRESH_PER_TIER)
    .describe("fresh problems per tier for the accuracy score, drawn with the final head's nonce"),
  askAgain: z
    .int()
    .min(0)
    .max(1000)
    .default(0)
    .describe('questions that the base model decided in the run, to ask it again'),
  verifierThreads,
  registry: REGISTRY.describe('registry of the gate, for results of `truth guards`'),
  trace: z
    .string()
    .min(1)
    .optional()
    .describe('file for the trace; default: judge-trace.json in the folder')
    .meta({ local: true }),
});

export const judge = operation({
  id: 'judge',
  title:
    'Verify a finished run from its folder and the base model: integrity, rules, adapter, accuracy',
  settings,
  async run({ run, key, head, registry, trace, ...asked }, { signal, tell }): Promise<Judgement> {
    if (trace !== undefined) requireTarget(trace);
    if (asked.model !== undefined)
      requireModelName(asked.model, ['tokenIds', 'score', 'seeds', 'adapters'], 'a judgement');
    const found = findRunOrPath(run);
    const isRun =
      [isTruthRun, isBeliefGuards, isRunFolder].some((is) => is(found)) ||
      existsSync(runPaths(found).log);
    const folder = isRun ? found : findRun(run); // which says that there is none
    const trust = { ...given({ keyFile: key, headFiles: head }) };
    if (isTruthRun(folder) || isBeliefGuards(folder)) {
      refuseKeyInside(folder, key);
      const request = { folder, ...trust, signal };
      // Of a truth run neither model nor task is asked: every score follows from its records.
      if (isTruthRun(folder)) return judgeTruthRun(request);
      return judgeBeliefGuards(
        request,
        new Registry(registry === undefined ? {} : { folder: registry }),
      );
    }
    const told =
      (stage: string, unit: string) =>
      ({ done, total }: { readonly done: number; readonly total: number }): void =>
        tell({ type: 'progress', data: { stage, done, total, unit } });
    const step = told('judging', 'steps');
    const begin = (done: number): void => step({ done, total: STEPS.length });
    begin(0);
    // Test problems come before and after, each pass from the first problem to the last.
    const test = told('test problems', 'answers');
    let [passes, last] = [0, Infinity];
    const answered = (done: number, total: number): void => {
      if (done < last) passes += 1;
      last = done;
      const whole = Math.max(passes, asked.heldOut === 'both' ? 2 : 1);
      test({ done: (passes - 1) * total + done, total: whole * total });
    };
    const report = await judgeRun({
      folder,
      ...trust,
      ...given(asked),
      signal,
      onStep: ({ name }) => begin(STEPS.findIndex((each) => each.name === name) + 1),
      onProgress: ({ done, total }) => answered(done, total),
      onFresh: told('fresh problems', 'answers'),
      onForgetting: told('forgetting', 'texts'),
    });
    return { ...report, trace: await writeJudgeTrace(report, trace) };
  },
  job: {
    button: 'Judge',
    title: 'Verify a finished run from its folder',
    memoryBytes: async ({ model = EMBEDDED_MODEL, check }) =>
      (await memoryOf(model, contextOf(model))) + (await memoryOfGrader(check)),
  },
});
