/**
 * Beliefs in words, for policies without log-probabilities or to compare with: a judge reads a
 * reasoning, another policy or the one that reasoned, and says a number for each place of it
 * (reference, section 2.6). Said numbers are noisy, and noise in a belief lowers a martingale's
 * slope (section 4.2), so each is measured several times, with the options in both orders, and the
 * noise that is left is estimated. What cannot be read is counted and is never a number. A
 * reasoning may also state its beliefs itself.
 */
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { readProbability, statedBelief } from '../graders/belief-grader.js';
import type { Message, Reasoner } from '../reasoner.js';
import { swapped, type BinaryProblem } from '../problem.js';
import { seedFor } from '../seed.js';
import { requireAbout, type Trajectory } from '../trajectory.js';
import { orderAveraged, overWordings, type Belief, type BeliefSource } from './belief.js';
import type { BeliefSystem } from './readout.js';

/** `policy`: the belief of the reasoner at that place. `own`: the belief of the judge. */
export const STANDPOINTS = ['policy', 'own'] as const;
export type Standpoint = (typeof STANDPOINTS)[number];

export interface AskedOptions {
  readonly seed: bigint;
  /**
   * Each is a reply with the options in their order and one with them exchanged. Default 3; of one
   * no noise is known.
   */
  readonly measurements?: number;
  /** Default: policy. */
  readonly standpoint?: Standpoint;
  /**
   * Whether to keep system messages of the trajectory before the judge's question. Default: drop.
   */
  readonly beliefSystem?: BeliefSystem;
  /** Max tokens of each reply. Default 512. */
  readonly maxTokens?: number;
  /** Default 0.25; at 0 all measurements of one order are equal and show no noise. */
  readonly temperature?: number;
  readonly signal?: AbortSignal;
}

export const ASKED_FAILURES = [
  'no belief',
  'not a number',
  'out of range',
  'another number of beliefs',
] as const;
export type AskedFailure = (typeof ASKED_FAILURES)[number];
export type AskedReading =
  | { readonly belief: Belief; readonly measured: readonly number[]; readonly reason?: undefined }
  | { readonly belief: null; readonly reason: AskedFailure };

export interface AskedReadout {
  readonly trajectoryId: string;
  readonly problemId: string;
  /** Id of the model that was asked. */
  readonly policyId: string;
  readonly source: Exclude<BeliefSource, 'logprob'>;
  /** Before the first step, and after each. */
  readonly readings: readonly AskedReading[];
  /**
   * Estimated variance of the error of a reading, its mean over the readings; null where nothing
   * was measured twice.
   */
  readonly noiseVariance: number | null;
  /** Measurements that could not be read, by reason. */
  readonly failed: Readonly<Partial<Record<AskedFailure, number>>>;
  readonly sampledTokens: number;
}

const MARK = 'beliefs';
const OPENING = `\\${MARK}{`;

function question(
  { question: asked, options: [first, second] }: BinaryProblem,
  steps: readonly string[],
  standpoint: Standpoint,
): string {
  const parts = ['(nothing yet)', ...steps].map((step, i) => `[${i}] ${step}`).join('\n\n');
  const whose =
    standpoint === 'policy'
      ? `the writer holds “${first}” to be right`
      : `you hold “${first}” to be right`;
  const example = Array.from(
    { length: Math.min(steps.length + 1, 3) },
    (_, i) => ['0.5', '0.75', '0.2'][i],
  ).join(', ');
  return (
    `Somebody reasons about a question: ${asked}\n\nThe answer is “${first}” or “${second}”. ` +
    `What they wrote, in parts:\n\n${parts}\n\n` +
    `Estimate for each part how probable ${whose}, from 0 to 1, after reading up to the end of that part and no further; ` +
    `part 0 stands for the belief before anything was written. End your reply with ${OPENING}…} that holds ${steps.length + 1} ` +
    `numbers with commas between them, such as ${OPENING}${example}${steps.length > 2 ? ', …' : ''}}.`
  );
}

/** Probabilities at the end of a reply; exactly `count` are expected. */
function beliefsIn(text: string, count: number): readonly number[] | AskedFailure {
  const opened = text.lastIndexOf(OPENING);
  if (opened < 0) return 'no belief';
  const end = text.indexOf('}', opened);
  if (end < 0) return 'not a number';
  const numbers = text
    .slice(opened + OPENING.length, end)
    .split(',')
    .map(readProbability);
  if (numbers.length !== count) return 'another number of beliefs';
  const beliefs: number[] = [];
  for (const number of numbers) {
    if (!number.ok) return number.reason;
    beliefs.push(number.belief);
  }
  return beliefs;
}

