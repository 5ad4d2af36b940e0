/**
 * `truth beliefs` and `truth evaluate`: what is measured and scored of trajectories that are there.
 */
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
import { openPolicies } from '../../truth-seeking/run/open-policies.js';
import { isRated } from '../../truth-seeking/run/rating.js';
import {
  measureAgain,
  type AgainOptions,
  type TruthResult,
} from '../../truth-seeking/run/evaluation-run.js';
import { STRATEGIES } from '../../truth-seeking/strategies/strategy.js';
import { defineCommand } from '../command.js';
import { interrupted, interruption, print, printJson } from '../output.js';
import { readCount } from '../option.js';
import { progressScreen } from '../operation-command.js';
import { requireAdapter } from './adapter-flag.js';
import { truthText } from './screen.js';
import type { Argv } from 'yargs';

const RECOMPUTE_OPTION = {
  choices: RECOMPUTED,
  array: true,
  requiresArg: true,
  describe: RECOMPUTE_HELP,
  defaultDescription: RECOMPUTE_TEXT,
} as const;

interface Flags {
  readonly run: string;
  readonly model: string | undefined;
  readonly adapter: string | undefined;
  readonly predictor: string | undefined;
  readonly judge: string | undefined;
  readonly threads: number | undefined;
  readonly each: boolean;
  readonly json: boolean;
}

const flags = (yargs: Argv<{ json: boolean }>) =>
  yargs
    .positional('run', {
      type: 'string',
      demandOption: true,
      describe: 'folder of a run of `truth run`',
    })
    .option('model', {
      type: 'string',
      requiresArg: true,
      describe: "who measures: GGUF file, alias or hf: URI; default: the run's, by name",
    })
    .option('adapter', {
      type: 'string',
      requiresArg: true,
      describe: 'LoRA adapter in GGUF of who measures',
    })
    .option('predictor', {
      type: 'string',
      requiresArg: true,
      describe: 'another model, which predicts and forecasts',
    })
    .option('judge', {
      type: 'string',
      requiresArg: true,
      describe: 'another model, which says beliefs, rates and grades',
    })
    .option('threads', { type: 'number', requiresArg: true, describe: "default: the run's" })
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
  const [predictor, judge] = [
    argv.predictor ?? (await recorded(ownPredictor)),
    argv.judge ?? (await recorded(ownJudge)),
  ];
  await using policies = needsModel
    ? await openPolicies(
        {
          ...rest,
          policy: 'local',
          model: argv.model ?? (await modelOfRecord(config.model)),
          threads: argv.threads ?? config.threads,
          // of another model ours may have nothing
          ...(matmul === undefined || argv.model !== undefined ? {} : { matmul }),
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
  describe:
    'Read the beliefs of a run by another model or in another way, with no new text; scores follow',
  builder: (yargs) =>
    flags(yargs)
      .option('belief-system', {
        choices: BELIEF_SYSTEMS,
        describe: "whether the system prompt stands before them; default: the run's",
      })
      .option('belief', {
        choices: BELIEF_KINDS,
        describe: "where they come from; default: the run's",
      })
      .option('measurements', {
        type: 'number',
        requiresArg: true,
        describe: 'how often one is asked for that is said',
      })
      .epilogue(
        'Beliefs that are there are not read again: the same command continues after an interruption.',
      )
      .example(
        '$0 truth beliefs runs/urns --belief-system drop',
        'what the model believes without its system prompt',
      ),
  handler: (argv) =>
    again(argv, true, {
      // of one reader the same beliefs come again, so that nothing is read twice
      recompute: ['beliefs=missing', 'trials=never', 'world=investigation'],
      beliefs: {
        ...given({ beliefSystem: argv.beliefSystem, belief: argv.belief }),
        ...(argv.measurements === undefined
          ? {}
          : { measurements: readCount('measurements', argv.measurements, 1) }),
      },
    }),
});

export const truthEvaluateCommand = defineCommand({
  command: 'evaluate <run>',
  describe:
    'Score a run by further strategies, from its records; a model is loaded only where something has to be measured',
  builder: (yargs) =>
    flags(yargs)
      .option('eval', {
        type: 'string',
        array: true,
        requiresArg: true,
        default: [] as string[],
        describe: `what is scored beside what was: ${STRATEGIES.names.join(', ')}`,
      })
      .option('examples', {
        type: 'string',
        requiresArg: true,
        describe: 'JSON lines {question, response, score?} before a judge',
      })
      .option('recompute', RECOMPUTE_OPTION)
      .example(
        '$0 truth evaluate runs/urns --eval martingale:change=log-odds',
        'from beliefs that are there',
      )
      .example(
        '$0 truth evaluate runs/towns --eval world-in-the-loop --recompute world=upliftblanket',
        'every forecast again',
      ),
  handler: (argv) => {
    const measured = argv.eval
      .map((each) => STRATEGIES.parse(each))
      .some(
        (each) =>
          ['mutual-predictability', 'world-in-the-loop'].includes(each.name) || isRated(each),
      );
    const examples = argv.examples === undefined ? {} : { examples: argv.examples };
    return again(argv, measured || argv.recompute !== undefined, {
      eval: argv.eval,
      recompute: argv.recompute,
      ...examples,
    });
  },
});
