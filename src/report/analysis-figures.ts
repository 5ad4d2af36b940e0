/** Results of an analyzer as tables and plots, for the terminal and the page. */
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
/** Bounds of an interval that may have no bound on a side. */
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

/**
 * Names the setups of a table by the members in which they differ, or by the score if they do not.
 */
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

const titleOf = (setup: Setup): string => `${scoreText(setup)} · ${setupText(setup)}`;
const unscored = (setup: Setup): Setup => ({ ...setup, config: '' });
const notesOf = (result: AnalysisResult): string[] =>
  'multiplicity' in result ? [result.multiplicity.note] : [];

type ResultOf<Id extends AnalyzerId> = Extract<AnalysisResult, { readonly analyzer: Id }>;
/** Parts of the figures; default: the note on multiplicity, and no plots. */
type Figures = Pick<AnalysisFigures, 'tables'> & Partial<AnalysisFigures>;

type Compared = ResultOf<'performance-comparison'>['setups'][number];

function comparedTables({ setup, direction, ranking, pairs, outside }: Compared): AnalysisTable[] {
  const title = titleOf(setup);
  const better = direction === 'zero' ? 'nearer to 0 is better' : `${direction} is better`;
  const tables: AnalysisTable[] = [
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
  ];
  if (pairs.length > 0)
    tables.push({
      title: `${title}: pairwise comparison`,
      heads: ['first minus second', 'problems', ...ESTIMATE_HEADS],
      rows: pairs.map(({ policies, shared, difference, claim }) => [
        policies.join(' − '),
        String(shared),
        ...estimateCells(difference, claim),
      ]),
    });
  if (outside !== null) {
    const { correlation, withoutOutliers, outliers, byGroup } = outside;
    const rows: [string, Correlation | null][] = [
      ['all', correlation],
      [`without ${outliers.join(', ')}`, withoutOutliers],
      ...Object.entries(byGroup),
    ];
    tables.push({
      title: `${title}: compared with the external figure`,
      heads: ['', ...CORRELATION_HEADS],
      rows: rows.flatMap(([name, of]) => (of === null ? [] : [[name, ...correlationCells(of)]])),
    });
  }
  return tables;
}

const comparedPlots = ({ setup, ranking, outside }: Compared): AnalysisPlot[] => {
  const title = titleOf(setup);
  const rows = ranking.map(({ policy, value, interval }) => ({
    name: policy,
    value,
    low: interval?.low ?? null,
    high: interval?.high ?? null,
  }));
  const forest: AnalysisPlot = { kind: 'forest', title, rows };
  if (outside === null) return [forest];
  const { points, correlation } = outside;
  const axes = ['external figure', 'score'] as const;
  return [forest, { kind: 'scatter', title, axes, points, band: correlation.band }];
};

