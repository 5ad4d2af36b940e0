/**
 * What makes a tiny run sick: one scenario at least for each criterion of the rules. A scenario has
 * parameters, of which one value is usual and others are drawn.
 */
import type { TrainerExecutor } from '../trainees/lora/executor.js';
import type { BreachSide, RuleId } from '../monitor/rules.js';
import { deriveSeed, Random } from '../random.js';
import type { MonitoredRunOptions } from './monitored-run.js';
import { DEAD_MODULES } from './scenario-model.js';

/** A run without its seed, rules and policy. */
export type SickOptions = Omit<MonitoredRunOptions, 'seed' | 'rules' | 'policy' | 'log'>;

interface Range {
  readonly usual: number;
  readonly low: number;
  readonly high: number;
  readonly scale: 'linear' | 'log' | 'whole';
}
const range =
  (scale: Range['scale']) =>
  (usual: number, low: number, high: number): Range => ({ usual, low, high, scale });
const [linear, log, whole] = [range('linear'), range('log'), range('whole')];

function drawFrom(random: Random, { low, high, scale }: Range): number {
  if (scale === 'whole') return random.nextInteger(low, high);
  const part = random.nextDouble();
  // four digits: what a person can write down
  return Number(
    (scale === 'log' ? low * (high / low) ** part : low + (high - low) * part).toPrecision(4),
  );
}

export interface Scenario {
  readonly id: string;
  readonly name: string;
  readonly rule: RuleId;
  readonly side: Exclude<BreachSide, 'none'>;
  /** As `liveness` calls it. */
  readonly criterion: string;
  readonly parameters: Readonly<Record<string, Range>>;
  readonly options: (values: Readonly<Record<string, number>>) => SickOptions;
}

/** Checks that `options` reads only parameters that there are. */
const scenario = <P extends Readonly<Record<string, Range>>>(
  description: Omit<Scenario, 'parameters' | 'options'> & {
    readonly parameters: P;
    readonly options: (values: { readonly [name in keyof P]: number }) => SickOptions;
  },
): Scenario => description as unknown as Scenario;

type Before = NonNullable<MonitoredRunOptions['before']>;
const once =
  (iteration: number, make: (run: Parameters<Before>[1]) => unknown): Before =>
  (n, run) =>
    n === iteration ? make(run) : undefined;
const multiplyRate = ({ executor }: { executor: TrainerExecutor }, factor: number) =>
  executor.execute({
    op: 'set_lr',
    from: executor.inForce.learningRate,
    to: Number((executor.inForce.learningRate * factor).toPrecision(6)),
  });

