/**
 * What a model with an adapter has forgotten: log-probabilities of held-out English, and of what
 * the bare base says to general prompts, each under the base and under the adapter. Both texts were
 * written for this project (assets/forgetting).
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Adapter } from '../engine/adapter.js';
import { commonBeginning } from '../engine/common-beginning.js';
import { contextOf } from '../engine/context-overflow.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { FORGETTING_SET, type ScoredText } from '../statistics/index.js';
import { KeptHalf, type Half } from './forgetting-cache.js';
import { seedOf } from '../tasks/seed.js';

/** 20,101 bytes in 32 paragraphs, and 200 prompts, one a line. */
const SHA256 = {
  english: '5fb9fd10d5ef34dfb5a3459dc4a7b784cb7065396ac048578e757ea724cc5448',
  prompts: 'ab87bc90dc748d3640212be36763c9533459791c08b574d19042187cbd8604d0',
} as const;
export const FORGETTING_TEXTS: Readonly<Record<keyof typeof SHA256, string>> = SHA256;
export const GENERAL_PROMPTS = FORGETTING_SET.prompts;
const PARAGRAPHS = FORGETTING_SET.paragraphs;
/**
 * Of a run: a general prompt for so many tokens that its rollouts may sample, and as many prompts
 * at least.
 */
export const TOKENS_PER_PROMPT = 1000;
export const LEAST_PROMPTS = 25;
/** Of a reply to a general prompt, at most. */
const REPLY_TOKENS = 16;
/**
 * Of the replies: the same for every run, so that adapters of one base are measured on the same
 * tokens.
 */
const SEED = 0x150n;
/** Replies that are sampled or scored together. */
const TOGETHER = 16;
/**
 * Prompts of a request: so few that what `generate` reports is what `Model.score` gives, up to the
 * rounding of another batch.
 */
const CHUNK = 32;

const FOLDER = new URL('../../../assets/forgetting/', import.meta.url);

/** @throws IsoproError EVALUATION_SET_CORRUPT if the file is not the committed one */
export function readForgettingText(name: keyof typeof SHA256, folder: URL = FOLDER): string {
  const file = `forgetting/${name}.txt`;
  let bytes: Buffer;
  try {
    bytes = readFileSync(new URL(`${name}.txt`, folder));
  } catch (cause) {
    throw new IsoproError('EVALUATION_SET_CORRUPT', `${file} cannot be read`, { cause });
  }
  const sha256 = hash('sha256', bytes);
  if (sha256 !== SHA256[name])
    throw new IsoproError(
      'EVALUATION_SET_CORRUPT',
      `${file} has SHA-256 ${sha256}, which is not the committed one`,
    );
  return bytes.toString('utf8');
}

/**
 * A reply of the base model, sampled at temperature 1 from its whole distribution; its tokens
 * include the one that ended it.
 */
export interface ScoredReply extends ScoredText {
  readonly tokenIds: readonly number[];
}

export interface ForgettingMeasurement {
  /** Scores by paragraph, each after the BOS token or a line feed. */
  readonly english: readonly ScoredText[];
  /** Scores by prompt. */
  readonly replies: readonly ScoredReply[];
}

