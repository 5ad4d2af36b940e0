/** Replies of any back end to a list of prompts, in the order of the prompts. */
import { sampleFrom, type Backend, type Reply, type SampleRequest } from '../backends/backend.js';
import type { PromptLine } from '../engine/prompt-file.js';
import { chatMessages } from '../engine/messages.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { FailedSamples } from '../evaluation/failed-samples.js';
import { given } from '../given.js';
import { deriveSeed } from '../random.js';

/** Replies that are asked for together. */
const WINDOW = 1024;

export interface GenerateRepliesRequest
  extends Pick<
    SampleRequest,
    'sampling' | 'maxTokens' | 'stop' | 'jsonSchema' | 'maxSequences' | 'signal'
  > {
  readonly samples: number;
  readonly seed: bigint;
  /** Share of the samples of a window that may have no reply. */
  readonly maxFailed: number;
  readonly onProgress?: (progress: { readonly replies: number; readonly failed: number }) => void;
}

export interface GeneratedReply extends Omit<Reply, 'promptIndex'> {
  readonly promptIndex: number;
  readonly id?: string;
  readonly messages: readonly ChatMessage[];
  readonly problem?: unknown;
}

interface Asked {
  readonly line: PromptLine;
  readonly messages: readonly ChatMessage[];
  readonly index: number;
}

/**
 * @throws IsoproError BACKEND_INCAPABLE for a prompt without messages; as sampleFrom;
 *   BACKEND_FAILED
 */
export async function* generateReplies(
  backend: Backend,
  lines: AsyncIterable<PromptLine> | Iterable<PromptLine>,
  { samples, seed, maxFailed, onProgress, ...request }: GenerateRepliesRequest,
): AsyncGenerator<GeneratedReply, void> {
  const size = Math.max(1, Math.floor(WINDOW / samples));
  let [replies, failed, index] = [0, 0, 0];
  let window: Asked[] = [];
  const ask = async function* (asked: readonly Asked[]): AsyncGenerator<GeneratedReply, void> {
    const lost = new FailedSamples(asked.length * samples, maxFailed);
    const held = new Map<number, Reply>();
    let next = 0;
    const sampled = sampleFrom(backend, {
      ...request,
      prompts: asked.map(({ line: { prompt }, messages, index: at }) => {
        const id = prompt.id ?? String(at);
        const key = { runSeed: seed, purpose: 'generate', iteration: 0, problemId: id };
        const seeds = Array.from({ length: samples }, (_, sample) =>
          deriveSeed({ ...key, sample }),
        );
        return { id, messages, seeds };
      }),
    });
    for await (const reply of sampled) {
      replies++;
      if (reply.finish === 'failed') {
        failed++;
        lost.take(reply.failure!);
      }
      onProgress?.({ replies, failed });
      held.set(reply.promptIndex * samples + reply.sampleIndex, reply);
      for (let ready = held.get(next); ready !== undefined; ready = held.get(next)) {
        held.delete(next++);
        const { line, messages, index: promptIndex } = asked[ready.promptIndex]!;
        const own = given({ id: line.prompt.id, problem: line.problem });
        yield { ...ready, promptIndex, messages, ...own };
      }
    }
    lost.end();
  };
  for await (const line of lines) {
    window.push({ line, messages: messagesOf(line, index), index: index++ });
    if (window.length < size) continue;
    yield* ask(window);
    window = [];
  }
  if (window.length > 0) yield* ask(window);
}

function messagesOf({ prompt: { messages, prompt } }: PromptLine, index: number): ChatMessage[] {
  if (messages !== undefined) return chatMessages.parse(messages) as ChatMessage[];
  if (prompt !== undefined) return [{ role: 'user', content: prompt }];
  throw new IsoproError(
    'BACKEND_INCAPABLE',
    `prompt ${index + 1} is a text to continue or token ids, which need a local model`,
    { remedy: 'Give it as a message: {"prompt": "…"} or {"messages": […]}.' },
  );
}
