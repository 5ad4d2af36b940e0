/**
 * Beliefs of a reasoner before the first step of a trajectory and after each step, read from its
 * log-probabilities without sampling. After a step, a probe branches off and asks for the answer.
 * The surface forms of both options are scored as exact token ids after the same prefix; then the
 * probe is discarded. All places of a trajectory take one call, which costs the text once plus the
 * tokens of the probes. Wordings of a probe have effects of their own, so there are three, and the
 * spread over them is the error of the belief.
 */
import { IsoproError } from '../../errors.js';
import { requireCapability, type BranchTarget, type Message, type Reasoner } from '../reasoner.js';
import type { BinaryProblem } from '../problem.js';
import { requireAbout, type Trajectory } from '../trajectory.js';
import { orderAveraged, overWordings, readBelief, type Belief, type BeliefPath } from './belief.js';

export const BELIEF_SYSTEMS = ['keep', 'drop'] as const;
/** Whether system messages of the trajectory are kept before the probe or dropped. */
export type BeliefSystem = (typeof BELIEF_SYSTEMS)[number];

/** Each names both options, in an order. */
export type Wording = (first: string, second: string) => string;

export const WORDINGS: readonly Wording[] = [
  (first, second) => `Of the two answers "${first}" and "${second}", the right one is:`,
  (first, second) => `Options: ${first} / ${second}. My answer:`,
  (first, second) => `To the question, ${first} or ${second}, I answer:`,
];

export interface ReadoutOptions {
  /** Default: keep. */
  readonly beliefSystem?: BeliefSystem;
  /** Default: WORDINGS. */
  readonly wordings?: readonly Wording[];
  readonly signal?: AbortSignal;
}

export const UNREADABLE = [
  'context overflow',
  'options begin alike',
  'an option has no tokens',
  'no probability for either option',
] as const;
export type UnreadableReason = (typeof UNREADABLE)[number];

/** A belief, or the reason why it cannot be read. */
export type ReadBelief =
  | { readonly belief: Belief; readonly byWording: readonly number[]; readonly reason?: undefined }
  | { readonly belief: null; readonly reason: UnreadableReason };

export interface Readout {
  readonly trajectoryId: string;
  readonly problemId: string;
  /** Id of the model that was read; it may differ from the reasoner. */
  readonly policyId: string;
  readonly beliefSystem: BeliefSystem;
  /** Before the first step, and after each. */
  readonly readings: readonly ReadBelief[];
  readonly tokens: {
    /** Tokens before the last probe, evaluated once. */
    readonly prefix: number;
    /** Prefix tokens after the first difference from the reasoned text; 0 if nothing is dropped. */
    readonly reread: number;
    /** Tokens of the probes and the forms after them, as submitted. */
    readonly probes: number;
    /** Sampled tokens, for stated beliefs. */
    readonly sampled?: number;
  };
}

const unreadable = (reason: UnreadableReason): ReadBelief => ({ belief: null, reason });

/**
 * Surface forms of an option: as given, in lower case, in upper case, capitalised; each with and
 * without a leading space.
 */
function surfaceForms(option: string): string[] {
  const given = option.trim();
  const [lower, upper] = [given.toLowerCase(), given.toUpperCase()];
  const [initial = ''] = given;
  const cased = [given, lower, upper, initial.toUpperCase() + lower.slice(initial.length)];
  return [...new Set(cased)].flatMap((form) => [form, ` ${form}`]);
}

/**
 * The forms of both options. One that both could be meant by belongs to the option that is given
 * so, else to neither.
 */
export function formsOf([first, second]: readonly [string, string]): [string[], string[]] {
  const own = (option: string, other: string): string[] =>
    surfaceForms(option).filter(
      (form) => form.trim() === option.trim() || !surfaceForms(other).includes(form),
    );
  return [own(first, second), own(second, first)];
}

