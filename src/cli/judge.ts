import { existsSync } from 'node:fs';
import { FRESH_PER_TIER, MOST_FRESH } from '../judge/fresh.js';
import { judgeRun, type JudgeReport } from '../judge/judge.js';
import { DEFAULT_TARGET, refuseKeyInside } from '../judge/options.js';
import { STEPS } from '../judge/steps.js';
import { writeJudgeTrace } from '../judge/trace-file.js';
import { requireTarget } from '../files.js';
import { shellWord } from '../shell-word.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { terminalStyle } from '../report/terminal-style.js';
import { findRun, findRunOrPath } from '../report/find-run.js';
import { isRunFolder, runPaths } from '../run-folder/paths.js';
import { isTruthRun } from '../truth-seeking/run/folder.js';
import { judgeTruthRun } from '../truth-seeking/run/judge.js';
import { isBeliefGuards, judgeBeliefGuards } from '../jobs/belief-guards.js';
import { defineCommand } from './command.js';
import { judgeText, STEP_TITLES } from './judge-screen.js';
import { interrupted, interruption, print, printJson, printNote } from './output.js';
import { Progress } from './progress.js';
import { checkOption, verifierThreadsOption } from './tasks-generate.js';
import { registryOf, registryOption } from './registry-flags.js';
import { guardsJudgementText, truthJudgementText } from './truth-screen.js';

const EXIT = { pass: 0, not_ended: 3, hard_fail: 4, not_verified: 5 } as const;

interface Flags {
  readonly key: string | undefined;
  readonly head: readonly string[] | undefined;
  readonly registry: string | undefined;
  readonly json: boolean;
}

/** A run of truth-seeking needs neither model nor task: every score follows from its records. */
async function judgeTruth(
  folder: string,
  { key, head, json }: Pick<Flags, 'key' | 'head' | 'json'>,
): Promise<void> {
  refuseKeyInside(folder, key);
  const found = await judgeTruthRun({
    folder,
    ...(key === undefined ? {} : { keyFile: key }),
    ...(head === undefined ? {} : { headFiles: head }),
    signal: interruption(),
  });
  if (json) printJson(found);
  else print(truthJudgementText(found, terminalStyle(process.stdout)));
  process.exitCode = EXIT[found.verdict];
}

/** Both runs that guards of beliefs follow from, and the gate that they are for. */
async function judgeGuards(
  folder: string,
  { key, head, registry, json }: Pick<Flags, 'key' | 'head' | 'registry' | 'json'>,
): Promise<void> {
  refuseKeyInside(folder, key);
  const trust = {
    ...(key === undefined ? {} : { keyFile: key }),
    ...(head === undefined ? {} : { headFiles: head }),
  };
  const found = await judgeBeliefGuards(
    { folder, ...trust, signal: interruption() },
    registryOf({ registry }),
  );
  if (json) printJson(found);
  else print(guardsJudgementText(found, terminalStyle(process.stdout)));
  process.exitCode = EXIT[found.verdict];
}

