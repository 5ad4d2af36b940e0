/** Whether what a policy said makes what came about more likely to a forecaster: claims that hold in the world do. */
import { IsoproError } from '../../errors.js';
import { mean } from '../../statistics/index.js';
import { questionText } from '../modes/asking.js';
import { requireCapability, type Message, type Policy } from '../policy.js';
import type { Problem } from '../problem.js';
import { meanScore, SkipCount, type Groups, type Score } from '../score.js';
import { textOf, type Trajectory } from '../trajectory.js';
import { uplift } from './mutual-predictability.js';
import type { ForecastTemplate } from './strategy.js';
import type { Observation } from './worlds.js';

/** Stands where the claims would, so that the two forecasts differ in them alone. */
const NOTHING = 'I have nothing to report.';

/** What a forecaster reads before the outcome. */
export function forecastMessages(template: ForecastTemplate, problem: Problem, report: string, question: string): Message[] {
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
        { role: 'user', content: `${asked}\n\nYou may ask the tool "report" for what is known about this.` },
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
 * @param known base forecasts of the same forecaster, template and problem, by question, to be used and added to
 * @returns a reason in place of a forecast that could not be made
 * @throws IsoproError BACKEND_INCAPABLE; of the forecaster, but for CONTEXT_OVERFLOW, which is a reason
 */
export async function forecastOutcomes(
  forecaster: Policy,
  template: ForecastTemplate,
  problem: Problem,
  of: Trajectory,
  observations: readonly Observation[],
  { signal, known = new Map() }: { readonly signal?: AbortSignal; readonly known?: Map<string, readonly number[]> } = {},
): Promise<(OutcomeForecast | string)[]> {
  requireCapability(forecaster, 'logprobs');
  const score = async (report: string, { question, outcome }: Observation): Promise<readonly number[]> => {
    const prefix = forecaster.promptIds(forecastMessages(template, problem, report, question));
    const [logprobs] = await forecaster.score(prefix, [forecaster.textIds(outcome)], signal && { signal });
    return Array.from(logprobs!);
  };
  const found: (OutcomeForecast | string)[] = [];
  for (const observation of observations) {
    try {
      const base = known.get(observation.question) ?? (await score(NOTHING, observation));
      known.set(observation.question, base);
      found.push({ conditional: await score(textOf(of), observation), base });
    } catch (error) {
      if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') throw error;
      found.push('context overflow');
    }
  }
  return found;
}

/** Mean uplift over the outcomes of each trajectory, nats of each of their tokens or of a whole one; higher is better. */
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
      else if (each.conditional.includes(-Infinity)) skipped.add('the forecaster never says the outcome after the claims');
      else {
        const { total, perToken } = uplift(each.conditional, each.base);
        values.push(per === 'token' ? perToken : total);
      }
    }
    if (values.length > 0) perTrajectory.set(trajectoryId, mean(values));
    else skipped.add('no outcome counts');
  }
  return meanScore('higher', perTrajectory, skipped, { ...(groups && { groups }) });
}
