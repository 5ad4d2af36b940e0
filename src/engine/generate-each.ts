/**
 * Generation from any number of prompts: they are read as they are needed, and memory holds a
 * window of them.
 */
import { setImmediate } from 'node:timers/promises';
import { given as stated } from '../given.js';
import type { GenerationProgress, StageTime } from './addon.js';
import { namedPrompt, type GenerateRequest, type Prompt } from './generate-request.js';
import type { Rollout } from './generation.js';
import { withJson } from './json-form.js';
import type { Model } from './model.js';

/**
 * Rollouts of one request. The last of a window run in a batch that is no longer full: with so many
 * that costs a few per cent.
 */
const WINDOW = 1024;
/** Rendering a prompt takes a millisecond or two; signals are heard between so many. */
const RENDERED_TOGETHER = 32;

export interface NamedRollout extends Rollout {
  /** Id of the prompt, if it has one. */
  readonly promptId?: string;
  /** Prompt as it was passed in. */
  readonly prompt: Pick<Prompt, 'messages' | 'text' | 'tokenIds'>;
}

export interface GenerateEachRequest extends Omit<GenerateRequest, 'prompts' | 'onProgress'> {
  readonly prompts: AsyncIterable<Prompt | string> | Iterable<Prompt | string>;
  /**
   * Called with the rollouts and tokens since the start; `total` counts the prompts read so far.
   */
  readonly onProgress?: (progress: GenerationProgress) => void;
}

/**
 * Generates like `Model.generate`, for more prompts than fit into memory. Rollouts come in the
 * order of prompts and samples, each as soon as those before it are finished. Seeds are those of
 * one request with all prompts. A window of prompts is decoded together, which decides the last
 * bits of the logits.
 * @throws IsoproError as Model.generate, and whatever reading a prompt throws, after the rollouts
 *   of the windows before
 */
export async function* generateEach(
  model: Model,
  { prompts, onProgress, ...request }: GenerateEachRequest,
): AsyncGenerator<NamedRollout, void> {
  const samples = request.samples ?? 1;
  const none: StageTime = { seconds: 0, processorSeconds: 0 };
  const done: Done = {
    finished: 0,
    sampledTokens: 0,
    promptTokens: 0,
    prefill: none,
    decode: none,
    draw: none,
  };
  let first = 0;
  const together = Math.max(1, Math.ceil(WINDOW / Math.max(1, samples)));
  for await (const window of windows(model, prompts, together)) {
    const places = window.flatMap(({ rendered: { seeds } }, prompt) =>
      Array.from({ length: seeds?.length ?? samples }, (_, sample) => ({ prompt, sample })),
    );
    const held = new Map<string, Rollout>();
    let next = 0;
    const named = (rollout: Rollout): NamedRollout => {
      const { asked, rendered } = window[rollout.promptIndex]!;
      const promptIndex = first + rollout.promptIndex;
      const id = stated({ promptId: rendered.id });
      return withJson({ ...rollout, promptIndex, prompt: asked, ...id });
    };
    let last: GenerationProgress | undefined;
    const numbered = window.map(({ rendered }, at) => ({
      ...rendered,
      id: rendered.id ?? String(first + at),
    }));
    const rollouts = model.generate({
      ...request,
      prompts: numbered,
      onProgress: (progress) => {
        last = progress;
        onProgress?.(sum(done, progress, done.finished + progress.total));
      },
    });
    try {
      for await (const rollout of rollouts) {
        held.set(`${rollout.promptIndex}/${rollout.sampleIndex}`, rollout);
        for (let place = places[next]; place !== undefined; place = places[++next]) {
          const key = `${place.prompt}/${place.sample}`;
          const ready = held.get(key);
          if (ready === undefined) break;
          held.delete(key);
          yield named(ready);
        }
      }
    } catch (error) {
      // what was finished before the failure is not lost for one that was not
      for (const { prompt, sample } of places.slice(next)) {
        const rollout = held.get(`${prompt}/${sample}`);
        if (rollout !== undefined) yield named(rollout);
      }
      throw error;
    }
    first += window.length;
    if (last !== undefined) Object.assign(done, sum(done, last, 0));
  }
}

type Done = Pick<
  GenerationProgress,
  'finished' | 'sampledTokens' | 'promptTokens' | 'prefill' | 'decode' | 'draw'
>;

const added = (a: StageTime, b: StageTime): StageTime => ({
  seconds: a.seconds + b.seconds,
  processorSeconds: a.processorSeconds + b.processorSeconds,
});

function sum(done: Done, progress: GenerationProgress, total: number): GenerationProgress {
  return {
    ...progress,
    total,
    finished: done.finished + progress.finished,
    sampledTokens: done.sampledTokens + progress.sampledTokens,
    promptTokens: done.promptTokens + progress.promptTokens,
    prefill: added(done.prefill, progress.prefill),
    decode: added(done.decode, progress.decode),
    draw: added(done.draw, progress.draw),
  };
}

interface ReadPrompt {
  readonly asked: NamedRollout['prompt'];
  /** The same by its token ids. */
  readonly rendered: Prompt;
}

/** Rendered prompts, so many together. */
async function* windows(
  model: Model,
  prompts: AsyncIterable<Prompt | string> | Iterable<Prompt | string>,
  size: number,
): AsyncGenerator<ReadPrompt[], void> {
  let window: ReadPrompt[] = [];
  for await (const given of prompts) {
    const { messages, text, ...prompt } = namedPrompt(given);
    const asked = stated({ messages, text, tokenIds: prompt.tokenIds });
    const written = messages !== undefined || text !== undefined;
    window.push({
      asked,
      rendered: written ? { ...prompt, tokenIds: model.promptIds({ messages, text }) } : prompt,
    });
    if (window.length % RENDERED_TOGETHER === 0) await setImmediate();
    if (window.length < size) continue;
    yield window;
    window = [];
  }
  if (window.length > 0) yield window;
}
