/**
 * Deciders next to each other on measured draws: the regret of their answer to the first firing,
 * and what comes of letting them decide a whole run. Each line of the file is one answer or one
 * run.
 */
import { z } from 'zod';
import type { ProcessAudit } from '../judge/obligations.js';
import { scoreProcess, type ProcessScore } from '../judge/scores.js';
import { clusterBootstrap, type Interval, type PairedDifference } from '../statistics/index.js';
import { mean } from '../statistics/descriptive.js';
import type { Arm } from './arms.js';
import { keyOf, type MeasuredDraw } from './bank.js';
import { choicesOf } from './consequences.js';
import { DurableLines, readLinesOf } from './durable-lines.js';
import { playDraw, pooledAudit } from './play.js';
import { pairedRegret, regretsOf, type Answered, type Horizon } from './regret.js';
import { drawScenario, PURPOSES, SCENARIOS, type ScenarioDraw } from './scenarios.js';

const place = {
  decider: z.string(),
  /** Of an arm. */
  table: z.string().default(''),
  scenario: z.string(),
  purpose: z.enum(PURPOSES),
  index: z.int().min(0),
};
const cost = { tokens: z.number(), seconds: z.number() };
const line = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('answer'),
    ...place,
    option: z.string().nullable(),
    source: z.string(),
    ...cost,
  }),
  z.object({
    kind: z.literal('play'),
    ...place,
    loss: z.number().nullable(),
    audit: z.custom<ProcessAudit>((value) => typeof value === 'object' && value !== null),
    sources: z.record(z.string(), z.number()),
    refused: z.number(),
    ...cost,
  }),
]);
type Line = z.output<typeof line>;
type Answer = Extract<Line, { kind: 'answer' }>;
type Play = Extract<Line, { kind: 'play' }>;

export interface ComparisonOptions {
  readonly file: string;
  readonly draws: readonly MeasuredDraw[];
  readonly arms: readonly Arm[];
  /** Also plays whole runs. */
  readonly plays: boolean;
  /** Of the bank. Default 0. */
  readonly seed?: bigint;
  readonly signal?: AbortSignal;
  readonly onDone?: (done: number, total: number) => void;
}

const nameOf = (kind: Line['kind'], { name, table }: Pick<Arm, 'name' | 'table'>): string =>
  `${kind} ${name} ${table} `;

const drawnAgain = ({ scenario, purpose, index }: MeasuredDraw, seed: bigint): ScenarioDraw =>
  drawScenario(SCENARIOS.find(({ id }) => id === scenario)!, purpose, index, seed);

/**
 * Asks what the file does not hold yet.
 * @throws IsoproError BANK_MISMATCH, WRITE_FAILED, ABORTED, and what deciders throw as they open
 */
export async function askDeciders(options: ComparisonOptions): Promise<void> {
  const { file, draws, arms, plays, seed = 0n, signal, onDone } = options;
  const known = new Set(
    readLinesOf(file, line).map(
      ({ decider: name, ...each }) => nameOf(each.kind, { ...each, name }) + keyOf(each),
    ),
  );
  using lines = new DurableLines<Line>(file);
  const asked = draws.filter(({ firing }) => firing !== null);
  let done = 0;
  for (const measured of asked) {
    const draw = drawnAgain(measured, seed);
    const at = { scenario: measured.scenario, purpose: measured.purpose, index: measured.index };
    const missing = (kind: Line['kind']): Arm[] =>
      arms.filter((arm) => !known.has(nameOf(kind, arm) + keyOf(at)));
    const answering = missing('answer');
    if (answering.length > 0) {
      const policies = [];
      for (const arm of answering) policies.push(await arm.open(draw.seed));
      const choices = await choicesOf(draw, measured.firing!, policies, signal);
      for (const [i, choice] of choices.entries()) {
        const { name: decider, table } = answering[i]!;
        lines.append({ kind: 'answer', decider, table, ...at, ...choice });
      }
    }
    for (const arm of plays ? missing('play') : []) {
      const played = await playDraw(draw, await arm.open(draw.seed), signal);
      lines.append({
        kind: 'play',
        decider: arm.name,
        table: arm.table,
        ...at,
        ...played,
        sources: { ...played.sources },
      });
    }
    onDone?.(++done, asked.length);
  }
}

export interface DeciderFigures {
  readonly decider: string;
  /** First answers, and those of them whose draw has answers that differ. */
  readonly answers: number;
  readonly scored: number;
  /** Mean over scenarios of the regret of the first answer, in [0, 1], by horizon. */
  readonly regret: Readonly<Record<Horizon, number | null>>;
  /** Its difference from the first decider's, paired by draw. */
  readonly difference: Readonly<Record<Horizon, PairedDifference | null>>;
  /** Mean regret of the first answer in nats. */
  readonly nats: number | null;
  /** First answers by who gave them. */
  readonly sources: Readonly<Record<string, number>>;
  /** Mean tokens and seconds of a first answer. */
  readonly tokens: number;
  readonly seconds: number;
  /** Of whole runs; null where none were played. */
  readonly plays: {
    readonly runs: number;
    readonly loss: number | null;
    /** Of the final loss to the first decider's, nats, paired by draw; a scenario is a cluster. */
    readonly difference: (Interval & { readonly mean: number }) | null;
    /** Weights that were broken at the end. */
    readonly broken: number;
    readonly process: ProcessScore;
    readonly sources: Readonly<Record<string, number>>;
    readonly refused: number;
  } | null;
}

