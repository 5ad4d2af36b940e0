/** A run as the page shows it. */
import {
  findingOf,
  testComparison,
  testFinding,
  type Comparison,
} from '../../run-folder/comparison.js';
import {
  devEvaluations,
  inOrder,
  testEvaluation,
  type RunRecord,
} from '../../run-folder/read-run.js';
import { byPart, readWrittenSettings } from '../../run-folder/written-settings.js';
import { conclusion } from '../../text/conclusion.js';
import { eventsOf } from '../../report/course-sections.js';
import { label } from '../../text/hostile-text.js';
import type { RunSummary } from '../../lookup/run-list.js';
import { wilsonInterval, type Summary } from '../../statistics/index.js';
import type { PairedTest, Rate, RunDetail, RunLine, TierRate } from './shapes.js';

/** Limits of the charts and lists of the page. */
const STEPS = 2000;
const EVENTS = 1000;
const SHORT = 80;

const isoTime = (us: number): string => new Date(us / 1000).toISOString();

export const rateOf = ({ mean, low, high, n }: Rate): Rate => ({ mean, low, high, n });

const ofCounts = (passed: number, decided: number): Rate => ({
  ...wilsonInterval(passed, decided),
  mean: decided === 0 ? null : passed / decided,
  n: decided,
});

const ratesByTier = ({ byTier }: Summary, tiers: RunRecord['tiers']): TierRate[] =>
  inOrder(Object.keys(byTier), tiers).map((tier) => ({
    tier: label(tier, SHORT),
    ...rateOf(byTier[tier]!),
  }));

export const pairedOf = (
  { n, gained, lost, p, difference, byTier }: Comparison | Omit<Comparison, 'readings'>,
  tiers: RunRecord['tiers'],
): PairedTest => ({
  n,
  gained,
  lost,
  p,
  finding: findingOf({ difference, p }),
  difference: difference && { mean: difference.mean, low: difference.low, high: difference.high },
  byTier: inOrder(Object.keys(byTier), tiers).map((tier) => ({
    ...byTier[tier]!,
    tier: label(tier, SHORT),
  })),
});

export const lineOf = (name: string, { runId, state, reason, ...rest }: RunSummary): RunLine => ({
  name,
  runId,
  state,
  reason: reason === undefined ? null : label(reason, 400),
  model: rest.model === undefined ? null : label(rest.model, SHORT),
  task: rest.task === undefined ? null : label(rest.task, SHORT),
  seed: rest.seed ?? null,
  startedAt: rest.startedAt ?? null,
  iterations: rest.iterations ?? 0,
  before: rest.before ?? null,
  after: rest.after ?? null,
  pairedP: rest.pairedP ?? null,
  finding: rest.finding ?? null,
  n: rest.n ?? 0,
});

/** Evenly, the last one among them. */
const thinned = <T>(items: readonly T[], limit: number): readonly T[] =>
  items.length <= limit
    ? items
    : Array.from(
        { length: limit },
        (_, i) => items[Math.round(((i + 1) * items.length) / limit) - 1]!,
      );

export function detailOf(name: string, stamp: string, run: RunRecord): RunDetail {
  const { manifest, tiers, end, time } = run;
  const { model, task, settings } = manifest.start;
  const [before, after] = [
    testEvaluation(run, 'before')?.summary,
    testEvaluation(run, 'after')?.summary,
  ];
  const comparison = testComparison(run);
  const tested = inOrder(
    [...new Set([before, after].flatMap((each) => Object.keys(each?.byTier ?? {})))],
    tiers,
  );
  const tierRate = (summary: Summary | undefined, tier: string): Rate | null => {
    const found = summary?.byTier[tier];
    return found === undefined ? null : rateOf(found);
  };
  return {
    name,
    runId: manifest.runId,
    stamp,
    state: run.defects.length > 0 ? 'damaged' : end === null ? 'unfinished' : 'ended',
    model: label(model.name, SHORT),
    modelSha256: model.sha256,
    task: label(task.id, SHORT),
    seed: label(readWrittenSettings(settings).seed ?? '–', 20),
    startedAt: time && isoTime(time.first),
    lastAt: time && isoTime(time.last),
    conclusion: conclusion(run),
    stopped: end && label(end.stopped, 200),
    defects: run.defects.map((defect) => label(defect, 400)),
    tiers: tiers.map(({ id, title, trains }) => ({
      id: label(id, SHORT),
      title: label(title, SHORT),
      trains,
    })),
    before: before === undefined ? null : rateOf(before),
    after: after === undefined ? null : rateOf(after),
    testByTier: tested.map((tier) => ({
      tier: label(tier, SHORT),
      before: tierRate(before, tier),
      after: tierRate(after, tier),
    })),
    change: comparison && {
      ...pairedOf(comparison, tiers),
      finding: testFinding(run, comparison) ?? 'chance',
    },
    policies: Object.entries(run.policies).map(([policy, summary]) => ({
      name: label(policy, SHORT),
      ...rateOf(summary),
    })),
    dev: devEvaluations(run).map(({ iteration, summary }) => ({
      iteration,
      all: rateOf(summary),
      byTier: ratesByTier(summary, tiers),
    })),
    hits: [...run.rollouts]
      .sort(([a], [b]) => a - b)
      .map(([iteration, counts]) => {
        const byTier = inOrder([...counts.keys()], tiers).map((tier) => ({
          tier,
          ...counts.get(tier)!,
        }));
        const [passed, failed] = byTier.reduce(
          ([p, f], tier) => [p + tier.passed, f + tier.failed],
          [0, 0],
        );
        return {
          iteration,
          all: ofCounts(passed, passed + failed),
          byTier: byTier.map((each) => ({
            tier: label(each.tier, SHORT),
            ...ofCounts(each.passed, each.passed + each.failed),
          })),
        };
      }),
    buffer: run.iterations.map(({ iteration, buffer }) => ({
      iteration,
      byTier: Object.fromEntries(
        Object.entries(buffer).map(([tier, kept]) => [label(tier, SHORT), kept]),
      ),
    })),
    steps: thinned(
      run.steps.map(({ iteration, loss }, i) => ({ step: i + 1, iteration, loss })),
      STEPS,
    ),
    iterations: run.iterations.map(({ iteration, loss, learningRate, seconds, tokens }) => ({
      iteration,
      loss,
      learningRate,
      seconds,
      tokens,
    })),
    events: eventsOf(run)
      .slice(0, EVENTS)
      .map(({ iteration, what, text }) => ({
        iteration,
        what: label(what, SHORT),
        text: label(text, 300),
      })),
    layers: run.layers?.layers ?? [],
    adapter: run.submission?.adapter ?? null,
    end: end && {
      seconds: end.seconds,
      peakRssBytes: end.peakRssBytes,
      sampled: end.tokens.sampled,
      trained: end.tokens.trained,
    },
    rollouts: run.rolloutCount,
    settings: byPart(settings) as Readonly<Record<string, unknown>>,
  };
}
