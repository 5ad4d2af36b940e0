/**
 * A question to a decider, which chooses from a menu: what it is asked, what its reply is read as,
 * and what takes its place where there is none.
 */
import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import type { Menu, MenuOption } from './menu.js';
import { answerWithin, type AnswerLimits } from './answer.js';
import type { DecideOptions, DecisionContext } from './context.js';
import { promptText, type Prompt } from './policies/prompt.js';
import type { RuleId } from './rules.js';
import type { TraineeTypes } from './trainee.js';

/** Who has chosen. `fallback`: the script, in place of a decider that gave no answer. */
export const SOURCES = ['model', 'human', 'random', 'table', 'fallback'] as const;
export type Source = (typeof SOURCES)[number];

export interface Question<T extends TraineeTypes = TraineeTypes> {
  readonly context: DecisionContext<T>;
  readonly menu: Menu<T>;
  readonly prompt: Prompt;
}

/** What a reply is read as: an option, or the reason why it is none. */
export type Reading =
  | {
      readonly choice: string;
      /** How far the choice is ahead of the next option, in probability; null if not measured. */
      readonly margin: number | null;
      /** Share of the orders or votes that agree with the choice; null if there is only one. */
      readonly agreement: number | null;
    }
  | { readonly choice: null; readonly reason: string };

/** The part of a decider that a judge can repeat: nothing of it is drawn, measured or asked. */
export interface Reader<T extends TraineeTypes = TraineeTypes> {
  readonly source: Exclude<Source, 'fallback'>;
  /** All that its answers depend on next to the question; the genesis commits to it. */
  readonly commitment: Json;
  render(context: DecisionContext<T>, menu: Menu<T>): Prompt;
  read(question: Question<T>, reply: Json): Reading;
}

/** A reply and what it cost. */
export interface Replied {
  readonly reply: Json;
  readonly tokens: { readonly prompt: number; readonly sampled: number };
  /** Null if nobody states a price. */
  readonly cost: number | null;
}

/** Chooses from a menu. It can neither write a decision nor leave the menu. */
export interface Decider<T extends TraineeTypes = TraineeTypes> extends Reader<T> {
  readonly name: string;
  /** Milliseconds that it may take if the caller does not say. */
  readonly timeout?: number;
  ask(question: Question<T>, options: DecideOptions): Promise<Replied>;
  /** Resolves when nothing of it is under way any more, as after an answer that came too late. */
  settled?(): Promise<unknown>;
}

export const isDecider = <T extends TraineeTypes>(policy: object): policy is Decider<T> =>
  'ask' in policy && 'read' in policy;

/** A question with its answer, as the log keeps it. */
export interface AskedQuestion<T extends TraineeTypes = TraineeTypes> {
  readonly iteration: number;
  readonly rule: RuleId;
  /** What the log does not have elsewhere of the situation. */
  readonly situation: { readonly settings: T['settings'] };
  /** Ids of the options, in their order. */
  readonly menu: readonly string[];
  /** SHA-256 of the whole prompt. */
  readonly prompt: string;
  /** SHA-256 of the policy and the whole prompt: equal questions have equal keys. */
  readonly key: string;
  /** Null if there is none. */
  readonly reply: Json;
  readonly choice: string;
  readonly source: Source;
  /** The reply was recorded before this process: it was not asked for again. */
  readonly cached: boolean;
  readonly margin: number | null;
  readonly agreement: number | null;
  /** Why the script answered instead. */
  readonly failure: { readonly code: string; readonly reason: string } | null;
  readonly tokens: { readonly prompt: number; readonly sampled: number };
  readonly seconds: number;
  readonly cost: number | null;
}

/** What is known of a recorded question. */
export type RecordedAnswer = Pick<AskedQuestion, 'reply' | 'choice' | 'source' | 'failure'>;

const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex');