export interface ForgettingOptions {
  /** Number of general prompts, the first that fit in the context. Default: all 200. */
  readonly prompts?: number;
  /** Number of paragraphs. Default: all 32, or in proportion with fewer prompts. */
  readonly paragraphs?: number;
  /**
   * Replies of a log, one per prompt, scored instead of those that the base would sample here:
   * another machine may sample others.
   */
  readonly replies?: readonly (readonly number[])[];
  /**
   * Files in which both halves are kept as far as they are measured, and taken from where they are
   * there: a name for this model, code and machine, for their bits are its own, and one for the
   * adapter besides. Not together with `replies`.
   */
  readonly kept?: { readonly base: string; readonly adapter?: string };
  /** Strength of the adapter, default 1; its half is saved only at 1. */
  readonly strength?: number;
  /** Measure no replies, only the English. */
  readonly englishOnly?: boolean;
  /** Called about files that cannot be used or written; the measurement continues without them. */
  readonly onNotice?: (text: string) => void;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

/**
 * Returns the number of general prompts for a run with this many rollout tokens, so that measuring
 * takes a small part of the run.
 */
export const promptsForRun = (rolloutTokens: number): number =>
  Math.min(GENERAL_PROMPTS, Math.max(LEAST_PROMPTS, Math.ceil(rolloutTokens / TOKENS_PER_PROMPT)));

const paragraphsFor = (prompts: number): number =>
  Math.ceil((PARAGRAPHS * prompts) / GENERAL_PROMPTS);

/** Returns the number of texts to score, each under the base and under the adapter. */
export const forgettingTextCount = (prompts: number): number =>
  2 * (prompts + paragraphsFor(prompts));

/** Tokens of a measurement that are evaluated, and that the base samples. */
export function forgettingTokens(
  model: Model,
  prompts: number,
): { readonly evaluated: number; readonly sampled: number } {
  const texts = forgettingTexts(model, prompts);
  const shared = sharedTokens(texts.prompts);
  const sampled = texts.prompts.length * REPLY_TOKENS;
  const english = texts.paragraphs.reduce((sum, { length }) => sum + length, 0);
  const asked = texts.prompts.reduce((sum, { length }) => sum + length - shared, 0);
  // by the base and with the adapter, which samples none
  return { evaluated: 2 * (english + asked) + sampled, sampled };
}

/** What is scored after it: a line feed where the model has no token that begins a text. */
const beginning = (model: Model): Int32Array => {
  const { addBos, bos } = model.info;
  return addBos && bos >= 0 ? Int32Array.of(bos) : model.tokenize('\n');
};

/** Number of ids that all begin with, without the last one of any. */
const sharedTokens = (all: readonly Int32Array[]): number =>
  commonBeginning(all.map((ids) => ids.subarray(0, -1)));

/**
 * Returns the token ids of the texts to score: the first paragraphs, each cut to the context, and
 * the first prompts whose replies fit, under the chat template.
 * @param paragraphs default: all 32, or with fewer prompts in proportion
 * @throws IsoproError EVALUATION_SET_CORRUPT
 */
export function forgettingTexts(
  model: Model,
  prompts: number = GENERAL_PROMPTS,
  paragraphs: number = paragraphsFor(prompts),
): { readonly paragraphs: readonly Int32Array[]; readonly prompts: readonly Int32Array[] } {
  const room = contextOf(model.limits);
  const conversations = readForgettingText('prompts')
    .trim()
    .split('\n')
    .map((content) => [{ role: 'user', content } as const]);
  return {
    paragraphs: readForgettingText('english')
      .split('\n\n')
      .slice(0, paragraphs)
      .map((paragraph) =>
        model.tokenize(paragraph.trim()).slice(0, room - beginning(model).length),
      ),
    prompts: model
      .renderChats(conversations)
      .map(({ tokenIds }) => tokenIds)
      .filter(({ length }) => length + REPLY_TOKENS <= room)
      .slice(0, prompts),
  };
}

/**
 * Measures forgetting, and leaves the adapter set on the model.
 * @param adapter null: the bare base, compared with itself
 * @throws IsoproError EVALUATION_SET_CORRUPT, CONTEXT_OVERFLOW, NUMERIC_FAILURE, ABORTED
 */
export async function measureForgetting(
  model: Model,
  adapter: Adapter | null,
  options: ForgettingOptions = {},
): Promise<ForgettingMeasurement> {
  const {
    replies: logged,
    kept,
    strength = 1,
    englishOnly = false,
    signal,
    onProgress,
    onNotice,
  } = options;
  const cancelling = given({ signal });
  const begin = beginning(model);
  const { paragraphs, prompts } = forgettingTexts(model, options.prompts, options.paragraphs);
  const rendered = englishOnly ? [] : prompts;
  const shared = (rendered[0] ?? new Int32Array()).slice(0, sharedTokens(rendered));
  const texts = {
    paragraphs: paragraphs.length,
    prompts: prompts.length,
    vocabulary: model.info.vocabularySize,
  };
  const base = new KeptHalf(logged === undefined ? kept?.base : undefined, texts, onNotice);
  const measuredOf = ({ measured: { english, replies } }: KeptHalf): number =>
    english.length + (englishOnly ? 0 : replies.length);
  const total = 2 * (paragraphs.length + rendered.length);
  let adapted: KeptHalf | null = null;
  /** Kept from before. */
  let already = measuredOf(base);
  const tick = (): void => {
    const done = measuredOf(base) + (adapted === null ? 0 : measuredOf(adapted));
    onProgress?.({ done: done - already, total: total - already });
  };
  const scoreEnglish = async (half: KeptHalf): Promise<void> => {
    for (const tokens of paragraphs.slice(half.measured.english.length)) {
      const [logprobs] = await model.score(begin, [tokens], cancelling);
      await half.addEnglish(sumOf(logprobs!));
      tick();
    }
  };
  const scoreReplies = async (
    half: KeptHalf,
    replies: readonly (readonly number[])[],
  ): Promise<void> => {
    for (let from = half.wholeGroups(TOGETHER); from < replies.length; from += TOGETHER) {
      const group = replies.slice(from, from + TOGETHER);
      const rests = group.map((reply, i) =>
        Int32Array.from([...rendered[from + i]!.slice(shared.length), ...reply]),
      );
      const logprobs = await model.score(shared, rests, cancelling);
      await half.addReplies(
        group.map((ids, i) => ({
          tokenIds: [...ids],
          logprob: sumOf(logprobs[i]!.subarray(-ids.length)),
        })),
      );
      tick();
    }
  };
  try {
    await model.setAdapter(null);
    await scoreEnglish(base);
    if (logged === undefined) await sampleReplies(model, rendered, base, cancelling, tick);
    else await scoreReplies(base, logged);
    await base.keep();
    const replies = englishOnly ? [] : base.measured.replies.map(({ tokenIds }) => tokenIds);
    await model.setAdapter(adapter, strength);
    const keeps = logged === undefined && strength === 1;
    adapted = new KeptHalf(
      keeps ? kept?.adapter : undefined,
      englishOnly ? texts : { ...texts, replies },
      onNotice,
    );
    already += measuredOf(adapted);
    await scoreEnglish(adapted);
    await scoreReplies(adapted, replies);
    await adapted.keep();
    const after = adapted.measured;
    return {
      english: paragraphs.map(({ length }, i) => ({
        tokens: length,
        before: base.measured.english[i]!,
        after: after.english[i]!,
      })),
      replies: replies.map((tokenIds, i) => ({
        tokens: tokenIds.length,
        before: base.measured.replies[i]!.logprob,
        after: after.replies[i]!.logprob,
        tokenIds: [...tokenIds],
      })),
    };
  } finally {
    await (adapted ?? base).keep();
    await model.setAdapter(adapter);
  }
}

const sumOf = (values: Float32Array): number => values.reduce((sum, value) => sum + value, 0);

async function sampleReplies(
  model: Model,
  rendered: readonly Int32Array[],
  half: KeptHalf,
  cancelling: { readonly signal?: AbortSignal },
  tick: () => void,
): Promise<void> {
  for (let from = half.wholeGroups(CHUNK); from < rendered.length; from += CHUNK) {
    const prompts = rendered.slice(from, from + CHUNK).map((tokenIds, i) => ({
      tokenIds,
      seeds: [seedOf(SEED, 'forgetting', String(from + i))],
    }));
    const sampling = { temperature: 1, topP: 1 };
    const request = {
      prompts,
      sampling,
      maxTokens: REPLY_TOKENS,
      maxSequences: TOGETHER,
      adapter: null,
      ...cancelling,
    };
    const replies: Half['replies'] = [];
    for await (const { promptIndex, tokenIds, logprobs } of model.generate(request))
      replies[promptIndex] = { tokenIds: [...tokenIds], logprob: sumOf(logprobs) };
    await half.addReplies(replies);
    tick();
  }
}
