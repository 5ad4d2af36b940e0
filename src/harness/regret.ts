/**
 * Scores of answers by what came of them. Regret is 0 for the best answer of a draw and 1 for the
 * worst one.
 */
import { pairedBootstrap, type PairedDifference } from '../statistics/index.js';
import { mean } from '../statistics/descriptive.js';
import type { MeasuredDraw } from './bank.js';
import { isDeferral, type Outcome } from './consequences.js';
import { SCENARIOS } from './scenarios.js';

/** With fewer nats between the best and the worst answer, it does not matter which is given. */
export const LEAST_SPREAD = 1e-3;

export type Horizon = 'end' | 'early';

export interface Regrets {
  /** By option, in [0, 1]; null where the answers are alike. */
  readonly byOption: ReadonlyMap<string, number> | null;
  /** The same in nats. */
  readonly nats: ReadonlyMap<string, number>;
  readonly spread: number;
}

/** Returns null where the scenario's rule did not fire. */
export function regretsOf(
  { firing, outcomes }: Pick<MeasuredDraw, 'firing' | 'outcomes'>,
  horizon: Horizon = 'end',
): Regrets | null {
  if (firing === null) return null;
  const lossOf = ({ loss, early }: Outcome): number | null => (horizon === 'end' ? loss : early);
  const finite = [...outcomes.values()].map(lossOf).filter((loss) => loss !== null);
  const [best, worst] = [Math.min(...finite), Math.max(...finite)];
  // weights that are broken are as bad as the worst that is finite
  const nats = new Map(
    [...outcomes].map(([option, each]) => [option, (lossOf(each) ?? worst) - best] as const),
  );
  const spread = worst - best;
  const matters = finite.length > 0 && spread >= LEAST_SPREAD;
  return {
    byOption: matters ? new Map([...nats].map(([option, x]) => [option, x / spread])) : null,
    nats,
    spread: finite.length > 0 ? spread : 0,
  };
}

/** `R1 high`, as a table names it. */
export const rowOf = (scenario: string): string => {
  const { rule, side } = SCENARIOS.find(({ id }) => id === scenario)!;
  return `${rule} ${side}`;
};

export interface OptionRegret {
  readonly option: string;
  /** Mean regret over the draws in which it was on the menu. */
  readonly regret: number;
  readonly draws: number;
}

/** Of each rule and side the options by their mean regret, the least first. */
export function regretTable(draws: readonly MeasuredDraw[]): Map<string, OptionRegret[]> {
  const rows = new Map<string, Map<string, number[]>>();
  const counted = new Map<string, number>();
  for (const draw of draws) {
    const regrets = regretsOf(draw)?.byOption ?? null;
    if (regrets === null) continue;
    const name = rowOf(draw.scenario);
    counted.set(name, (counted.get(name) ?? 0) + 1);
    const row = rows.get(name) ?? new Map<string, number[]>();
    rows.set(name, row);
    for (const [option, regret] of regrets) row.set(option, [...(row.get(option) ?? []), regret]);
  }
  return new Map(
    [...rows]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, row]) => [
        name,
        [...row]
          // what was hardly ever possible has hardly been measured
          .filter(([, regrets]) => 2 * regrets.length >= counted.get(name)!)
          .map(([option, regrets]) => ({ option, regret: mean(regrets), draws: regrets.length }))
          // of deferrals, which are alike, the longest: it is the least broken promise
          .sort(
            (a, b) =>
              a.regret - b.regret ||
              Number(isDeferral(a.option)) - Number(isDeferral(b.option)) ||
              (a.option < b.option ? 1 : -1),
          ),
      ]),
  );
}

/** For each rule and side the option of least mean regret. */
export const choicesOfTable = (draws: readonly MeasuredDraw[]): Record<string, string> =>
  Object.fromEntries(
    [...regretTable(draws)].flatMap(([row, [least]]) =>
      least === undefined ? [] : [[row, least.option]],
    ),
  );

/** Regret of one decider's answers, by draw; null where the answers are alike. */
export interface Answered {
  readonly scenario: string;
  readonly regret: number | null;
}

/**
 * Mean over scenarios of regret, each draw paired with the same draw of the other decider.
 * @returns null where there is nothing to compare
 */
export function pairedRegret(
  before: readonly Answered[],
  after: readonly Answered[],
  seed = 38n,
): PairedDifference | null {
  const pairs = before.flatMap(({ scenario, regret }, i) => {
    const other = after[i]!.regret;
    return regret === null || other === null
      ? []
      : [{ stratum: scenario, before: [regret], after: [other] }];
  });
  return pairs.length === 0 ? null : pairedBootstrap(pairs, { seed });
}