export const SCENARIOS: readonly Scenario[] = [
  scenario({
    id: 'rate-times-20',
    name: 'a learning rate times 20',
    rule: 'R1',
    side: 'high',
    criterion: 'update ratio too high',
    parameters: { rate: log(1e-3, 7e-4, 1.4e-3), factor: log(20, 15, 28), at: whole(4, 3, 5) },
    options: ({ rate, factor, at }) => ({
      noise: 0,
      learningRate: rate,
      iterations: 14,
      before: once(at, (run) => multiplyRate(run, factor)),
    }),
  }),
  scenario({
    id: 'rate-tiny',
    name: 'a learning rate of 2e-6',
    rule: 'R1',
    side: 'low',
    criterion: 'update ratio too low',
    parameters: { rate: log(2e-6, 1e-6, 3e-6), symbols: whole(24, 20, 28) },
    options: ({ rate, symbols }) => ({ noise: 0, learningRate: rate, symbols, iterations: 8 }),
  }),
  scenario({
    id: 'policy-shift',
    name: 'iterations that move the policy too far',
    rule: 'R1',
    side: 'high',
    criterion: 'KL',
    parameters: { rate: log(2.3e-3, 2e-3, 2.6e-3), noise: linear(0.35, 0.3, 0.4) },
    options: ({ rate, noise }) => ({
      noise,
      symbols: 16,
      learningRate: rate,
      measuresShift: true,
      iterations: 12,
    }),
  }),
  scenario({
    id: 'rate-shakes',
    name: 'a rate that shakes a fifth of wrong labels',
    rule: 'R1',
    side: 'plateau',
    criterion: 'plateau',
    parameters: {
      noise: linear(0.2, 0.15, 0.25),
      warmup: whole(160, 140, 180),
      rate: log(2e-3, 1.6e-3, 2.5e-3),
    },
    options: ({ noise, warmup, rate }) => ({
      noise,
      symbols: 16,
      warmup,
      learningRate: rate,
      iterations: 8,
    }),
  }),
  scenario({
    id: 'micro-batches-of-one',
    name: 'micro-batches of one with half of the labels wrong',
    rule: 'R2',
    side: 'high',
    criterion: 'noise scale too high',
    parameters: { noise: linear(0.5, 0.45, 0.6), rate: log(1e-3, 8e-4, 1.2e-3) },
    options: ({ noise, rate }) => ({
      noise,
      symbols: 16,
      batchSize: 8,
      microBatch: 1,
      learningRate: rate,
      iterations: 16,
    }),
  }),
  scenario({
    id: 'batch-agrees',
    name: 'a batch of 192 that agrees with itself',
    rule: 'R2',
    side: 'low',
    criterion: 'noise scale too low',
    parameters: { batch: whole(4, 3, 5), rate: log(5e-4, 4e-4, 6e-4) },
    options: ({ batch, rate }) => ({
      noise: 0,
      batchSize: 48 * batch,
      microBatch: 48,
      maxBatchSize: 256,
      learningRate: rate,
      warmup: 4,
      stepsEach: 4,
      iterations: 8,
    }),
  }),
  scenario({
    id: 'noise-by-heart',
    name: 'eight sequences of noise, again and again',
    rule: 'R3',
    side: 'plateau',
    criterion: 'no gain',
    parameters: { fixed: whole(8, 6, 10), rate: log(2e-3, 1.6e-3, 2.5e-3) },
    options: ({ fixed, rate }) => ({ noise: 1, fixed, learningRate: rate, iterations: 12 }),
  }),
  scenario({
    id: 'rank-1',
    name: 'rank 1',
    rule: 'R4',
    side: 'plateau',
    criterion: 'full and flat',
    parameters: {
      symbols: whole(32, 30, 34),
      warmup: whole(64, 56, 72),
      rate: log(1e-3, 9e-4, 1.2e-3),
    },
    options: ({ symbols, warmup, rate }) => ({
      noise: 0,
      symbols,
      warmup,
      lora: { rank: 1, alpha: 4 },
      learningRate: rate,
      iterations: 18,
    }),
  }),
  scenario({
    id: 'dead-directions',
    name: 'an adapter with dead directions',
    rule: 'R5',
    side: 'high',
    criterion: 'dormant directions',
    parameters: {
      module: whole(2, 0, DEAD_MODULES.length - 1),
      directions: whole(3, 2, 3),
      rate: log(1e-3, 8e-4, 1.2e-3),
    },
    options: ({ module, directions, rate }) => ({
      noise: 0,
      dead: { module: DEAD_MODULES[module]!, directions },
      learningRate: rate,
      iterations: 10,
    }),
  }),
  scenario({
    id: 'module-shrunk',
    name: 'a module scaled to a hundred-thousandth',
    rule: 'R6',
    side: 'low',
    criterion: 'vanishing gradient',
    parameters: {
      factor: log(1e-5, 5e-6, 2e-5),
      layer: whole(0, 0, 1),
      rate: log(1.5e-3, 1.2e-3, 1.8e-3),
    },
    options: ({ factor, layer, rate }) => ({
      noise: 0,
      warmup: 0,
      learningRate: rate,
      iterations: 10,
      before: once(0, ({ trainer }) => trainer.rescale(`blk.${layer}.attn_v`, factor)),
    }),
  }),
  scenario({
    id: 'rate-times-50',
    name: 'a learning rate times 50',
    rule: 'R7',
    side: 'high',
    criterion: 'gradient over its median',
    parameters: { rate: log(2e-3, 1.5e-3, 1.8e-3), factor: log(50, 42, 52), at: whole(6, 6, 7) },
    options: ({ rate, factor, at }) => ({
      noise: 0,
      learningRate: rate,
      iterations: 16,
      before: once(at, (run) => multiplyRate(run, factor)),
    }),
  }),
  scenario({
    id: 'labels-spoilt',
    name: 'nearly all labels wrong from one iteration on',
    rule: 'R7',
    side: 'high',
    criterion: 'gradient outside its past',
    parameters: { rate: log(2e-4, 1.5e-4, 3e-4), noise: linear(1, 0.93, 1), at: whole(7, 7, 8) },
    options: ({ rate, noise, at }) => ({
      noise: 0.25,
      warmup: 96,
      batchSize: 48,
      learningRate: rate,
      maxNorm: 100,
      stepsEach: 4,
      iterations: 16,
      before: once(at, ({ spoil }) => spoil(noise)),
    }),
  }),
  scenario({
    id: 'bound-lowered',
    name: 'a clipping bound below every gradient',
    rule: 'R7',
    side: 'high',
    criterion: 'clipping',
    parameters: { rate: log(1e-3, 8e-4, 1.2e-3), part: linear(0.3, 0.1, 0.5), at: whole(5, 4, 6) },
    options: ({ rate, part, at }) => ({
      noise: 0.2,
      learningRate: rate,
      maxNorm: 100,
      iterations: 12,
      before: once(at, ({ executor, trainer }) =>
        executor.execute({
          op: 'set_clip',
          maxNorm: Number((trainer.stats!.gradNorm * part).toPrecision(4)),
        }),
      ),
    }),
  }),
  scenario({
    id: 'rewards-overflow',
    name: 'rewards of 3e38',
    rule: 'R7',
    side: 'nonfinite',
    criterion: 'not finite',
    parameters: { at: whole(3, 2, 4), rate: log(1e-3, 8e-4, 1.2e-3) },
    options: ({ at, rate }) => ({
      noise: 0,
      learningRate: rate,
      iterations: 8,
      before: (n, { poison }) => poison(n === at ? 3e38 : null),
    }),
  }),
];

