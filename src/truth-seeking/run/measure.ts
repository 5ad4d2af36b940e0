/** Probabilities of answers given other answers: the measurements of mutual predictability. */
import { hash } from 'node:crypto';
import { canonicalJson } from '../../canonical-json.js';
import { given } from '../../given.js';
import { Random } from '../../random.js';
import { IsoproError } from '../../errors.js';
import { questionText } from '../modes/asking.js';
import type { Message, Reasoner } from '../reasoner.js';
import type { Problem } from '../problem.js';
import { SkipCount } from '../score.js';
import { seedFor } from '../seed.js';
import { judgedConsistency } from '../strategies/judged-consistency.js';
import { uselessTrial, type MutualTrial } from '../strategies/mutual-predictability.js';
import type { StrategyOf } from '../strategies/strategy.js';
import type { Trajectory } from '../trajectory.js';
import { setupKey, type Setup } from './records.js';

/** Answer of a trajectory: its trainable steps. */
export const answerOf = ({ steps }: Trajectory): string =>
  steps
    .filter(({ trainable }) => trainable)
    .map(({ content }) => content)
    .join('\n\n');

export interface Answer {
  readonly problem: Problem;
  readonly trajectory: Trajectory;
}

/** Why a trial was not made that another model has to predict. */
export const NO_OTHER_REASONER = 'there is no other policy';
/** Why there is nothing to predict, or nothing to predict it from. */
export const NO_OTHER_ANSWER = 'there is no other answer';
/** Why there is nothing to predict of another policy. */
export const NO_PEER = 'the other policy gave no answer';
export const OVERFLOWN = 'context overflow';

/** A measurement, or the reason why it is missing. */
type Measured = { readonly conditional: number[]; readonly base: number[] } | string;

/** Earlier scores by reasoner and tokens, because strategies ask for the same ones. */
export type KnownScores = Map<string, readonly number[]>;

interface Measuring {
  readonly known?: KnownScores;
  readonly signal?: AbortSignal;
}

/** The same tokens after two prompts. */
async function scoredTwice(
  reasoner: Reasoner,
  prompts: readonly [withIt: readonly Message[], without: readonly Message[]],
  text: string,
  { known = new Map(), signal }: Measuring,
): Promise<Measured> {
  const ids = [...reasoner.textIds(text)];
  if (ids.length === 0) return { conditional: [], base: [] };
  const found: number[][] = [];
  for (const messages of prompts) {
    const prefix = [...reasoner.promptIds(messages)];
    const key = hash('sha256', canonicalJson([reasoner.id, prefix, ids]));
    try {
      const scores = known.get(key) ?? [
        ...(await reasoner.score(prefix, [ids], signal && { signal }))[0]!,
      ];
      known.set(key, scores);
      found.push([...scores]);
    } catch (error) {
      if (error instanceof IsoproError && error.code === 'CONTEXT_OVERFLOW') return OVERFLOWN;
      throw error;
    }
  }
  if (found.flat().some((value) => !Number.isFinite(value))) return 'a token has no probability';
  return { conditional: found[0]!, base: found[1]! };
}

const asTurns = (answers: readonly Answer[]): Message[] =>
  answers.flatMap(({ problem, trajectory }): Message[] => [
    { role: 'user', content: questionText(problem) },
    { role: 'assistant', content: answerOf(trajectory) },
  ]);

const pair = ({ problem, trajectory }: Answer): string =>
  `Question: ${questionText(problem)}\nAnswer: ${answerOf(trajectory)}`;

/** A block before everything, of which the answers are the predicted policy's. */
const behaviour = (answers: readonly Answer[]): string =>
  answers.length === 0
    ? ''
    : [
        'This is how somebody answered other questions:',
        ...answers.map(pair),
        'Now answer as they would.',
        '',
      ].join('\n\n');

const prefixed = ([first, ...rest]: readonly Message[], text: string): Message[] => [
  { ...first!, content: text + first!.content },
  ...rest,
];

/** True if a trial counts; others are not computed. */
export const isScored = (trial: MutualTrial): boolean =>
  uselessTrial({ ...trial, conditional: [0], base: [0] }) === null;