/** Digests of a question: of its whole prompt, and of the prompt and who is asked. */
export function questionDigests(
  { commitment }: Pick<Reader, 'commitment'>,
  prompt: Prompt,
): { readonly prompt: string; readonly key: string } {
  const whole = promptText(prompt);
  return { prompt: sha256(whole), key: sha256(canonicalJson([commitment, whole])) };
}

export interface PosingOptions<T extends TraineeTypes> extends AnswerLimits {
  readonly menu: (context: DecisionContext<T>) => Menu<T>;
  /** The script's choice from a menu. */
  readonly fallback: (context: DecisionContext<T>, menu: Menu<T>) => MenuOption<T>;
  /** Answers to recorded questions, by their keys; frozen. */
  readonly recorded: ReadonlyMap<string, RecordedAnswer>;
  /** Makes the question durable, before its decision is. */
  readonly record: (question: AskedQuestion<T>) => Promise<void>;
}

interface Answered extends Replied {
  readonly reading: Reading;
  readonly failure: AskedQuestion['failure'];
}

const FREE = { tokens: { prompt: 0, sampled: 0 }, cost: 0 };

/** Asks, and reads the reply. Nothing but a cancelled run gets out of it. @throws ABORTED */
async function ask<T extends TraineeTypes>(
  decider: Decider<T>,
  question: Question<T>,
  limits: AnswerLimits,
): Promise<Answered> {
  try {
    const replied = await answerWithin(
      decider.name,
      (options) => decider.ask(question, options),
      limits,
    );
    const reading = decider.read(question, replied.reply);
    const failure =
      reading.choice === null ? { code: 'REPLY_INVALID', reason: reading.reason } : null;
    return { ...replied, reading, failure };
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code === 'ABORTED') throw error;
    const { cause } = error;
    // a person who ends the input ends the run, which can be gone on with
    if (cause instanceof IsoproError && cause.code === 'ABORTED') throw cause;
    const { code, message: reason } = error;
    return { ...FREE, reply: null, reading: { choice: null, reason }, failure: { code, reason } };
  } finally {
    await decider.settled?.();
  }
}

/** What a recorded question says, if it answers this one. */
function recall<T extends TraineeTypes>(
  decider: Decider<T>,
  question: Question<T>,
  known: RecordedAnswer | undefined,
): Answered | null {
  if (known === undefined || !question.menu.some(({ id }) => id === known.choice)) return null;
  const { reply, failure } = known;
  const reading =
    failure === null ? decider.read(question, reply) : { choice: null, reason: failure.reason };
  return { ...FREE, reply, reading, failure };
}

/**
 * Poses a question: a recorded answer to the same question counts as it stands, and only what was
 * never answered is asked. Where there is no answer that holds, the script answers. The question is
 * durable before this returns.
 * @returns the option that was chosen
 * @throws IsoproError ABORTED, and what `record` throws
 */
export async function poseQuestion<T extends TraineeTypes>(
  decider: Decider<T>,
  context: DecisionContext<T>,
  { menu: menuFor, fallback, recorded, record, ...limits }: PosingOptions<T>,
): Promise<MenuOption<T>> {
  const begun = performance.now();
  const menu = menuFor(context);
  const prompt = decider.render(context, menu);
  const question = Object.freeze({ context, menu, prompt });
  const digests = questionDigests(decider, prompt);
  const kept = recall(decider, question, recorded.get(digests.key));
  const { reply, reading, failure, tokens, cost } = kept ?? (await ask(decider, question, limits));
  const own = menu.find(({ id }) => id === reading.choice);
  const option = own ?? fallback(context, menu);
  await record({
    iteration: context.evaluations.at(-1)!.iteration,
    rule: context.rule,
    situation: { settings: context.settings },
    menu: menu.map(({ id }) => id),
    ...digests,
    reply,
    choice: option.id,
    source: own === undefined ? 'fallback' : decider.source,
    cached: kept !== null,
    margin: reading.choice === null ? null : reading.margin,
    agreement: reading.choice === null ? null : reading.agreement,
    failure,
    tokens,
    seconds: kept === null ? (performance.now() - begun) / 1000 : 0,
    cost,
  });
  return option;
}