const beginsWith = (ids: ArrayLike<number>, start: ArrayLike<number>): boolean =>
  start.length <= ids.length && Array.from(start).every((id, i) => ids[i] === id);

/**
 * Forms of which no other is a prefix: a longer form contains the shorter one, which must count
 * once.
 */
function distinct(forms: readonly number[][]): number[][] {
  return forms.filter(
    (form, i) =>
      !forms.some(
        (other, j) => j !== i && beginsWith(form, other) && (other.length < form.length || j < i),
      ),
  );
}

/** Token ids of the forms of both options; they exclude each other, or there is nothing to read. */
function tokenForms(
  reasoner: Reasoner,
  options: readonly [string, string],
): { readonly forms: [number[][], number[][]] } | UnreadableReason {
  const [first, second] = formsOf(options).map((forms) =>
    distinct(forms.map((form) => [...reasoner.textIds(form)])),
  ) as [number[][], number[][]];
  if (
    [first, second].some((forms) => forms.length === 0 || forms.some((form) => form.length === 0))
  )
    return 'an option has no tokens';
  const alike = first.some((a) => second.some((b) => beginsWith(a, b) || beginsWith(b, a)));
  return alike ? 'options begin alike' : { forms: [first, second] };
}

/**
 * Reads the beliefs of a trajectory. Each step is tokenised on its own, with the blank line after
 * it, so that the text before a probe starts with the text before the previous probe. Options are
 * swapped in the probe only, after everything that was read.
 * @throws IsoproError BACKEND_INCAPABLE for a policy without log-probabilities; INVALID_ARGUMENT
 *   if the trajectory is of another problem or there is no wording; errors of the reasoner except
 *   CONTEXT_OVERFLOW, which is a reason
 */
export async function readBeliefs(
  reasoner: Reasoner,
  problem: BinaryProblem,
  of: Trajectory,
  { beliefSystem = 'keep', wordings = WORDINGS, signal }: ReadoutOptions = {},
): Promise<Readout> {
  requireCapability(reasoner, 'logprobs');
  requireAbout(of, problem);
  if (wordings.length === 0)
    throw new IsoproError('INVALID_ARGUMENT', 'wordings: at least one is required');
  const found = tokenForms(reasoner, problem.options);
  const [first, second] = problem.options;
  const orders = [
    [first, second],
    [second, first],
  ] as const;
  const probes = wordings.flatMap((wording) =>
    orders.map(([a, b]) => [...reasoner.textIds(wording(a, b))]),
  );
  const { trunk, places, common } = whatIsRead(reasoner, of, beliefSystem);
  const about = { trajectoryId: of.id, problemId: problem.id, policyId: reasoner.id, beliefSystem };
  if (typeof found === 'string') {
    const readings = places.map(() => unreadable(found));
    return { ...about, readings, tokens: { prefix: 0, reread: 0, probes: 0 } };
  }
  const targets = probes.flatMap((probe) =>
    found.forms.flat().map((form) => ({ tokenIds: [...probe, ...form], from: probe.length })),
  );
  const scores = await scoreAt(reasoner, { trunk, places, targets }, signal);
  const readings = places.map((_, i) =>
    readingOf(
      scores.slice(i * targets.length, (i + 1) * targets.length),
      found.forms,
      probes.length,
    ),
  );
  const read = scores.length / targets.length;
  const prefix = places[read - 1] ?? 0;
  const asked = read * targets.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  return {
    ...about,
    readings,
    tokens: { prefix, reread: Math.max(0, prefix - common), probes: asked },
  };
}

interface WhatIsRead {
  readonly trunk: number[];
  /** Number of tokens before the first step, and after each. */
  readonly places: number[];
  /** Number of tokens shared with the beginning of the full trajectory. */
  readonly common: number;
}

