/**
 * `truth beliefs` and `truth evaluate`: what is measured and scored of trajectories that are there.
 */
import { number, text } from '../option.js';
import { modelOfRecord } from '../../engine/model-files.js';
import { given } from '../../given.js';
import {
  continuing,
  RECOMPUTE_HELP,
  RECOMPUTE_TEXT,
  RECOMPUTED,
  recomputeRules,
} from '../../operations/truth/recompute.js';
import { EACH_HELP, truthDocument } from '../../operations/truth/truth-run.js';
import { tellTruth } from '../../operations/truth/progress.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { BELIEF_SYSTEMS } from '../../truth-seeking/beliefs/readout.js';
import { readTruthManifest } from '../../truth-seeking/run/folder.js';
import { BELIEF_KINDS } from '../../truth-seeking/run/config.js';
import { openReasoners } from '../../truth-seeking/run/open-reasoners.js';
import { isRated } from '../../truth-seeking/run/rating.js';
import {
  measureAgain,
  type AgainOptions,
  type TruthResult,
} from '../../truth-seeking/run/evaluation-run.js';
import { STRATEGIES } from '../../truth-seeking/strategies/strategy.js';
import { defineCommand } from '../command.js';
import { interrupted, interruption, print, printJson } from '../output.js';
import { progressScreen } from '../operation-command.js';
import { truthText } from './screen.js';
import type { Argv } from 'yargs';
import { readGivenCount, requireAdapter, runPositional } from './flags.js';

const RECOMPUTE_OPTION = {
  choices: RECOMPUTED,
  array: true,
  requiresArg: true,
  describe: RECOMPUTE_HELP,
  defaultDescription: RECOMPUTE_TEXT,
} as const;

type Flags = ReturnType<typeof flags> extends Argv<infer Options> ? Options : never;

const flags = (yargs: Argv<{ json: boolean }>) =>
  yargs
    .positional('run', runPositional)
    .option(
      'model',
      text("model to measure with: GGUF file, alias or hf: URI; default: the run's model"),
    )
    .option('adapter', text('LoRA adapter in GGUF for the measuring model'))
    .option('predictor', text('second model, which predicts and forecasts'))
    .option('judge', text('judge model, which states beliefs, rates and grades'))
    .option('threads', number("CPU threads; default: the run's"))
    .option('each', { type: 'boolean', default: false, describe: EACH_HELP });

async function again(
  argv: Flags,
  needsModel: boolean,
  {
    recompute,
    ...options
  }: Omit<AgainOptions, 'folder' | 'policies' | 'signal' | 'recompute'> & {
    readonly recompute: readonly string[] | undefined;
  },
): Promise<void> {
  const { config } = readTruthManifest(argv.run).start;
  if (needsModel) requireAdapter(config, argv);
  const signal = interruption();
  using screen = progressScreen();
  const { predictor: ownPredictor, judge: ownJudge, adapter: _, matmul, ...rest } = config;
  const recorded = async (name: string | undefined): Promise<string | undefined> =>
    name === undefined || !needsModel ? name : modelOfRecord(name);
  const predictor = argv.predictor ?? (await recorded(ownPredictor));
  const judge = argv.judge ?? (await recorded(ownJudge));
  await using policies = needsModel
    ? await openReasoners(
        {
          ...rest,
          policy: 'local',
          model: argv.model ?? (await modelOfRecord(config.model)),
          threads: argv.threads ?? config.threads,
          // of another model ours may have nothing
          ...given({ matmul: argv.model === undefined ? matmul : undefined }),
          ...given({ adapter: argv.adapter, predictor, judge }),
        },
        { signal },
      )
    : null;
  const result: TruthResult = await measureAgain({
    folder: argv.run,
    policies,
    signal,
    recompute: recomputeRules(recompute),
    onProgress: tellTruth(screen.tell),
    ...options,
  }).catch((error: unknown) => {
    throw interrupted(error, 'the measurement', continuing(recompute));
  });
  screen[Symbol.dispose]();
  if (argv.json) printJson(truthDocument(result, argv.each));
  else print(`${truthText(result, terminalStyle(process.stdout))}\nrun:   ${argv.run}\n`);
}

export const truthBeliefsCommand = defineCommand({
  command: 'beliefs <run>',
  describe: 'Read the beliefs of a run again, with another model or method, and update its scores',
  builder: (yargs) =>
    flags(yargs)
      .option('belief-system', {
        choices: BELIEF_SYSTEMS,
        describe: "keep or drop the system prompt; default: the run's",
      })
      .option('belief', {
        choices: BELIEF_KINDS,
        describe: "source of the beliefs; default: the run's",
      })
      .option('measurements', number('how many times to ask for a stated belief'))
      .epilogue(
        'Existing beliefs are not read again, so the same command continues after an interruption.',
      )
      .example(
        '$0 truth beliefs runs/urns --belief-system drop',
        'read the beliefs without the system prompt',
      ),
  handler: (argv) =>
    again(argv, true, {
      // of one reader the same beliefs come again, so that nothing is read twice
      recompute: ['beliefs=missing', 'trials=never', 'world=investigation'],
      beliefs: {
        ...given(argv, 'beliefSystem', 'belief'),
        ...given({
          measurements: readGivenCount('measurements', argv.measurements, 1),
        }),
      },
    }),
});

export const truthEvaluateCommand = defineCommand({
  command: 'evaluate <run>',
  describe:
    'Score a run with more strategies; a model is loaded only if something must be measured',
  builder: (yargs) =>
    flags(yargs)
      .option('eval', {
        type: 'string',
        array: true,
        requiresArg: true,
        default: [] as string[],
        describe: `strategies to add: ${STRATEGIES.names.join(', ')}`,
      })
      .option('examples', text('JSON lines {question, response, score?}: examples for the judge'))
      .option('recompute', RECOMPUTE_OPTION)
      .example(
        '$0 truth evaluate runs/urns --eval martingale:change=log-odds',
        'score the beliefs that were read',
      )
      .example(
        '$0 truth evaluate runs/towns --eval world-in-the-loop --recompute world=upliftblanket',
        'make every forecast again',
      ),
  handler: (argv) => {
    const measured = argv.eval
      .map((each) => STRATEGIES.parse(each))
      .some(
        (each) =>
          ['mutual-predictability', 'world-in-the-loop'].includes(each.name) || isRated(each),
      );
    return again(argv, measured || argv.recompute !== undefined, {
      eval: argv.eval,
      recompute: argv.recompute,
      ...given(argv, 'examples'),
    });
  },
});
