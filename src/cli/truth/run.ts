import { nameAdapter } from '../../report/named-adapter.js';
import { terminalStyle } from '../../report/terminal-style.js';
import type { TruthConfig } from '../../truth-seeking/run/config.js';
import { openPolicies } from '../../truth-seeking/run/open-policies.js';
import {
  RECOMPUTE,
  runTruth,
  WORLD_RECOMPUTE,
  type Recompute,
  type RecomputeRules,
  type TruthProgress,
} from '../../truth-seeking/run/run.js';
import { defineCommand } from '../command.js';
import { interrupted, interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { truthCommandLine, truthConfigOf, truthFlags } from './flags.js';
import { truthJson, truthText } from './screen.js';
import { terminal } from './terminal.js';

export const recomputeOption = {
  type: 'string',
  array: true,
  requiresArg: true,
  describe: `what is made again: trajectories, beliefs or trials, each = ${RECOMPUTE.join(', ')}; world = ${WORLD_RECOMPUTE.join(', ')}`,
  defaultDescription: 'trajectories=missing beliefs=missing trials=missing world=all',
} as const;

export const eachOption = {
  type: 'boolean',
  default: false,
  describe: 'with --json: scores of every trajectory, too',
} as const;

/** @throws UsageError */
export function recomputeOf(given: readonly string[] | undefined): Partial<RecomputeRules> {
  const rules: Record<string, string> = {};
  for (const pair of given ?? []) {
    const [what, how] = pair.split('=') as [string, string | undefined];
    const values: readonly string[] | undefined =
      what === 'world'
        ? WORLD_RECOMPUTE
        : ['trajectories', 'beliefs', 'trials'].includes(what)
          ? RECOMPUTE
          : undefined;
    if (values === undefined || how === undefined || !values.includes(how))
      throw new UsageError(
        `--recompute ${pair}: ${values === undefined ? recomputeOption.describe : `${what}= takes ${values.join(', ')}`}`,
      );
    rules[what] = how;
  }
  return rules as Partial<Record<'trajectories' | 'beliefs' | 'trials', Recompute>>;
}

/** After an interruption: what is made again at all events is made again from its beginning. */
export const goingOn = (rules: Partial<RecomputeRules> = {}): string =>
  Object.values(rules).some((rule) => rule === 'always' || rule === 'upliftblanket')
    ? 'What was made is kept; the same command makes all of it again, without --recompute it goes on.'
    : 'Nothing was lost: the same command goes on where it was.';

const UNITS: Readonly<Record<TruthProgress['stage'], string>> = {
  trajectories: 'trajectories',
  beliefs: 'trajectories',
  measurements: 'measurements',
  results: 'scores',
};

/** A line of progress a stage. */
export class TruthScreen {
  #progress: Progress | null = null;
  #stage = '';

  readonly onProgress = ({ stage, done, total }: TruthProgress): void => {
    if (stage !== this.#stage) {
      this.#progress?.clear();
      this.#progress = new Progress({
        label: stage === 'trajectories' ? 'reasoning' : stage,
        unit: UNITS[stage],
      });
      this.#stage = stage;
    }
    this.#progress!.update(done, { total });
  };

  [Symbol.dispose](): void {
    this.#progress?.[Symbol.dispose]();
  }
}

/** The file of an adapter that a run or the registry may have. */
async function withAdapterFile(
  config: TruthConfig,
  registry: string | undefined,
): Promise<TruthConfig> {
  if (config.adapter === undefined) return config;
  return { ...config, adapter: (await nameAdapter(config.adapter, registryOf({ registry }))).file };
}

export const truthRunCommand = defineCommand({
  command: 'run',
  describe:
    'Let a policy reason about problems, read its beliefs after every step, and score where they move',
  builder: (yargs) =>
    yargs
      .option('out', {
        type: 'string',
        requiresArg: true,
        describe: 'run folder; default: runs/truth-…, named after what determines the run',
      })
      .option('config', {
        type: 'string',
        requiresArg: true,
        describe: 'JSON file of these settings; flags come first',
      })
      .option('recompute', recomputeOption)
      .option('registry', registryOption)
      .option('each', eachOption)
      // read through the schema, not through yargs' types
      .options(truthFlags() as Record<never, never>)
      .epilogue(
        'The same command goes on after an interruption: what is in the log is not made again.',
      )
      .example(
        '$0 truth run --domain urns --problems 8',
        'beliefs of the embedded model about urns',
      )
      .example(
        '$0 truth run --mode direct self-debate:turns=6 --system-prompt critical confirmatory',
        'two modes under two prompts each',
      )
      .example(
        '$0 truth run --policy human --domain puzzles --mode direct',
        'you reason, the model reads what you believe',
      ),
  handler: async (argv) => {
    const recompute = recomputeOf(argv.recompute);
    const config = await withAdapterFile(truthConfigOf(argv, argv.config), argv.registry);
    const signal = interruption();
    using download = new Progress({ label: `download ${config.model}`, unit: 'bytes' });
    using screen = new TruthScreen();
    const person = config.policy === 'human' ? terminal(process.stdin, process.stderr) : null;
    try {
      await using policies = await openPolicies(config, {
        signal,
        ...(person === null ? {} : { ask: person.ask }),
        onDownload: ({ downloadedBytes, totalBytes }) =>
          download.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes }),
      });
      const result = await runTruth(config, {
        policies,
        recompute,
        signal,
        ...(argv.out === undefined ? {} : { out: argv.out }),
        ...(person === null ? { onProgress: screen.onProgress } : {}),
      }).catch((error: unknown) => {
        throw interrupted(error, 'the run', goingOn(recompute));
      });
      screen[Symbol.dispose]();
      const command = truthCommandLine(config, argv.out ?? result.folder);
      if (argv.json) printJson({ ...truthJson(result, argv.each), command });
      else
        print(
          `${truthText(result, terminalStyle(process.stdout))}\nrun:   ${argv.out ?? result.folder}\nagain: ${command}\n`,
        );
    } finally {
      person?.close();
    }
  },
});
