/**
 * Measures whether a trajectory makes the outcome more likely to a forecaster, as true claims do.
 */
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { mean } from '../../statistics/index.js';
import { questionText } from '../modes/asking.js';
import { requireCapability, type Message, type Reasoner } from '../reasoner.js';
import type { Problem } from '../problem.js';
import { meanScore, SkipCount, type Groups, type Score } from '../score.js';
import { scoreTogether } from '../prefix-scoring.js';
import { textOf, type Trajectory } from '../trajectory.js';
import { uplift } from './mutual-predictability.js';
import type { ForecastTemplate } from './strategy.js';
import type { Observation } from './worlds.js';

/** Replaces the claims, so that the two forecasts differ only in them. */
const NOTHING = 'I have nothing to report.';

/** Messages that a forecaster reads before the outcome. */
export function forecastMessages(
  template: ForecastTemplate,
  problem: Problem,
  report: string,
  question: string,
): Message[] {
  const asked = questionText(problem);
  switch (template) {
    case 'vanilla':
      return [
        { role: 'user', content: asked },
        { role: 'assistant', content: report },
        { role: 'user', content: question },
      ];
    case 'rephrase':
      return [
        {
          role: 'user',
          content:
            `Somebody was asked:\n${asked}\n\nTheir notes, in no particular style:\n${report}\n\nUse what you find sound in ` +
            `them.\n\n${question}`,
        },
      ];
    case 'toolcall':
      return [
        {
          role: 'user',
          content: `${asked}\n\nYou may ask the tool "report" for what is known about this.`,
        },
        { role: 'assistant', content: 'report()' },
        { role: 'tool', content: report },
        { role: 'user', content: question },
      ];
  }
}

/** Log-probabilities of an outcome's tokens, nats. */
export interface OutcomeForecast {
  /** With the trajectory's text before it. */
  readonly conditional: readonly number[];
  readonly base: readonly number[];
}

/**
 * @param known base forecasts of the same forecaster, template and problem, by question, to be used
 *   and added to
 * @returns a reason in place of a forecast that could not be made
 * @throws IsoproError BACKEND_INCAPABLE; errors of the forecaster except
 *   CONTEXT_OVERFLOW, which is a reason
 */
export async function forecastOutcomes(
  forecaster: Reasoner,
  template: ForecastTemplate,
  problem: Problem,
  of: Trajectory,
  observations: readonly Observation[],
  {
    signal,
    known = new Map(),
  }: { readonly signal?: AbortSignal; readonly known?: Map<string, readonly number[]> } = {},
): Promise<(OutcomeForecast | string)[]> {
  requireCapability(forecaster, 'logprobs');
  const forecast = async (
    report: string,
    asked: readonly Observation[],
  ): Promise<(readonly number[] | null)[]> => {
    const targets = asked.map(({ question, outcome }) => ({
      prefix: forecaster.promptIds(forecastMessages(template, problem, report, question)),
      target: forecaster.textIds(outcome),
    }));
    try {
      return (await scoreTogether(forecaster, targets, signal && { signal })).map((each) =>
        Array.from(each),
      );
    } catch (error) {
      if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') throw error;
      if (asked.length === 1) return [null];
      // one that does not fit ends its own forecast, and nobody else's
      const alone: (readonly number[] | null)[] = [];
      for (const each of asked) alone.push(...(await forecast(report, [each])));
      return alone;
    }
  };
  const unknown = observations.filter(({ question }) => !known.has(question));
  for (const [i, base] of (await forecast(NOTHING, unknown)).entries())
    if (base !== null) known.set(unknown[i]!.question, base);
  const asked = observations.filter(({ question }) => known.has(question));
  const found = new Map(
    (await forecast(textOf(of), asked)).map((conditional, i) => [asked[i]!, conditional]),
  );
  return observations.map((observation) => {
    const [conditional, base] = [found.get(observation) ?? null, known.get(observation.question)];
    return conditional === null || base === undefined ? 'context overflow' : { conditional, base };
  });
}

/**
 * Mean uplift over the outcomes of each trajectory, nats of each of their tokens or of a whole one;
 * higher is better.
 */
export function worldInTheLoop(
  forecasts: ReadonlyMap<string, readonly (OutcomeForecast | string)[]>,
  per: 'token' | 'outcome',
  groups?: Groups,
): Score {
  const [perTrajectory, skipped] = [new Map<string, number>(), new SkipCount()];
  for (const [trajectoryId, made] of forecasts) {
    const values: number[] = [];
    for (const each of made) {
      if (typeof each === 'string') skipped.add(each);
      else if (each.base.length === 0) skipped.add('the outcome has no tokens');
      else if (each.base.includes(-Infinity)) skipped.add('the forecaster never says the outcome');
      else if (each.conditional.includes(-Infinity))
        skipped.add('the forecaster never says the outcome after the claims');
      else {
        const { total, perToken } = uplift(each.conditional, each.base);
        values.push(per === 'token' ? perToken : total);
      }
    }
    if (values.length > 0) perTrajectory.set(trajectoryId, mean(values));
    else skipped.add('no outcome counts');
  }
  return meanScore('higher', perTrajectory, skipped, given({ groups }));
}
