import { z } from 'zod';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { readJson, requireTarget } from '../../files.js';
import { analysisFigures, type AnalysisResult } from '../../report/analysis-figures.js';
import { listTable } from '../../report/terminal.js';
import { terminalStyle, wrapped } from '../../report/terminal-style.js';
import { truthRunFolders } from '../../truth-seeking/analysis/discover.js';
import { readerNamed, scoredRuns } from '../../truth-seeking/analysis/from-run.js';
import {
  ANALYZERS,
  attribute,
  comparePerformance,
  crossSetupAgreement,
  relateEvaluations,
  resultsCatalog,
  tokenEvidence,
  trainingEffect,
  trajectoryScores,
  type AnalyzerId,
  type ScoredRun,
} from '../../truth-seeking/analysis/index.js';
import { readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import { openPolicies } from '../../truth-seeking/run/open-policies.js';
import { defineCommand } from '../command.js';
import { interruption, print, printJson, UsageError } from '../output.js';
import { readCount } from '../tasks-generate.js';
import { requireAdapter } from './flags.js';

const NAMES = Object.keys(ANALYZERS) as AnalyzerId[];

/** Scores of the strategy that is asked for: by its name, or as it is written with its options. */
const ofStrategy = (runs: readonly ScoredRun[], strategy: string | undefined): ScoredRun[] =>
  runs.filter(
    ({ setup }) =>
      strategy === undefined ||
      setup.strategy === strategy ||
      setup.config.replace(/ \(.*$/, '') === strategy,
  );

/** `NAME=PART` pairs. */
const groupsOf = (given: readonly string[]): Map<string, string> =>
  new Map(
    given.map((pair) => {
      const [, name, part] = /^([^=]+)=(.+)$/.exec(pair) ?? [];
      if (name === undefined || part === undefined)
        throw new UsageError(`--group: expected NAME=PART, got ${pair}`);
      return [name, part];
    }),
  );

function figuresFrom(file: string): Map<string, number> {
  const found = z.record(z.string(), z.number()).safeParse(readJson(file));
  if (!found.success)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${file}: figures of policies are an object of numbers by name`,
    );
  return new Map(Object.entries(found.data));
}

/** The trajectory whose id begins so, of the one run that has it. */
function trajectoryOf(runs: readonly TruthRun[], start: string) {
  const found = runs.flatMap((run) =>
    run.state.trajectories
      .filter(({ trajectory }) => trajectory.id.startsWith(start))
      .map((record) => ({ run, record })),
  );
  if (found.length === 1) return found[0]!;
  throw new UsageError(
    `--trajectory: ${found.length} trajectories begin with ${JSON.stringify(start)}`,
  );
}

interface Flags {
  readonly strategy: string | undefined;
  readonly reader: string | undefined;
  readonly after: readonly string[];
  readonly features: readonly string[];
  readonly randomised: readonly string[];
  readonly threshold: number | undefined;
  readonly outside: string | undefined;
  readonly group: readonly string[];
  readonly trajectory: string | undefined;
  readonly every: number;
  readonly model: string | undefined;
  readonly adapter: string | undefined;
}

async function analysed(
  analyzer: AnalyzerId,
  folders: readonly string[],
  flags: Flags,
): Promise<AnalysisResult[]> {
  const read = (named: readonly string[]): TruthRun[] => truthRunFolders(named).map(readTruthRun);
  const runs = read(folders);
  // these show values, of which a slope has two: as measured, and without noise
  const withoutNoise = analyzer === 'performance-comparison' || analyzer === 'results-catalog';
  const scoresOf = (run: TruthRun): ScoredRun[] =>
    scoredRuns(run, readerNamed(run, flags.reader), { withoutNoise });
  const scored = ofStrategy(runs.flatMap(scoresOf), flags.strategy);
  switch (analyzer) {
    case 'performance-comparison':
      return [
        comparePerformance(scored, {
          ...(flags.outside === undefined ? {} : { outside: figuresFrom(flags.outside) }),
          groups: groupsOf(flags.group),
        }),
      ];
    case 'evaluation-relationship':
      return [relateEvaluations(scored)];
    case 'causal-attribution': {
      const means = scored.filter(({ aggregate }) => aggregate === 'mean');
      const configs = [...new Set(means.map(({ setup }) => setup.config))];
      return configs.map((config) =>
        attribute(
          means.filter(({ setup }) => setup.config === config),
          {
            features: flags.features,
            randomised: flags.randomised,
            ...(flags.threshold === undefined ? {} : { threshold: flags.threshold }),
          },
        ),
      );
    }
    case 'cross-setup-agreement':
      return [crossSetupAgreement(scored)];
    case 'training-causal-effect':
      if (flags.after.length === 0)
        throw new UsageError('--after: name the runs of what was trained');
      return [
        trainingEffect(scored, ofStrategy(read(flags.after).flatMap(scoresOf), flags.strategy)),
      ];
    case 'trajectory-score':
      return scored.map(trajectoryScores);
    case 'results-catalog':
      return [resultsCatalog(scored)];
    case 'token-level-evidence': {
      if (flags.trajectory === undefined)
        throw new UsageError('--trajectory: name one, by how its id begins');
      readCount('every', flags.every, 1);
      const { run, record } = trajectoryOf(runs, flags.trajectory);
      const problem = run.state.problem(record.trajectory.problemId);
      if (problem?.kind !== 'binary')
        throw new UsageError('--trajectory: its question has no two options');
      const signal = interruption();
      const { adapter: _, ...config } = run.start.config;
      const { model = config.model, adapter, every } = flags;
      requireAdapter(run.start.config, flags);
      const named = {
        ...config,
        policy: 'local' as const,
        model,
        ...(adapter === undefined ? {} : { adapter }),
      };
      await using policies = await openPolicies(named, { signal });
      return [
        await tokenEvidence(policies.evaluated, problem, record.trajectory, { every, signal }),
      ];
    }
  }
}

export const truthAnalyzeCommand = defineCommand({
  command: 'analyze <analyzer> <runs..>',
  describe:
    'What the scores of runs say beside each other: ranks, relations, agreement, effects, with intervals',
  builder: (yargs) =>
    yargs
      .positional('analyzer', { choices: NAMES, demandOption: true, describe: 'what is analysed' })
      .positional('runs', {
        type: 'string',
        array: true,
        demandOption: true,
        describe: 'folders of runs, or folders that hold some',
      })
      .option('strategy', {
        type: 'string',
        requiresArg: true,
        describe: 'scores of this strategy alone: its name, or with its options',
      })
      .option('reader', {
        type: 'string',
        requiresArg: true,
        describe:
          'whose beliefs: logprob, judge, self or stated, or how the id of a reader begins; default: the first of each run',
      })
      .option('after', {
        type: 'string',
        array: true,
        requiresArg: true,
        default: [] as string[],
        describe: 'training-causal-effect: runs of what was trained, a seed each',
      })
      .option('features', {
        type: 'string',
        array: true,
        requiresArg: true,
        default: ['domain', 'mode', 'systemPrompt', 'policy'],
        describe:
          'causal-attribution: what a score may go with; also steps, characters, tokens, with which nothing is called an effect',
      })
      .option('randomised', {
        type: 'string',
        array: true,
        requiresArg: true,
        default: ['mode', 'systemPrompt'],
        describe:
          'causal-attribution: features under each of which the same was asked, which is checked; the others are associations',
      })
      .option('threshold', {
        type: 'number',
        requiresArg: true,
        describe: 'causal-attribution: log-odds of a score above it, too',
      })
      .option('outside', {
        type: 'string',
        requiresArg: true,
        describe: 'performance-comparison: JSON, a figure by the name of a policy',
      })
      .option('group', {
        type: 'string',
        array: true,
        requiresArg: true,
        default: [] as string[],
        describe: 'performance-comparison: NAME=PART, policies whose names hold PART',
      })
      .option('trajectory', {
        type: 'string',
        requiresArg: true,
        describe: 'token-level-evidence: how its id begins',
      })
      .option('every', {
        type: 'number',
        requiresArg: true,
        default: 1,
        describe: 'token-level-evidence: words between two readings',
      })
      .option('model', {
        type: 'string',
        requiresArg: true,
        describe: "token-level-evidence: who is read; default: the run's",
      })
      .option('adapter', {
        type: 'string',
        requiresArg: true,
        describe: 'token-level-evidence: LoRA adapter in GGUF of who is read',
      })
      .option('page', {
        type: 'string',
        requiresArg: true,
        describe: 'HTML file with tables and charts, which opens offline',
      })
      .example(
        '$0 truth analyze causal-attribution runs --strategy accuracy',
        'what the Brier scores of all runs go with',
      ),
  handler: async ({ analyzer, runs, page, json, ...flags }) => {
    if (page !== undefined) requireTarget(page);
    const results = await analysed(analyzer, runs, flags);
    if (page !== undefined) {
      const { analysisHtml } = await import('../../report/analysis-page.js');
      await writeFileAtomically(page, [Buffer.from(analysisHtml(results))], 'follow');
    }
    if (json) {
      printJson(results);
      return;
    }
    const style = terminalStyle(process.stdout);
    const lines = results.flatMap((result) => {
      const { tables, notes } = analysisFigures(result);
      return [
        ...tables.flatMap(({ title, heads, rows }) => [
          wrapped(title, style),
          listTable(heads, rows, style),
          '',
        ]),
        ...notes.map((note) => wrapped(note, style)),
      ];
    });
    print(`${lines.join('\n')}\n${page === undefined ? '' : `page:  ${page}\n`}`);
  },
});