function whatIsRead(
  reasoner: Reasoner,
  { prompt, steps }: Trajectory,
  beliefSystem: BeliefSystem,
): WhatIsRead {
  const said = steps.map(({ content }) => reasoner.textIds(`${content}\n\n`));
  const behind = (messages: readonly Message[]): number[] =>
    [reasoner.promptIds(messages), ...said].flatMap((ids) => [...ids]);
  const whole = behind(prompt);
  const trunk =
    beliefSystem === 'keep' ? whole : behind(prompt.filter(({ role }) => role !== 'system'));
  const parted = trunk.findIndex((id, i) => whole[i] !== id);
  const places = [trunk.length];
  for (const ids of said.toReversed()) places.unshift(places[0]! - ids.length);
  return { trunk, places, common: parted === -1 ? trunk.length : parted };
}

/**
 * Scores all targets in one call: the text before the last probe is evaluated once for all places,
 * wordings, orders and forms.
 * @returns those of each target at the first place, at the second, and so on, as far as the
 *   policy's context reaches
 */
async function scoreAt(
  reasoner: Reasoner,
  {
    trunk,
    places,
    targets,
  }: Pick<WhatIsRead, 'trunk' | 'places'> & {
    readonly targets: readonly Omit<BranchTarget, 'at'>[];
  },
  signal: AbortSignal | undefined,
): Promise<readonly Float64Array[]> {
  // What does not fit is known before anything is evaluated.
  for (let read = places.length; read > 0; read--) {
    const branches = places
      .slice(0, read)
      .flatMap((at) => targets.map((target) => ({ at, ...target })));
    try {
      return await reasoner.score(trunk.slice(0, places[read - 1]), branches, signal && { signal });
    } catch (error) {
      if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') throw error;
    }
  }
  return [];
}

/**
 * @param scores of the forms of both options after each probe; empty if unavailable
 */
function readingOf(
  scores: readonly Float64Array[],
  forms: readonly [number[][], number[][]],
  probes: number,
): ReadBelief {
  if (scores.length === 0) return unreadable('context overflow');
  const perProbe = forms[0].length + forms[1].length;
  const values = Array.from({ length: probes }, (_, i) => {
    const said = scores
      .slice(i * perProbe, (i + 1) * perProbe)
      .map((each) => each.reduce((a, b) => a + b, 0));
    return readBelief(said.slice(0, forms[0].length), said.slice(forms[0].length));
  });
  const read = values.filter((value) => value !== null);
  if (read.length < values.length) return unreadable('no probability for either option');
  const byWording = Array.from({ length: probes / 2 }, (_, i) =>
    orderAveraged(read[2 * i]!, read[2 * i + 1]!),
  );
  return { belief: { source: 'logprob', ...overWordings(byWording) }, byWording };
}

/**
 * Belief path that strategies score; or the first reason why a reading failed, because a path with
 * a gap has other steps.
 */
export function beliefPath<Reason extends string>({
  trajectoryId,
  problemId,
  readings,
}: Pick<Readout, 'trajectoryId' | 'problemId'> & {
  readonly readings: readonly (
    | {
        readonly belief: Belief;
        readonly byWording?: readonly number[];
        readonly measured?: readonly number[];
        readonly reason?: undefined;
      }
    | { readonly belief: null; readonly reason: Reason }
  )[];
}): BeliefPath | Reason {
  const beliefs: number[] = [];
  const measured: (readonly number[])[] = [];
  // what reasons states no belief before it has said anything
  const first = readings.findIndex(({ belief }) => belief !== null);
  const isStated = readings[first]?.belief?.source === 'stated';
  for (const reading of isStated ? readings.slice(first) : readings) {
    if (reading.belief === null) return reading.reason;
    beliefs.push(reading.belief.p0);
    measured.push(reading.byWording ?? reading.measured ?? []);
  }
  const isRepeated = measured.every(({ length }) => length > 1 && length === measured[0]!.length);
  return {
    trajectoryId,
    problemId,
    beliefs,
    ...(isRepeated && measured.length > 0 ? { measured } : {}),
  };
}
