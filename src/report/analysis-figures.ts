/** What an analyzer found, as rows of tables and as what is drawn, for terminal and page alike. */
import type { z } from 'zod';
import type { Estimate } from '../truth-seeking/analysis/claim.js';
import type { Correlation } from '../truth-seeking/analysis/correlation.js';
import type { ANALYZERS, AnalyzerId } from '../truth-seeking/analysis/index.js';
import type { Setup } from '../truth-seeking/analysis/scored-run.js';
import { decimal, pValue } from '../text/figures.js';
import { setupText, specText } from './setup-text.js';

export type AnalysisResult = {
  readonly [Id in AnalyzerId]: z.output<(typeof ANALYZERS)[Id]['result']>;
}[AnalyzerId];

export interface AnalysisTable {
  readonly title: string;
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** An estimate a row, with its interval; or points with the line through them. */
export type AnalysisPlot =
  | {
      readonly kind: 'forest';
      readonly title: string;
      readonly rows: readonly {
        readonly name: string;
        readonly value: number;
        readonly low: number | null;
        readonly high: number | null;
      }[];
    }
  | {
      readonly kind: 'scatter';
      readonly title: string;
      readonly axes: readonly [string, string];
      readonly points: readonly { readonly x: number; readonly y: number }[];
      readonly band: Correlation['band'];
    };

export interface AnalysisFigures {
  readonly tables: readonly AnalysisTable[];
  readonly plots: readonly AnalysisPlot[];
  readonly notes: readonly string[];
}

export const signed = (value: number | null): string =>
  decimal(value)
    .replace(/^-(?=0\.000$)/, '')
    .replace('-', '−');
export const signedBounds = (
  of: { readonly low: number | null; readonly high: number | null } | null,
): string =>
  of === null || of.low === null || of.high === null
    ? '–'
    : `${signed(of.low)} to ${signed(of.high)}`;
/** Where a side without a bound is one. */
export const openBounds = (
  of: { readonly low: number | null; readonly high: number | null } | null,
): string =>
  of === null
    ? '–'
    : `${of.low === null ? '−∞' : signed(of.low)} to ${of.high === null ? '∞' : signed(of.high)}`;
const p = (value: number | null): string => (value === null ? '–' : pValue(value));

const scoreText = ({ config }: Setup): string => specText(config);

const MEMBERS = ['config', 'domain', 'mode', 'systemPrompt'] as const;
const memberText = (setup: Setup, member: (typeof MEMBERS)[number]): string =>
  member === 'config' ? scoreText(setup) : member === 'mode' ? specText(setup.mode) : setup[member];

/** What tells the setups of a table apart; the score where nothing does. */
function told(setups: readonly Setup[]): {
  readonly nameOf: (setup: Setup) => string;
  readonly common: string;
} {
  const [differing, alike] = [true, false].map((differ) =>
    MEMBERS.filter((member) => new Set(setups.map((setup) => setup[member])).size > 1 === differ),
  );
  const shown = differing!.length === 0 ? (['config'] as const) : differing!;
  const text = (setup: Setup, members: readonly (typeof MEMBERS)[number][]): string =>
    members
      .map((member) => memberText(setup, member))
      .filter((part) => part !== '')
      .join(' · ');
  return {
    nameOf: (setup) => text(setup, shown),
    common: setups[0] === undefined ? '' : text(setups[0], alike!),
  };
}
const withCommon = (title: string, common: string): string =>
  common === '' ? title : `${title} (${common})`;

const ESTIMATE_HEADS = ['difference', '95 %', 'p', 'adjusted', 'claim'];
const estimateCells = (estimate: Estimate, claim: string): string[] => [
  signed(estimate.value),
  signedBounds(estimate),
  p(estimate.p),
  p(estimate.adjusted),
  claim,
];
const correlationCells = ({ n, pearson, spearman, kendall, slope }: Correlation): string[] => [
  String(n),
  signed(pearson?.value ?? null),
  signedBounds(pearson?.interval ?? null),
  p(pearson?.p ?? null),
  signed(spearman),
  signed(kendall),
  signed(slope?.value ?? null),
];
const CORRELATION_HEADS = ['n', 'Pearson', '95 %', 'p', 'Spearman', 'Kendall', 'slope'];

export function analysisFigures(result: AnalysisResult): AnalysisFigures {
  const notes = 'multiplicity' in result ? [result.multiplicity.note] : [];
  switch (result.analyzer) {
    case 'performance-comparison':
      return {
        notes,
        tables: result.setups.flatMap(({ setup, direction, ranking, pairs, outside }) => {
          const title = `${scoreText(setup)} · ${setupText(setup)}`;
          const better = direction === 'zero' ? 'nearer to 0 is better' : `${direction} is better`;
          return [
            {
              title: `${title} (${better})`,
              heads: ['policy', 'runs', 'n', 'score', '95 %'],
              rows: ranking.map(({ policy, runs, n, value, interval }) => [
                policy,
                String(runs),
                String(n),
                signed(value),
                signedBounds(interval),
              ]),
            },
            ...(pairs.length === 0
              ? []
              : [
                  {
                    title: `${title}: in pairs`,
                    heads: ['first less second', 'problems', ...ESTIMATE_HEADS],
                    rows: pairs.map(({ policies, shared, difference, claim }) => [
                      policies.join(' − '),
                      String(shared),
                      ...estimateCells(difference, claim),
                    ]),
                  },
                ]),
            ...(outside === null
              ? []
              : [
                  {
                    title: `${title}: against the figure from outside`,
                    heads: ['', ...CORRELATION_HEADS],
                    rows: [
                      ['all', ...correlationCells(outside.correlation)],
                      ...(outside.withoutOutliers === null
                        ? []
                        : [
                            [
                              `without ${outside.outliers.join(', ')}`,
                              ...correlationCells(outside.withoutOutliers),
                            ],
                          ]),
                      ...Object.entries(outside.byGroup).map(([group, of]) => [
                        group,
                        ...correlationCells(of),
                      ]),
                    ],
                  },
                ]),
          ];
        }),
        plots: result.setups.flatMap(({ setup, ranking, outside }): AnalysisPlot[] => {
          const title = `${scoreText(setup)} · ${setupText(setup)}`;
          return [
            {
              kind: 'forest',
              title,
              rows: ranking.map(({ policy, value, interval }) => ({
                name: policy,
                value,
                low: interval?.low ?? null,
                high: interval?.high ?? null,
              })),
            },
            ...(outside === null
              ? []
              : [
                  {
                    kind: 'scatter' as const,
                    title,
                    axes: ['figure from outside', 'score'] as const,
                    points: outside.points,
                    band: outside.correlation.band,
                  },
                ]),
          ];
        }),
      };
    case 'evaluation-relationship': {
      const { nameOf, common } = told(
        result.relations.flatMap(({ setups }) => setups.map((setup) => ({ ...setup, config: '' }))),
      );
      return {
        notes,
        tables: [
          {
            title: withCommon(
              'scores of one strategy against those of another, by trajectory: associations',
              common,
            ),
            heads: [
              'strategies',
              'setup',
              ...CORRELATION_HEADS.slice(0, 4),
              'p adjusted',
              'within problems',
              ...CORRELATION_HEADS.slice(4),
            ],
            rows: result.relations.map(
              ({ setups: [a, b], correlation, adjusted, withinProblems }) => {
                const cells = correlationCells(correlation);
                return [
                  `${scoreText(a)} ~ ${scoreText(b)}`,
                  nameOf({ ...a, config: '' }),
                  ...cells.slice(0, 4),
                  p(adjusted),
                  withinProblems === null
                    ? '–'
                    : `${signed(withinProblems.value)} (${signedBounds(withinProblems)})`,
                  ...cells.slice(4),
                ];
              },
            ),
          },
        ],
        plots: result.relations.map(({ setups: [a, b], points, correlation }) => ({
          kind: 'scatter',
          title: setupText(a),
          axes: [scoreText(a), scoreText(b)],
          points,
          band: correlation.band,
        })),
      };
    }
    case 'causal-attribution': {
      const nameOf = ({
        feature,
        level,
      }: {
        readonly feature: string;
        readonly level: string | null;
      }): string =>
        level === null
          ? `${feature}, one more`
          : `${feature} ${specText(level)}, not ${specText(result.references[feature]!)}`;
      return {
        notes: [
          ...notes,
          `${result.trajectories} trajectories of ${result.problems} problems, errors clustered by problem; R² ${decimal(result.rSquared)}`,
          ...Object.entries(result.leftOut).map(
            ([feature, why]) => `left out: ${feature}, since ${why}`,
          ),
        ],
        tables: [
          {
            title: `what ${specText(result.strategy)} goes with`,
            heads: ['feature', ...ESTIMATE_HEADS],
            rows: result.coefficients.map((each) => [
              nameOf(each),
              ...estimateCells(each.estimate, each.claim),
            ]),
          },
          ...(result.logistic === null
            ? []
            : [
                {
                  title:
                    `log-odds of a score above ${result.logistic.threshold}; ` +
                    `loss ${decimal(result.logistic.loss.mean)} (${signedBounds(result.logistic.loss)})`,
                  heads: ['feature', 'log-odds', '95 %', 'p'],
                  rows: result.logistic.coefficients.map((each) => [
                    nameOf(each),
                    signed(each.estimate.value),
                    signedBounds(each.estimate),
                    p(each.estimate.p),
                  ]),
                },
              ]),
        ],
        plots: [
          {
            kind: 'forest',
            title: result.strategy,
            rows: result.coefficients.map((each) => ({ name: nameOf(each), ...each.estimate })),
          },
        ],
      };
    }
    case 'cross-setup-agreement': {
      const unscored = (setup: Setup): Setup => ({ ...setup, config: '' });
      const { nameOf, common } = told(
        result.agreements.flatMap(({ setups }) => setups.map(unscored)),
      );
      return {
        notes,
        tables: [
          {
            title: withCommon('the same policy under two setups, by problem', common),
            heads: ['setups', ...ESTIMATE_HEADS, 'Pearson', 'single differences'],
            rows: result.agreements.map(
              ({ setups: [a, b], correlation, difference, limits, claim }) => [
                `${scoreText(a)}: ${nameOf(unscored(a))} − ${nameOf(unscored(b))}`,
                ...estimateCells(difference, claim),
                signed(correlation.pearson?.value ?? null),
                signedBounds(limits),
              ],
            ),
          },
        ],
        plots: result.agreements.map(({ setups: [a, b], points, correlation }) => ({
          kind: 'scatter',
          title: scoreText(a),
          axes: [setupText(a), setupText(b)],
          points,
          band: correlation.band,
        })),
      };
    }
    case 'training-causal-effect': {
      const { nameOf, common } = told(result.changes.map(({ setup }) => setup));
      return {
        notes,
        tables: [
          {
            title: withCommon('after less before, by problem', common),
            heads: [
              'score',
              'before',
              'after',
              ...ESTIMATE_HEADS,
              'seeds',
              'over seeds',
              'problems',
            ],
            rows: result.changes.map(
              ({ setup, before, after, trained, problems, overProblems, overSeeds, claim }) => [
                ...[nameOf(setup), signed(before), signed(after)],
                ...estimateCells(
                  { ...overProblems, adjusted: overProblems.adjusted ?? overSeeds.adjusted },
                  claim,
                ),
                ...[String(trained.length), signedBounds(overSeeds), String(problems)],
              ],
            ),
          },
        ],
        plots: [
          {
            kind: 'forest',
            title: 'after less before',
            rows: result.changes.map(({ setup, overProblems }) => ({
              name: nameOf(setup),
              ...overProblems,
            })),
          },
        ],
      };
    }
    case 'trajectory-score':
      return {
        notes,
        plots: [],
        tables: [
          {
            title: `${scoreText(result.setup)} · ${setupText(result.setup)}, best first`,
            heads: ['trajectory', 'problem', 'score'],
            rows: result.scores.map(({ trajectoryId, problemId, score }) => [
              trajectoryId.slice(0, 16),
              problemId.slice(0, 16),
              signed(score),
            ]),
          },
        ],
      };
    case 'token-level-evidence':
      return {
        notes: [
          `belief in option 0: ${decimal(result.before)} before, ${decimal(result.after)} after`,
        ],
        plots: [],
        tables: [
          {
            title: `trajectory ${result.trajectoryId.slice(0, 16)}: what moved the belief most`,
            heads: ['word', 'place', 'change'],
            rows: result.pieces
              .map(({ text, evidence }, place) => ({ text: text.trim(), evidence, place }))
              .sort((a, b) => Math.abs(b.evidence) - Math.abs(a.evidence))
              .slice(0, 20)
              .map(({ text, evidence, place }) => [text, String(place + 1), signed(evidence)]),
          },
        ],
      };
    case 'results-catalog':
      return {
        notes: [`${result.results} results of ${result.runs} runs`],
        plots: [],
        tables: result.setups.map(({ setup, results }) => ({
          title: `${scoreText(setup)} · ${setupText(setup)}`,
          heads: ['policy', 'run', 'seed', 'n', 'score', '95 %'],
          rows: results.map(({ policy, runId, seed, n, value, interval }) => [
            ...[policy, runId.slice(0, 8), seed, String(n), signed(value)],
            signedBounds(interval),
          ]),
        })),
      };
  }
}