/** The scenario with its usual parameters. */
export const usualOptions = ({ parameters, options }: Scenario): SickOptions =>
  options(Object.fromEntries(Object.entries(parameters).map(([name, { usual }]) => [name, usual])));

/** What a drawn scenario is for: a table is fitted on the first, reported on the second. */
export const PURPOSES = ['training', 'held-out', 'fresh'] as const;
export type Purpose = (typeof PURPOSES)[number];

/** A scenario with parameters and a seed of its own. */
export interface ScenarioDraw {
  readonly scenario: Scenario;
  readonly purpose: Purpose;
  readonly index: number;
  readonly values: Readonly<Record<string, number>>;
  readonly seed: bigint;
  readonly options: SickOptions;
}

/** @param seed of the bank: 0 for all that is published */
export function drawScenario(
  of: Scenario,
  purpose: Purpose,
  index: number,
  seed = 0n,
): ScenarioDraw {
  const random = new Random(
    deriveSeed({
      runSeed: seed,
      purpose: `scenario ${purpose}`,
      iteration: index,
      problemId: of.id,
      sample: 0,
    }),
  );
  const values = Object.fromEntries(
    Object.entries(of.parameters).map(([name, each]) => [name, drawFrom(random, each)]),
  );
  return {
    scenario: of,
    purpose,
    index,
    values,
    seed: random.nextUint64(),
    options: of.options(values),
  };
}