export const judgeCommand = defineCommand({
  command: 'judge <run>',
  describe:
    'Re-derive a finished run from its folder and the base model: integrity, rules, adapter, accuracy',
  builder: (yargs) =>
    yargs
      .positional('run', {
        type: 'string',
        demandOption: true,
        describe: 'run folder, or the beginning of a run id in ./runs',
      })
      .option('model', {
        type: 'string',
        requiresArg: true,
        describe: `the run's base model: a GGUF file, an alias, or an hf: URI; default: ${EMBEDDED_MODEL}`,
      })
      .option('key', {
        type: 'string',
        requiresArg: true,
        describe: "public key of the run's witness; default: this machine's own",
      })
      .option('head', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'file with a signed head that was kept elsewhere',
      })
      .option('task', {
        type: 'string',
        requiresArg: true,
        describe:
          "your copy of the run's task, where that is a file; without it neither rollouts nor accuracy are judged",
      })
      .option('check', {
        ...checkOption,
        describe:
          "your copy of the run's check, where the task is data and its check a file or program",
      })
      .option('target', {
        type: 'number',
        default: DEFAULT_TARGET,
        describe: 'accuracy that scores 1',
      })
      .option('held-out', {
        choices: ['both', 'after', 'none'] as const,
        default: 'both' as const,
        describe: 'which test accuracies are measured again',
      })
      .option('fresh', {
        type: 'number',
        default: FRESH_PER_TIER,
        describe: `fresh problems of each tier for the accuracy score, drawn with the final head's nonce; 0 to ${MOST_FRESH}`,
      })
      .option('verifier-threads', verifierThreadsOption)
      .option('registry', {
        ...registryOption,
        describe: 'of what `truth guards` made: registry of its gate',
      })
      .option('trace', {
        type: 'string',
        requiresArg: true,
        describe: 'where the trace is written; default: judge-trace.json in the folder',
      })
      .epilogue(
        `Nothing that the run supplied is executed. Exit codes: 0 passed, ${EXIT.not_ended} the run has not ended, ${EXIT.hard_fail} ` +
          `hard fail, ${EXIT.not_verified} nothing fails but not everything was measured and confirmed, 1 the check could not be made.`,
      )
      .example(
        '$0 judge runs/3f2a --key witness.pub',
        'a run of somebody else, with the key that they publish',
      )
      .example(
        '$0 judge runs/3f2a --model qwen2.5-3b --held-out none',
        'all but the evaluation: never a pass',
      ),
  handler: async ({
    run,
    model,
    key,
    head,
    task,
    check,
    target,
    heldOut,
    fresh,
    verifierThreads,
    registry,
    trace,
    json,
  }) => {
    if (trace !== undefined) requireTarget(trace);
    const found = findRunOrPath(run);
    const isRun =
      [isTruthRun, isBeliefGuards, isRunFolder].some((is) => is(found)) ||
      existsSync(runPaths(found).log);
    const folder = isRun ? found : findRun(run); // which says that there is none
    if (isTruthRun(folder)) return judgeTruth(folder, { key, head, json });
    if (isBeliefGuards(folder)) return judgeGuards(folder, { key, head, registry, json });
    let report: JudgeReport;
    {
      using step = new Progress({ label: 'judging', unit: 'steps' });
      using test = new Progress({ label: 'test problems', unit: 'answers' });
      using freshly = new Progress({ label: 'fresh problems', unit: 'answers' });
      using forgotten = new Progress({ label: 'what was forgotten', unit: 'texts' });
      const begin = (i: number): void => {
        if (i < STEPS.length)
          step.begin(`step ${i + 1} of ${STEPS.length}: ${STEP_TITLES[STEPS[i]!.name]}`);
      };
      begin(0);
      // before and after, each from the first problem to the last
      let [passes, last] = [0, Infinity];
      const answered = (done: number, total: number): void => {
        if (done < last) passes += 1;
        last = done;
        const whole = Math.max(passes, heldOut === 'both' ? 2 : 1);
        test.update((passes - 1) * total + done, { total: whole * total });
      };
      report = await judgeRun({
        folder,
        ...(model === undefined ? {} : { model }),
        target,
        heldOut,
        fresh,
        ...(key === undefined ? {} : { keyFile: key }),
        ...(head === undefined ? {} : { headFiles: head }),
        ...(task === undefined ? {} : { task }),
        ...(check === undefined ? {} : { check }),
        ...(verifierThreads === undefined ? {} : { verifierThreads }),
        signal: interruption(),
        onStep: ({ name }) => begin(STEPS.findIndex((each) => each.name === name) + 1),
        onProgress: ({ done, total }) => answered(done, total),
        onFresh: ({ done, total }) => freshly.update(done, { total }),
        onForgetting: ({ done, total }) => forgotten.update(done, { total }),
      }).catch((error: unknown) => {
        throw interrupted(
          error,
          'the judge',
          'Nothing was written. The same command judges from the beginning.',
        );
      });
    }
    const file = await writeJudgeTrace(report, trace);
    if (json) printJson(report);
    else {
      print(judgeText(report, target, terminalStyle(process.stdout)));
      if (file === null)
        printNote('the run folder cannot be written: no trace was kept (--trace FILE)\n');
      else print(`trace: ${file}\n`);
      if (file !== null && trace === undefined)
        print(`next:  npx isopro-native report ${shellWord(run)}\n`);
    }
    process.exitCode = EXIT[report.verdict];
  },
});
