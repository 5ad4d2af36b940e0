/** Compare the scores of truth runs. */
import { z } from 'zod';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { readJson, requireTarget } from '../../files.js';
import { given } from '../../given.js';
import type { AnalysisResult } from '../../report/analysis-figures.js';
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
import { openReasoners } from '../../truth-seeking/run/open-reasoners.js';
import { adapterName, count, modelName, output } from '../members.js';
import { contextOf, memoryOf, PROCESS_BYTES } from '../memory.js';
import { operation, WrongSetting, type Context } from '../operation.js';
import { resolvedNames } from '../requests.js';
import { requireAdapter } from './adapter-of-run.js';
import { tellDownload } from './progress.js';

const READS_TOKENS = 'token-level-evidence';
const name = z.string().min(1).max(500);
const runNames = z.array(z.string().min(1)).min(1).meta({ names: 'truthRun' });

const settings = z.strictObject({
  analyzer: z
    .enum(Object.keys(ANALYZERS) as [AnalyzerId, ...AnalyzerId[]])
    .describe('analysis to run')
    .meta({ positional: true, first: 1 }),
  runs: runNames
    .describe('run folders, or folders that contain them')
    .meta({ positional: true, first: 2 }),
  after: runNames
    .optional()
    .describe('training-causal-effect: runs of the trained models, one training seed each'),
  model: modelName
    .optional()
    .describe(`${READS_TOKENS}: model to read`)
    .meta({ defaultText: "the run's" }),
  adapter: adapterName.optional().describe(`${READS_TOKENS}: LoRA adapter in GGUF for that model`),
  strategy: name
    .optional()
    .describe('only scores of this strategy: its name, with or without options')
    .meta({ first: 3 }),
  reader: name
    .optional()
    .describe('whose beliefs: logprob, judge, self, stated, or the start of a reader id')
    .meta({ defaultText: 'the first of each run' }),
  features: z
    .array(name)
    .min(1)
    .default(['domain', 'mode', 'systemPrompt', 'policy'])
    .describe(
      'causal-attribution: features that may explain a score; with steps, characters or tokens no effect is claimed',
    ),
  randomised: z
    .array(name)
    .min(1)
    .default(['mode', 'systemPrompt'])
    .describe(
      'causal-attribution: features whose values were all tested on the same questions (this is checked); other ' +
        'features show associations only',
    ),
  threshold: z
    .number()
    .optional()
    .describe('causal-attribution: also fit the log-odds of a score above this'),
  outside: z
    .string()
    .min(1)
    .optional()
    .describe('performance-comparison: JSON file of figures by policy name')
    .meta({ names: 'file' }),
  group: z
    .array(
      z
        .string()
        .max(1000)
        .regex(/^[^=]+=.+$/, 'a group is written NAME=PART'),
    )
    .optional()
    .describe('performance-comparison: NAME=PART groups policies whose names contain PART'),
  trajectory: name.optional().describe(`${READS_TOKENS}: start of the trajectory id`),
  every: count(10_000)
    .optional()
    .describe(`${READS_TOKENS}: words between two readings`)
    .meta({ defaultText: '1' }),
  page: output.optional().describe('HTML file with tables and charts; opens offline'),
});
type Settings = z.output<typeof settings>;

const contradictions = ({
  analyzer,
  trajectory,
  after,
  model,
  adapter,
  every,
}: Pick<
  z.input<typeof settings>,
  'analyzer' | 'trajectory' | 'after' | 'model' | 'adapter' | 'every'
>): string[] => [
  ...((analyzer === READS_TOKENS) === (trajectory !== undefined)
    ? []
    : [`trajectory: required for ${READS_TOKENS}, and only there`]),
  ...((analyzer === 'training-causal-effect') === (after !== undefined)
    ? []
    : ['after: required for training-causal-effect, and only there']),
  ...(analyzer === READS_TOKENS || (model ?? adapter ?? every) === undefined
    ? []
    : [`model, adapter and every are only for ${READS_TOKENS}`]),
];

/** Scores of the requested strategy: by its name, or by its name with options. */
const ofStrategy = (runs: readonly ScoredRun[], strategy: string | undefined): ScoredRun[] =>
  runs.filter(
    ({ setup }) =>
      strategy === undefined ||
      setup.strategy === strategy ||
      setup.config.replace(/ \(.*$/, '') === strategy,
  );

/** `NAME=PART` pairs. */
const groupsOf = (pairs: readonly string[] = []): Map<string, string> =>
  new Map(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );

function figuresFrom(file: string): Map<string, number> {
  const found = z.record(z.string(), z.number()).safeParse(readJson(file));
  if (found.success) return new Map(Object.entries(found.data));
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `${file}: expected a JSON object of numbers by policy name`,
  );
}