function readingsOf(
  source: BeliefSource,
  measured: readonly (readonly number[])[],
  places: number,
  reason: AskedFailure,
): AskedReading[] {
  return Array.from({ length: places }, (_, place) => {
    const values = measured.map((beliefs) => beliefs[place]!);
    return values.length === 0
      ? { belief: null, reason }
      : { belief: { source, ...overWordings(values) }, measured: values };
  });
}

/** A mean's error is the square root of its variance. */
function noiseOf(readings: readonly AskedReading[]): number | null {
  const errors = readings.flatMap(({ belief }) =>
    belief?.error === undefined ? [] : [belief.error],
  );
  return errors.length === 0
    ? null
    : errors.reduce((sum, error) => sum + error ** 2, 0) / errors.length;
}

/**
 * Asks for the beliefs at all places in one reply. The source is `self` if the judge is the
 * reasoner.
 * @throws IsoproError INVALID_ARGUMENT where the trajectory is of another problem or there are no
 *   measurements; errors of the judge, such as CONTEXT_OVERFLOW
 */
export async function askBeliefs(
  judge: Reasoner,
  problem: BinaryProblem,
  of: Trajectory,
  options: AskedOptions,
): Promise<AskedReadout> {
  const {
    seed: runSeed,
    measurements = 3,
    standpoint = 'policy',
    beliefSystem = 'drop',
    maxTokens = 512,
    temperature,
    signal,
  } = options;
  requireAbout(of, problem);
  if (!Number.isSafeInteger(measurements) || measurements < 1)
    throw new IsoproError('INVALID_ARGUMENT', 'measurements: at least one is required');
  const source = judge.id === of.policyId ? 'self' : 'judge';
  const steps = of.steps.map(({ content }) => content);
  const places = steps.length + 1;
  const system = beliefSystem === 'keep' ? of.prompt.filter(({ role }) => role === 'system') : [];
  const failed = new Map<AskedFailure, number>();
  const measured: number[][] = [];
  let sampledTokens = 0;
  let calls = 0;
  const ask = async (about: BinaryProblem): Promise<readonly number[] | null> => {
    const asked: Message = { role: 'user', content: question(about, steps, standpoint) };
    const seed = seedFor(runSeed, 'truth belief', of.id, calls++);
    const how = { seed, maxTokens, ...given({ temperature, signal }) };
    const { text, tokenIds } = await judge.infer([...system, asked], how);
    sampledTokens += tokenIds.length;
    const beliefs = beliefsIn(text, places);
    if (typeof beliefs !== 'string') return beliefs;
    failed.set(beliefs, (failed.get(beliefs) ?? 0) + 1);
    return null;
  };
  for (let i = 0; i < measurements; i++) {
    const [inOrder, exchanged] = [await ask(problem), await ask(swapped(problem))];
    if (inOrder !== null && exchanged !== null)
      measured.push(inOrder.map((belief, place) => orderAveraged(belief, 1 - exchanged[place]!)));
  }
  const [reason = 'no belief'] = failed.keys();
  const readings = readingsOf(source, measured, places, reason);
  return {
    ...{ trajectoryId: of.id, problemId: problem.id, policyId: judge.id, source },
    ...{
      readings,
      noiseVariance: noiseOf(readings),
      failed: Object.fromEntries(failed),
      sampledTokens,
    },
  };
}

/**
 * The number that the reasoning itself states last, at each place; it is there or not, so that it
 * has no noise that could be estimated.
 * @throws IsoproError INVALID_ARGUMENT where the trajectory is of another problem
 */
export function statedBeliefs(problem: BinaryProblem, of: Trajectory): AskedReadout {
  requireAbout(of, problem);
  const failed = new Map<AskedFailure, number>();
  let last: AskedReading = { belief: null, reason: 'no belief' };
  const readings: AskedReading[] = [last];
  for (const { content, trainable } of of.steps) {
    const stated = statedBelief(content);
    if (trainable && stated.ok)
      last = { belief: { source: 'stated', p0: stated.belief }, measured: [stated.belief] };
    else if (trainable && !stated.ok && stated.reason !== 'no belief') {
      // what is broken takes back what was said before
      last = { belief: null, reason: stated.reason as AskedFailure };
      failed.set(last.reason, (failed.get(last.reason) ?? 0) + 1);
    }
    readings.push(last);
  }
  return {
    ...{ trajectoryId: of.id, problemId: problem.id, policyId: of.policyId, source: 'stated' },
    ...{ readings, noiseVariance: null, failed: Object.fromEntries(failed), sampledTokens: 0 },
  };
}
