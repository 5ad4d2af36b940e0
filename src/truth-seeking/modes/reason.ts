/** A policy reasons about a problem, in one of the modes. */
import { IsoproError } from '../../errors.js';
import { Random } from '../../random.js';
import { given } from '../../given.js';
import type { Message, Reasoner, Reply } from '../reasoner.js';
import type { Problem } from '../problem.js';
import { seedFor } from '../seed.js';
import { trajectory, type Step, type Trajectory } from '../trajectory.js';
import {
  debateTurn,
  FIXED_QUESTIONS,
  generatorPrompt,
  GO_ON,
  opening,
  questionsIn,
  questionText,
  sidesOf,
  speech,
  type Answered,
} from './asking.js';
import {
  REASONING_MODES,
  type QuestionSource,
  type ReasoningMode,
  type ReasoningModeOf,
} from './mode.js';

export interface ReasonOptions {
  /** Text of the system's message; null for none. */
  readonly system: string | null;
  /** Whether to ask for a stated belief at the end. Default: false. */
  readonly stated?: boolean;
  /** Seed of the trajectory; every draw follows from it. */
  readonly seed: bigint;
  /** Max tokens of each reply. Default 256. */
  readonly maxTokens?: number;
  /** Default 0.25. */
  readonly temperature?: number;
  /** Problems that bootstrap-interview may ask first, by where it takes them from. */
  readonly questions?: Readonly<Partial<Record<QuestionSource, readonly Problem[]>>>;
  /** Writer of the questions of bootstrap-interview. Default: the reasoner itself. */
  readonly generator?: Reasoner;
  readonly signal?: AbortSignal;
}

export interface Reasoned {
  readonly trajectory: Trajectory;
  /** Over all replies, those of a generator too. */
  readonly sampledTokens: number;
  /** Replies that were cut off by their budget of tokens. */
  readonly cutOff: number;
}

/** Asks, and counts what was sampled. */
class Asking {
  sampledTokens = 0;
  cutOff = 0;
  #calls = 0;

  constructor(
    readonly problem: Problem,
    readonly options: ReasonOptions,
  ) {}

  async reply(
    reasoner: Reasoner,
    messages: readonly Message[],
    maxTokens = this.options.maxTokens,
  ): Promise<Reply> {
    const { temperature, signal } = this.options;
    const seed = seedFor(this.options.seed, 'truth reply', this.problem.id, this.#calls++);
    const options = given({ seed, maxTokens, temperature, signal });
    const reply = await reasoner.infer(messages, options);
    this.sampledTokens += reply.tokenIds.length;
    if (reply.finish === 'length') this.cutOff++;
    return reply;
  }
}

const paragraphs = (text: string): string[] =>
  text
    .split(/\n[^\S\n]*\n/)
    .map((each) => each.trim())
    .filter((each) => each !== '');

const own = (contents: readonly string[]): Step[] =>
  contents.map((content) => ({ content, trainable: true }));
const foreign = (content: string): Step => ({ content, trainable: false });

/**
 * Two steps where a model marks its reasoning, of which the second may be missing; else one; none
 * for an empty reply.
 */
export function replySteps(text: string): string[] {
  const marked = /^\s*<think>([^]*?)(?:<\/think>([^]*))?$/.exec(text);
  return (marked === null ? [text] : [marked[1]!, marked[2] ?? ''])
    .map((each) => each.trim())
    .filter((each) => each !== '');
}

/** Paragraphs as steps; those beyond the last belong to it. */
export function paragraphSteps(text: string, most: number): string[] {
  const all = paragraphs(text);
  return all.length <= most ? all : [...all.slice(0, most - 1), all.slice(most - 1).join('\n\n')];
}

/** Maximum number of continuations of a short reply. */
const CONTINUATIONS = 8;

async function withLength(
  asking: Asking,
  reasoner: Reasoner,
  prompt: readonly Message[],
  { tokens, tolerance }: ReasoningModeOf<'length-control'>,
): Promise<Step[]> {
  const [least, most] = [tokens * (1 - tolerance), Math.ceil(tokens * (1 + tolerance))];
  const steps: string[] = [];
  let messages = prompt;
  let used = 0;
  for (let asked = 0; asked <= CONTINUATIONS && used < most; asked++) {
    const { text, tokenIds, finish } = await asking.reply(reasoner, messages, most - used);
    const said = paragraphs(text);
    used += tokenIds.length;
    steps.push(...said);
    if (finish === 'length' || used >= least || said.length === 0) break;
    messages = [
      ...messages,
      { role: 'assistant', content: text },
      { role: 'user', content: GO_ON },
    ];
  }
  return own(steps);
}

/**
 * Side of a turn. The first speaker follows from the seed, so that no option has the last word more
 * often.
 */
const sideOfTurn = (problem: Problem, seed: bigint, turn: number): string =>
  sidesOf(problem)[Number((seed + BigInt(turn)) % 2n)]!;

async function debate(
  asking: Asking,
  reasoner: Reasoner,
  prompt: readonly Message[],
  { turns }: ReasoningModeOf<'self-debate'>,
): Promise<Step[]> {
  const said: string[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const side = sideOfTurn(asking.problem, asking.options.seed, turn);
    const { text } = await asking.reply(reasoner, debateTurn(prompt, said, side));
    said.push(speech(side, text.trim()));
  }
  return own(said);
}

/** Questions and answers as turns of a conversation. */
const asTurns = (answered: readonly Answered[]): Message[] =>
  answered.flatMap(({ question, answer }): Message[] => [
    { role: 'user', content: question },
    { role: 'assistant', content: answer },
  ]);

/** Prompt with an interview before the main question, system message first. */
const interviewed = (prompt: readonly Message[], answered: readonly Answered[]): Message[] => [
  ...prompt.slice(0, -1),
  ...asTurns(answered),
  prompt.at(-1)!,
];

async function interview(
  asking: Asking,
  reasoner: Reasoner,
  prompt: readonly Message[],
  mode: ReasoningModeOf<'bootstrap-interview'>,
): Promise<Step[]> {
  const { problem, options } = asking;
  const { generator = reasoner, questions: known = {}, seed } = options;
  const drawn = async (): Promise<readonly string[]> => {
    if (mode.source === 'generator-preset')
      return questionsIn(
        (await asking.reply(generator, generatorPrompt(problem, mode, { count: mode.questions })))
          .text,
      );
    if (mode.source === 'fixed-sequence') return FIXED_QUESTIONS;
    const others = (known[mode.source] ?? []).filter(({ id }) => id !== problem.id);
    if (others.length === 0)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `mode ${REASONING_MODES.format(mode)}: no questions are available for the interview`,
      );
    return new Random(seed).shuffle(others).map(questionText);
  };
  const listed = mode.source === 'generator-adaptive' ? null : await drawn();
  const answered: Answered[] = [];
  for (let i = 0; i < mode.questions; i++) {
    const question =
      listed === null
        ? questionsIn(
            (await asking.reply(generator, generatorPrompt(problem, mode, { after: answered })))
              .text,
          )[0]
        : listed[i];
    if (question === undefined) break; // a generator wrote fewer, or a domain has no more
    const messages: Message[] = [
      ...prompt.slice(0, -1),
      ...asTurns(answered),
      { role: 'user', content: question },
    ];
    answered.push({ question, answer: (await asking.reply(reasoner, messages)).text.trim() });
  }
  const { text } = await asking.reply(reasoner, interviewed(prompt, answered));
  return [
    ...answered.flatMap(({ question, answer }) => [foreign(question), foreign(answer)]),
    ...own(replySteps(text)),
  ];
}

