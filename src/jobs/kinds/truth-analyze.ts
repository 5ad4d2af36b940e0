import { z } from 'zod';
import { ANALYZERS, type AnalyzerId } from '../../truth-seeking/analysis/index.js';
import { flags, jobKind } from './kind.js';
import { contextOf, memoryOf, PROCESS_BYTES } from '../../operations/memory.js';
import { adapter, count, model, runNames } from './members.js';

const READS_TOKENS = 'token-level-evidence';
const name = z.string().min(1).max(500);

const settings = z
  .strictObject({
    analyzer: z
      .enum(Object.keys(ANALYZERS) as [AnalyzerId, ...AnalyzerId[]])
      .describe('what is analysed'),
    runs: runNames.describe('truth runs of this server, such as ids of jobs'),
    after: runNames
      .optional()
      .describe('training-causal-effect: runs of what was trained, a seed each'),
    strategy: name
      .optional()
      .describe('scores of this strategy alone: its name, or with its options'),
    reader: name
      .optional()
      .describe('whose beliefs: logprob, judge, self or stated, or how the id of a reader begins'),
    features: z
      .array(name)
      .min(1)
      .optional()
      .describe('causal-attribution: what a score may go with'),
    randomised: z
      .array(name)
      .min(1)
      .optional()
      .describe('causal-attribution: features under each of which the same was asked'),
    threshold: z
      .number()
      .optional()
      .describe('causal-attribution: log-odds of a score above it, too'),
    group: z
      .array(z.string().regex(/^[^=]+=.+$/, 'a group is written NAME=PART'))
      .optional()
      .describe('performance-comparison: NAME=PART, policies whose names hold PART'),
    trajectory: name.optional().describe(`${READS_TOKENS}: how its id begins`),
    every: count(10_000).optional().describe(`${READS_TOKENS}: words between two readings`),
    model: model.describe(
      `${READS_TOKENS}: a model of this server; default: the one that it serves`,
    ),
    adapter: adapter.describe(
      `${READS_TOKENS}: an adapter of this server, or the id of a job that made one`,
    ),
  })
  .refine(
    ({ analyzer, trajectory }) => (analyzer === READS_TOKENS) === (trajectory !== undefined),
    `trajectory: ${READS_TOKENS} is about one, and nothing else is`,
  )
  .refine(
    ({ analyzer, after }) => (analyzer === 'training-causal-effect') === (after !== undefined),
    'after: training-causal-effect has runs of what was trained, and nothing else has',
  )
  .refine(
    ({ analyzer, model: named, adapter: of, every }) =>
      analyzer === READS_TOKENS || (named ?? of ?? every) === undefined,
    `model, adapter and every are of ${READS_TOKENS}`,
  );

export const truthAnalyze = jobKind({
  id: 'truth-analyze',
  title: 'What the scores of truth runs say beside each other',
  settings,
  async prepare({ analyzer, runs, after, model: named, adapter: of, ...stated }, { names }) {
    const real =
      analyzer === READS_TOKENS
        ? names.model(named ?? names.allowed.model, 'settings.model')
        : null;
    const folders = (member: string, of: readonly string[]): string[] =>
      of.map((each, i) => names.truthRun(each, `settings.${member}.${i}`));
    return {
      args: [
        ...['truth', 'analyze', analyzer, ...folders('runs', runs)],
        ...flags({
          ...(after !== undefined && { after: folders('after', after) }),
          ...(real !== null && { model: real }),
          ...(of !== undefined && { adapter: names.adapter(of, 'settings.adapter') }),
          ...stated,
        }),
      ],
      run: null,
      memoryBytes: real === null ? PROCESS_BYTES : await memoryOf(real, contextOf(real)),
      resolved: {
        analyzer,
        runs,
        ...(after !== undefined && { after }),
        ...stated,
        ...(real !== null && { model: named ?? names.allowed.model }),
      },
    };
  },
});