function relationFigures({ relations }: ResultOf<'evaluation-relationship'>): Figures {
  const { nameOf, common } = told(relations.flatMap(({ setups }) => setups.map(unscored)));
  return {
    tables: [
      {
        title: withCommon(
          'scores of one strategy against those of another, by trajectory (associations)',
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
        rows: relations.map(({ setups: [a, b], correlation, adjusted, withinProblems: within }) => {
          const cells = correlationCells(correlation);
          return [
            `${scoreText(a)} ~ ${scoreText(b)}`,
            nameOf(unscored(a)),
            ...cells.slice(0, 4),
            p(adjusted),
            within === null ? '–' : `${signed(within.value)} (${signedBounds(within)})`,
            ...cells.slice(4),
          ];
        }),
      },
    ],
    plots: relations.map(({ setups: [a, b], points, correlation }) => ({
      kind: 'scatter',
      title: setupText(a),
      axes: [scoreText(a), scoreText(b)],
      points,
      band: correlation.band,
    })),
  };
}

function attributionFigures(result: ResultOf<'causal-attribution'>): Figures {
  const { coefficients, logistic, references, strategy } = result;
  const nameOf = ({ feature, level }: { feature: string; level: string | null }): string =>
    level === null
      ? `${feature}, per unit`
      : `${feature} ${specText(level)}, not ${specText(references[feature]!)}`;
  const tables: AnalysisTable[] = [
    {
      title: `what ${specText(strategy)} is associated with`,
      heads: ['feature', ...ESTIMATE_HEADS],
      rows: coefficients.map((each) => [nameOf(each), ...estimateCells(each.estimate, each.claim)]),
    },
  ];
  if (logistic !== null)
    tables.push({
      title:
        `log-odds of a score above ${logistic.threshold}; ` +
        `loss ${decimal(logistic.loss.mean)} (${signedBounds(logistic.loss)})`,
      heads: ['feature', 'log-odds', '95 %', 'p'],
      rows: logistic.coefficients.map((each) => [
        nameOf(each),
        signed(each.estimate.value),
        signedBounds(each.estimate),
        p(each.estimate.p),
      ]),
    });
  return {
    notes: [
      ...notesOf(result),
      `${result.trajectories} trajectories of ${result.problems} problems, errors clustered by problem; R² ${decimal(result.rSquared)}`,
      ...Object.entries(result.leftOut).map(
        ([feature, why]) => `left out: ${feature}, because ${why}`,
      ),
    ],
    tables,
    plots: [
      {
        kind: 'forest',
        title: strategy,
        rows: coefficients.map((each) => ({ name: nameOf(each), ...each.estimate })),
      },
    ],
  };
}

function agreementFigures({ agreements }: ResultOf<'cross-setup-agreement'>): Figures {
  const { nameOf, common } = told(agreements.flatMap(({ setups }) => setups.map(unscored)));
  return {
    tables: [
      {
        title: withCommon('the same policy under two setups, by problem', common),
        heads: ['setups', ...ESTIMATE_HEADS, 'Pearson', 'single differences'],
        rows: agreements.map(({ setups: [a, b], correlation, difference, limits, claim }) => [
          `${scoreText(a)}: ${nameOf(unscored(a))} − ${nameOf(unscored(b))}`,
          ...estimateCells(difference, claim),
          signed(correlation.pearson?.value ?? null),
          signedBounds(limits),
        ]),
      },
    ],
    plots: agreements.map(({ setups: [a, b], points, correlation }) => ({
      kind: 'scatter',
      title: scoreText(a),
      axes: [setupText(a), setupText(b)],
      points,
      band: correlation.band,
    })),
  };
}

function effectFigures({ changes }: ResultOf<'training-causal-effect'>): Figures {
  const { nameOf, common } = told(changes.map(({ setup }) => setup));
  const heads = ['score', 'before', 'after', ...ESTIMATE_HEADS, 'seeds', 'over seeds', 'problems'];
  return {
    tables: [
      {
        title: withCommon('after minus before, by problem', common),
        heads,
        rows: changes.map(
          ({ setup, before, after, trained, problems, overProblems, overSeeds, claim }) => {
            const adjusted = overProblems.adjusted ?? overSeeds.adjusted;
            return [
              ...[nameOf(setup), signed(before), signed(after)],
              ...estimateCells({ ...overProblems, adjusted }, claim),
              ...[String(trained.length), signedBounds(overSeeds), String(problems)],
            ];
          },
        ),
      },
    ],
    plots: [
      {
        kind: 'forest',
        title: 'after minus before',
        rows: changes.map(({ setup, overProblems }) => ({ name: nameOf(setup), ...overProblems })),
      },
    ],
  };
}

const FIGURES: { readonly [Id in AnalyzerId]: (result: ResultOf<Id>) => Figures } = {
  'performance-comparison': ({ setups }) => ({
    tables: setups.flatMap(comparedTables),
    plots: setups.flatMap(comparedPlots),
  }),
  'evaluation-relationship': relationFigures,
  'causal-attribution': attributionFigures,
  'cross-setup-agreement': agreementFigures,
  'training-causal-effect': effectFigures,
  'trajectory-score': ({ setup, scores }) => ({
    tables: [
      {
        title: `${titleOf(setup)}, best first`,
        heads: ['trajectory', 'problem', 'score'],
        rows: scores.map(({ trajectoryId, problemId, score }) => [
          trajectoryId.slice(0, 16),
          problemId.slice(0, 16),
          signed(score),
        ]),
      },
    ],
  }),
  'token-level-evidence': ({ before, after, trajectoryId, pieces }) => ({
    notes: [`belief in option 0: ${decimal(before)} before, ${decimal(after)} after`],
    tables: [
      {
        title: `trajectory ${trajectoryId.slice(0, 16)}: what moved the belief most`,
        heads: ['word', 'place', 'change'],
        rows: pieces
          .map(({ text, evidence }, place) => ({ text: text.trim(), evidence, place }))
          .sort((a, b) => Math.abs(b.evidence) - Math.abs(a.evidence))
          .slice(0, 20)
          .map(({ text, evidence, place }) => [text, String(place + 1), signed(evidence)]),
      },
    ],
  }),
  'results-catalog': ({ results: count, runs, setups }) => ({
    notes: [`${count} results of ${runs} runs`],
    tables: setups.map(({ setup, results }) => ({
      title: titleOf(setup),
      heads: ['policy', 'run', 'seed', 'n', 'score', '95 %'],
      rows: results.map(({ policy, runId, seed, n, value, interval }) => [
        ...[policy, runId.slice(0, 8), seed, String(n), signed(value)],
        signedBounds(interval),
      ]),
    })),
  }),
};

export function analysisFigures(result: AnalysisResult): AnalysisFigures {
  const of = FIGURES[result.analyzer] as (result: AnalysisResult) => Figures;
  return { notes: notesOf(result), plots: [], ...of(result) };
}