/** The trajectory whose id begins so, of the one run that has it. */
function trajectoryOf(runs: readonly TruthRun[], start: string) {
  const found = runs.flatMap((run) =>
    run.state.trajectories
      .filter(({ trajectory }) => trajectory.id.startsWith(start))
      .map(({ trajectory }) => ({ run, trajectory })),
  );
  if (found.length === 1) return found[0]!;
  throw new WrongSetting(
    `trajectory: ${found.length} trajectory ids start with ${JSON.stringify(start)}`,
  );
}

async function tokensRead(
  runs: readonly TruthRun[],
  { trajectory: start, every = 1, ...named }: Settings,
  { signal, tell }: Context,
): Promise<AnalysisResult> {
  const { run, trajectory } = trajectoryOf(runs, start!);
  const problem = run.state.problem(trajectory.problemId);
  if (problem?.kind !== 'binary')
    throw new WrongSetting('trajectory: its question does not have two options');
  requireAdapter(run.start.config, named);
  const { adapter: _, ...config } = run.start.config;
  const { model = config.model, adapter } = named;
  await using policies = await openReasoners(
    { ...config, policy: 'local', model, ...given({ adapter }) },
    { signal, onDownload: tellDownload(tell, model) },
  );
  return tokenEvidence(policies.evaluated, problem, trajectory, { every, signal });
}

/** A result for each configuration of a strategy. */
function attributed(
  scored: readonly ScoredRun[],
  options: Pick<Settings, 'features' | 'randomised' | 'threshold'>,
): AnalysisResult[] {
  const means = scored.filter(({ aggregate }) => aggregate === 'mean');
  const configs = [...new Set(means.map(({ setup }) => setup.config))];
  return configs.map((config) =>
    attribute(
      means.filter(({ setup }) => setup.config === config),
      given(options, 'features', 'randomised', 'threshold'),
    ),
  );
}

async function analysed(asked: Settings, context: Context): Promise<AnalysisResult[]> {
  const { analyzer, strategy, reader, outside } = asked;
  const read = (named: readonly string[]): TruthRun[] => truthRunFolders(named).map(readTruthRun);
  const runs = read(asked.runs);
  // these show values, of which a slope has two: as measured, and without noise
  const withoutNoise = analyzer === 'performance-comparison' || analyzer === 'results-catalog';
  const scoresOf = (of: readonly TruthRun[]): ScoredRun[] =>
    ofStrategy(
      of.flatMap((run) => scoredRuns(run, readerNamed(run, reader), { withoutNoise })),
      strategy,
    );
  const scored = scoresOf(runs);
  switch (analyzer) {
    case 'performance-comparison':
      return [
        comparePerformance(scored, {
          ...(outside !== undefined && { outside: figuresFrom(outside) }),
          groups: groupsOf(asked.group),
        }),
      ];
    case 'evaluation-relationship':
      return [relateEvaluations(scored)];
    case 'causal-attribution':
      return attributed(scored, asked);
    case 'cross-setup-agreement':
      return [crossSetupAgreement(scored)];
    case 'training-causal-effect':
      return [trainingEffect(scored, scoresOf(read(asked.after!)))];
    case 'trajectory-score':
      return scored.map(trajectoryScores);
    case 'results-catalog':
      return [resultsCatalog(scored)];
    case 'token-level-evidence':
      return [await tokensRead(runs, asked, context)];
  }
}

export const truthAnalyze = operation({
  id: 'truth analyze',
  title: 'Compare the scores of runs: ranks, relations, agreement and effects, with intervals',
  settings,
  contradictions,
  async run(asked, context): Promise<AnalysisResult[]> {
    const { page } = asked;
    if (page !== undefined) requireTarget(page);
    const results = await analysed(asked, context);
    if (page !== undefined) {
      const { analysisHtml } = await import('../../report/analysis-page.js');
      await writeFileAtomically(page, [Buffer.from(analysisHtml(results))], 'follow');
    }
    return results;
  },
  job: {
    kind: 'truth-analyze',
    title: 'Compare the scores of truth runs',
    button: 'Analyse truth',
    contradictions,
    resolve(stated, names) {
      const { model, ...things } = resolvedNames(settings, stated, names);
      return {
        ...stated,
        ...things,
        ...(stated.analyzer === READS_TOKENS && { model: String(model) }),
      };
    },
    memoryBytes: async ({ model }) =>
      model === undefined ? PROCESS_BYTES : memoryOf(model, contextOf(model)),
    shown: (stated, _, names) =>
      stated.analyzer === READS_TOKENS
        ? { ...stated, model: stated.model ?? names.allowed.model }
        : stated,
  },
});