export interface MutualParties {
  readonly evaluated: Reasoner;
  /** Another policy; null where the run has none. */
  readonly other: Reasoner | null;
}

/** Content of a trial; `Party` stands for its participants. */
export interface Drawn<Party> {
  /** Answer to predict; undefined if there is no other. */
  readonly target: Answer | undefined;
  readonly context: readonly Answer[];
  /** Others, of which some may show how who is predicted answers. */
  readonly rest: readonly Answer[];
  /** In the order in which one of them is taken at random. */
  readonly parties: readonly Party[];
  /** Party whose answer is predicted; null if there is no other reasoner. */
  readonly predicted: Party | null;
}

export interface DrawFrom {
  readonly seed: bigint;
  readonly purpose: string;
}

/**
 * Seed of the trials of a trajectory.
 * @param strategy as it is written
 */
export const drawnFrom = (seed: string, strategy: string, setup: Setup): DrawFrom => ({
  seed: BigInt(seed),
  purpose: `truth trials ${strategy} ${setupKey(setup)}`,
});

/**
 * Draws the trials of an answer, which follow from the seed, the strategy, the problem and whether
 * there is another reasoner.
 */
export function drawTrials<Party>(
  of: Answer,
  answers: readonly Answer[],
  { evaluated, other }: { readonly evaluated: Party; readonly other: Party | null },
  strategy: StrategyOf<'mutual-predictability'>,
  { seed, purpose }: DrawFrom,
): Drawn<Party>[] {
  return Array.from({ length: strategy.trials }, (_, sample) => {
    const random = new Random(seedFor(seed, purpose, of.problem.id, sample));
    const others = random.shuffle(
      answers.filter(({ trajectory }) => trajectory.id !== of.trajectory.id),
    );
    const parties = random.shuffle([evaluated, ...(other === null ? [] : [other])]);
    const anyAnswer = random.shuffle([of, ...others])[0]!;
    const target =
      strategy.target === 'evaluated-question'
        ? of
        : strategy.target === 'random-other'
          ? others[0]
          : anyAnswer;
    const rest = others.filter((each) => each !== target);
    const context =
      strategy.context === 'evaluated-question'
        ? target === of
          ? []
          : [of]
        : rest.slice(0, strategy.contextSize);
    const anyParty = random.shuffle([evaluated, ...(other === null ? [] : [other])])[0]!;
    const predicted =
      strategy.predicted === undefined
        ? evaluated
        : strategy.predicted === 'random-other'
          ? other
          : anyParty;
    return { target, context, rest, parties, predicted };
  });
}

/** Party that predicts; null if there is no other. */
export const predictorIn = <Party>(
  { parties: [first] }: Pick<Drawn<Party>, 'parties'>,
  { evaluated, other }: { readonly evaluated: Party; readonly other: Party | null },
  { predictor }: Pick<StrategyOf<'mutual-predictability'>, 'predictor'>,
): Party | null =>
  predictor === 'evaluated' ? evaluated : predictor === 'random-other' ? other : first!;

/** Answers of the other reasoner by problem id; null if it gave none. */
export type Peers = (problemId: string) => Trajectory | null;
const NO_PEERS: Peers = () => null;

/** The answer as who is predicted gave it. */
function givenBy<Party>(
  answer: Answer,
  { predicted }: Drawn<Party>,
  evaluated: Party,
  peers: Peers,
): Answer | null {
  if (predicted === evaluated) return answer;
  const trajectory = peers(answer.problem.id);
  return trajectory === null ? null : { problem: answer.problem, trajectory };
}

/**
 * Lets a judge rate the same trials: whether an answer fits the others.
 * @throws IsoproError of the judge
 */