/** A decider that was asked. */
export type Compared = Pick<Arm, 'name' | 'table'>;

const HORIZONS: readonly Horizon[] = ['end', 'early'];

function counted(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const each of all)
    for (const [name, n] of Object.entries(each)) sum[name] = (sum[name] ?? 0) + n;
  return sum;
}

/** Mean over scenarios, each of which counts alike, however many of its draws can be scored. */
function meanOverScenarios(answered: readonly Answered[]): number | null {
  const by = new Map<string, number[]>();
  for (const { scenario, regret } of answered)
    if (regret !== null) by.set(scenario, [...(by.get(scenario) ?? []), regret]);
  return by.size === 0 ? null : mean([...by.values()].map(mean));
}

/**
 * Figures of each decider. Paired differences are to the first one.
 * @throws IsoproError BANK_MISMATCH
 */
export function decidersCompared(
  file: string,
  draws: readonly MeasuredDraw[],
  deciders: readonly Compared[],
): DeciderFigures[] {
  const lines = readLinesOf(file, line);
  const fired = draws.filter(({ firing }) => firing !== null);
  const of = <K extends Line['kind']>(kind: K, { name, table }: Compared) => {
    const own = new Map(
      lines
        .filter((each) => each.kind === kind && each.decider === name && each.table === table)
        .map((each) => [keyOf(each), each as Extract<Line, { kind: K }>]),
    );
    return (draw: MeasuredDraw): Extract<Line, { kind: K }> | undefined => own.get(keyOf(draw));
  };
  const regretOf = (
    draw: MeasuredDraw,
    answer: Answer | undefined,
    horizon: Horizon,
  ): Answered => ({
    scenario: draw.scenario,
    regret:
      answer === undefined || answer.option === null
        ? null
        : (regretsOf(draw, horizon)!.byOption?.get(answer.option) ?? null),
  });
  const first = deciders[0]!;
  return deciders.map((compared): DeciderFigures => {
    const decider = compared.name;
    const [answerOf, base] = [of('answer', compared), of('answer', first)];
    const [playOf, basePlay] = [of('play', compared), of('play', first)];
    const own = fired.filter((draw) => answerOf(draw) !== undefined);
    const answers = own.map((draw) => answerOf(draw)!);
    const at = (horizon: Horizon) => own.map((draw) => regretOf(draw, answerOf(draw), horizon));
    const figures = <V>(value: (horizon: Horizon) => V) =>
      Object.fromEntries(HORIZONS.map((horizon) => [horizon, value(horizon)])) as Record<
        Horizon,
        V
      >;
    const nats = own.flatMap((draw) => {
      const option = answerOf(draw)!.option;
      return option === null ? [] : [regretsOf(draw)!.nats.get(option)!];
    });
    const played = fired.filter((draw) => playOf(draw) !== undefined);
    return {
      decider,
      answers: answers.length,
      scored: at('end').filter(({ regret }) => regret !== null).length,
      regret: figures((horizon) => meanOverScenarios(at(horizon))),
      difference: figures((horizon) =>
        compared === first
          ? null
          : pairedRegret(
              own.map((draw) => regretOf(draw, base(draw), horizon)),
              at(horizon),
            ),
      ),
      nats: nats.length === 0 ? null : mean(nats),
      sources: counted(answers.map(({ source }) => ({ [source]: 1 }))),
      tokens: answers.length === 0 ? 0 : mean(answers.map(({ tokens }) => tokens)),
      seconds: answers.length === 0 ? 0 : mean(answers.map(({ seconds }) => seconds)),
      plays:
        played.length === 0
          ? null
          : playFigures(played, playOf, compared === first ? null : basePlay),
    };
  });
}

function playFigures(
  draws: readonly MeasuredDraw[],
  playOf: (draw: MeasuredDraw) => Play | undefined,
  base: ((draw: MeasuredDraw) => Play | undefined) | null,
): NonNullable<DeciderFigures['plays']> {
  const plays = draws.map((draw) => playOf(draw)!);
  const losses = plays.flatMap(({ loss }) => (loss === null ? [] : [loss]));
  const pairs = draws.flatMap((draw) => {
    const [was, is] = [base?.(draw)?.loss ?? null, playOf(draw)!.loss];
    return was === null || is === null ? [] : [{ cluster: draw.scenario, value: is - was }];
  });
  return {
    runs: plays.length,
    loss: losses.length === 0 ? null : mean(losses),
    difference:
      pairs.length === 0
        ? null
        : clusterBootstrap(
            pairs.map(({ value }) => value),
            pairs.map(({ cluster }) => cluster),
            { seed: 38n },
          ),
    broken: plays.length - losses.length,
    process: scoreProcess(pooledAudit(plays.map(({ audit }) => audit))),
    sources: counted(plays.map(({ sources }) => sources)),
    refused: plays.reduce((sum, { refused }) => sum + refused, 0),
  };
}
