/** Supervised fine-tuning of a LoRA adapter on a file of examples: reading, order, steps, resumption. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { parseLine } from '../files.js';
import { Random } from '../random.js';
import type { ChatMessage } from './prompt-renderer.js';
import type { Model } from './model.js';
import type { StepStatistics, Trainer, TrainSequence } from './trainer.js';

const message = z.object({ role: z.string(), content: z.string() });
const messages = z.array(message).min(1);
const example = z.union([
  z.object({ messages: messages.min(2) }),
  z.object({ prompt: z.union([z.string(), messages]), completion: z.union([z.string(), messages.length(1)]) }),
]);

export interface FineTuningData {
  readonly sequences: readonly TrainSequence[];
  /** Examples longer than `maxTokens`: left out, since a truncated answer would teach to stop anywhere. */
  readonly tooLong: number;
}

/** A reply as the model would have said it: the tokens of its text, and the one that ends the turn. */
export function replyTokens(model: Pick<Model, 'info' | 'tokenize'>, text: string): Int32Array {
  const { eot, eos } = model.info;
  const end = eot >= 0 ? eot : eos;
  return Int32Array.from([...model.tokenize(text), ...(end >= 0 ? [end] : [])]);
}

/**
 * Examples in the forms of TRL and mlx-lm, one JSON object a line: {"messages": [...]} whose last message is the answer,
 * or {"prompt", "completion"} as texts or messages. The prompt is rendered by the model's template exactly as for
 * generation; only the answer and its end-of-turn token are labelled.
 * @throws IsoproError INVALID_ARGUMENT naming the line
 */
export async function readExamples(lines: AsyncIterable<string>, model: Model, maxTokens: number): Promise<FineTuningData> {
  const sequences: TrainSequence[] = [];
  let tooLong = 0;
  let number = 0;
  for await (const line of lines) {
    number++;
    if (line.trim() === '') continue;
    const { prompt, answer } = parseExample(line, number);
    if (answer === '') throw new IsoproError('INVALID_ARGUMENT', `line ${number}: the answer is empty; it would teach to say nothing`);
    const promptIds = model.renderChat(prompt as ChatMessage[]).tokenIds;
    const tokenIds = Int32Array.from([...promptIds, ...replyTokens(model, answer)]);
    if (tokenIds.length > maxTokens) tooLong++;
    else if (promptIds.length > 0 && tokenIds.length > promptIds.length) {
      sequences.push({ tokenIds, labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= promptIds.length ? 1 : 0)) });
    }
  }
  if (sequences.length === 0) throw new IsoproError('INVALID_ARGUMENT', `the file has no example of at most ${maxTokens} tokens`);
  return { sequences, tooLong };
}

function parseExample(line: string, number: number): { prompt: { role: string; content: string }[]; answer: string } {
  const parsed = example.safeParse(parseLine(line, number));
  if (!parsed.success)
    throw new IsoproError('INVALID_ARGUMENT', `line ${number}: expected {"messages": [...]} or {"prompt", "completion"}`, {
      cause: parsed.error,
    });
  if ('messages' in parsed.data) {
    const last = parsed.data.messages.at(-1)!;
    if (last.role !== 'assistant') throw new IsoproError('INVALID_ARGUMENT', `line ${number}: the last message must be the assistant's`);
    return { prompt: parsed.data.messages.slice(0, -1), answer: last.content };
  }
  const { prompt, completion } = parsed.data;
  return {
    prompt: typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt,
    answer: typeof completion === 'string' ? completion : completion[0]!.content,
  };
}

export interface FineTuningPlan {
  readonly sequences: readonly TrainSequence[];
  /** Sequences a step. */
  readonly batchSize: number;
  readonly steps: number;
  /** Of the order of the examples. */
  readonly seed: bigint;
}

/**
 * Steps from where the trainer stands up to `steps`. Every epoch has its own order, which depends on the seed alone:
 * a resumed run sees the same batches as an uninterrupted one. A step that is not finite throws NUMERIC_FAILURE.
 */
export async function* fineTune(
  trainer: Trainer,
  { sequences, batchSize, steps, seed }: FineTuningPlan,
  signal?: AbortSignal,
): AsyncGenerator<StepStatistics> {
  const batchesPerEpoch = Math.ceil(sequences.length / batchSize);
  let epoch = -1;
  let order: readonly TrainSequence[] = [];
  for (let step = trainer.info.steps; step < steps; step++) {
    if (Math.floor(step / batchesPerEpoch) !== epoch) {
      epoch = Math.floor(step / batchesPerEpoch);
      order = new Random(BigInt.asUintN(64, seed + BigInt(epoch))).shuffle(sequences);
    }
    const from = (step % batchesPerEpoch) * batchSize;
    const stats = await trainer.step(order.slice(from, from + batchSize), signal === undefined ? {} : { signal });
    if (!stats.applied)
      throw new IsoproError(
        'NUMERIC_FAILURE',
        `step ${stats.step}: ${stats.nonFinite.join(', ')} not finite; the adapter is as before the step`,
      );
    yield stats;
  }
}