export async function judgedTrials(
  of: Answer,
  answers: readonly Answer[],
  parties: MutualParties & { readonly judge: Reasoner },
  strategy: StrategyOf<'mutual-predictability'>,
  {
    signal,
    isBound = false,
    peers = NO_PEERS,
    ...from
  }: DrawFrom & {
    readonly signal?: AbortSignal;
    readonly isBound?: boolean;
    readonly peers?: Peers;
  },
): Promise<{
  readonly score: number | null;
  readonly gradings: number;
  readonly failed: Readonly<Record<string, number>>;
}> {
  const said = ({ problem, trajectory }: Answer) => ({
    question: questionText(problem),
    answer: answerOf(trajectory),
  });
  const drawn = drawTrials(of, answers, parties, strategy, from);
  const unasked = new SkipCount();
  const trials = drawn.flatMap((trial) => {
    const { target, context, predicted } = trial;
    const answer = target === undefined ? null : givenBy(target, trial, parties.evaluated, peers);
    if (predicted !== null && target !== undefined && context.length > 0 && answer !== null)
      return [{ ...said(answer), context: context.map(said) }];
    unasked.add(
      predicted === null
        ? NO_OTHER_REASONER
        : target === undefined || context.length === 0
          ? NO_OTHER_ANSWER
          : NO_PEER,
    );
    return [];
  });
  const seed = seedFor(from.seed, `${from.purpose} judge`, of.problem.id);
  const asked = new Map([[of.trajectory.id, trials]]);
  const how = { seed, isBound, ...given({ signal }) };
  const found = await judgedConsistency(parties.judge, asked, how).catch((error: unknown) => {
    if (error instanceof IsoproError && error.code === 'CONTEXT_OVERFLOW') return null;
    throw error;
  });
  if (found === null) return { score: null, gradings: 0, failed: { [OVERFLOWN]: trials.length } };
  const { 'no trial counts': _, ...failed } = found.skipped;
  return {
    score: found.value,
    gradings: trials.length,
    failed: { ...failed, ...unasked.counts },
  };
}

/**
 * Measures the trials of one trajectory. The context answers follow from the seed, the strategy and
 * the problem.
 * @param answers of the same setup and policy
 */
export async function mutualTrials(
  of: Answer,
  answers: readonly Answer[],
  { evaluated, other }: MutualParties,
  strategy: StrategyOf<'mutual-predictability'>,
  {
    seed,
    purpose,
    peers = NO_PEERS,
    ...measuring
  }: DrawFrom & Measuring & { readonly peers?: Peers },
): Promise<{ readonly trials: MutualTrial[]; readonly unmeasured: string[] }> {
  const trials: MutualTrial[] = [];
  const unmeasured: string[] = [];
  const parties = { evaluated, other };
  for (const drawn of drawTrials(of, answers, parties, strategy, { seed, purpose })) {
    const { target, context, rest } = drawn;
    const predictor = predictorIn(drawn, parties, strategy);
    const answer = target === undefined ? null : givenBy(target, drawn, evaluated, peers);
    if (predictor === null || drawn.predicted === null) unmeasured.push(NO_OTHER_REASONER);
    else if (target === undefined || context.length === 0) unmeasured.push(NO_OTHER_ANSWER);
    else if (answer === null) unmeasured.push(NO_PEER);
    else {
      const shown = rest
        .filter((each) => !context.includes(each))
        .slice(0, strategy.behaviourExamples);
      const before = behaviour(
        shown.flatMap((each) => givenBy(each, drawn, evaluated, peers) ?? []),
      );
      const asked: Message = { role: 'user', content: questionText(target.problem) };
      const trial: MutualTrial = {
        predictorId: predictor.id,
        // of who said it: a run may be measured by another model
        predictedId: answer.trajectory.policyId,
        answer: answerOf(answer.trajectory),
        contextAnswers: context.map(({ trajectory }) => answerOf(trajectory)),
        conditional: [],
        base: [],
      };
      const measured = !isScored(trial)
        ? { conditional: [], base: [] }
        : await scoredTwice(
            predictor,
            [prefixed([...asTurns(context), asked], before), prefixed([asked], before)],
            trial.answer,
            measuring,
          );
      if (typeof measured === 'string') unmeasured.push(measured);
      else trials.push({ ...trial, ...measured });
    }
  }
  return { trials, unmeasured };
}