async function stepsOf(
  asking: Asking,
  reasoner: Reasoner,
  prompt: readonly Message[],
  mode: ReasoningMode,
): Promise<Step[]> {
  switch (mode.name) {
    case 'direct':
      return own(replySteps((await asking.reply(reasoner, prompt)).text));
    case 'chain-of-thought':
      return own(paragraphSteps((await asking.reply(reasoner, prompt)).text, mode.steps));
    case 'self-debate':
      return debate(asking, reasoner, prompt, mode);
    case 'bootstrap-interview':
      return interview(asking, reasoner, prompt, mode);
    case 'length-control':
      return withLength(asking, reasoner, prompt, mode);
  }
}

/**
 * Lets a reasoner reason about a problem. Equal arguments give equal trajectories. The questions of
 * an interview precede the main one in its context, and follow it in the trajectory as steps that
 * are not trained on.
 * @throws IsoproError INVALID_ARGUMENT if a mode has no questions to ask; errors of the reasoner,
 *   such as CONTEXT_OVERFLOW
 */
export async function reason(
  reasoner: Reasoner,
  problem: Problem,
  mode: ReasoningMode,
  options: ReasonOptions,
): Promise<Reasoned> {
  const asking = new Asking(problem, options);
  const prompt = opening(problem, mode, options.system, options.stated);
  const steps = await stepsOf(asking, reasoner, prompt, mode);
  return {
    trajectory: trajectory({
      problemId: problem.id,
      policyId: reasoner.id,
      modeId: REASONING_MODES.format(mode),
      seed: options.seed.toString(),
      prompt,
      steps,
    }),
    sampledTokens: asking.sampledTokens,
    cutOff: asking.cutOff,
  };
}

/** A training sample: the messages before and the reply. */
export interface TrainingSample {
  readonly history: readonly Message[];
  readonly output: string;
}

/**
 * Training samples of a trajectory: a reply with the messages before it, or each turn of a debate
 * with the earlier turns.
 */
export function trainingSamples(
  { modeId, seed, prompt, steps }: Trajectory,
  problem: Problem,
): TrainingSample[] {
  const mode = REASONING_MODES.parse(modeId);
  const said = steps.filter(({ trainable }) => trainable).map(({ content }) => content);
  if (mode.name === 'self-debate')
    return said.map((content, turn) => {
      const side = sideOfTurn(problem, BigInt(seed), turn);
      return {
        history: debateTurn(prompt, said.slice(0, turn), side),
        output: content.slice(speech(side, '').length),
      };
    });
  const first = steps.filter(({ trainable }) => !trainable).map(({ content }) => content);
  const answered = Array.from({ length: first.length / 2 }, (_, i) => ({
    question: first[2 * i]!,
    answer: first[2 * i + 1]!,
  }));
  return said.length === 0
    ? []
    : [{ history: interviewed(prompt, answered), output: said.join('\n\n') }];
}
