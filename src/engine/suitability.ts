/**
 * Suitability of a model file, from its header alone: whether it can be run, trained and chatted
 * with, and what does not work.
 */
import { IsoproError } from '../errors.js';
import type { ModelInspection } from './inspect.js';
import type { MemoryEstimate } from './memory-estimate.js';
import { PromptRenderer, type ChatMessage } from './prompt-renderer.js';

/**
 * `own`: the file's template; `none`: ChatML stands in for it; `invalid`: the file's template
 * cannot be rendered.
 */
export type Chat = {
  readonly template: 'own' | 'none' | 'invalid';
  /** Reason why it cannot be rendered. */
  readonly problem: string | null;
  /** True if it writes a system message instead of refusing or omitting it. */
  readonly system: boolean;
  /** Token ids that the file names as an answer's end. */
  readonly ends: readonly number[];
};

export interface Suitability {
  readonly chat: Chat;
  /** Size of an adapter of the default rank on every matrix of every layer. */
  readonly adapter: {
    readonly rank: number;
    readonly parameters: number /** With gradient and optimiser. */;
    readonly bytes: number;
  };
  /** Cautions about what does not work or works differently than expected, in sentences. */
  readonly cautions: readonly string[];
}

/** The default of `run`. */
const RANK = 16;
/** Weight, gradient and two moments in f32. */
const BYTES_PER_PARAMETER = 16;
/** Of what a template uses and is not supported. */
const MOST_NAMED = 10;
const ADAPTED = /^blk\.\d+\.(attn_(q|k|v|qkv|output)|ffn_(gate|up|down))\.weight$/;

/** Why it renders no question; null where it does. */
function problemOf(renderer: PromptRenderer): string | null {
  const question: ChatMessage = { role: 'user', content: 'Name three rivers.' };
  try {
    renderer.render([question], true);
    return null;
  } catch (error) {
    if (error instanceof IsoproError) return error.message;
    throw error;
  }
}

/** Of a template alone: the vocabulary has no part in whether it can be rendered. */
const rendererOf = (chatTemplate: string): PromptRenderer =>
  new PromptRenderer({
    ...{ chatTemplate, controlTokens: [], bos: -1, eos: -1, ends: [], addBos: false },
    ...{ tokenize: () => new Int32Array(), isInjective: false },
  });

function chatOf({ metadata }: ModelInspection, template: string, renderer: PromptRenderer): Chat {
  const problem = problemOf(renderer);
  const ids = ['eos', 'eot'].flatMap((name) => {
    const id = Number(metadata[`tokenizer.ggml.${name}_token_id`] ?? NaN);
    return Number.isInteger(id) ? [id] : [];
  });
  return {
    template: template === '' ? 'none' : problem === null ? 'own' : 'invalid',
    problem,
    system: problem === null && renderer.takesSystem,
    ends: [...new Set(ids)],
  };
}

/** @param available bytes of memory that could be had */
export function suitability(
  inspection: ModelInspection,
  memory: MemoryEstimate | null,
  available: number,
): Suitability {
  const { tensors, problem, trainingProblem } = inspection;
  const template = inspection.metadata['tokenizer.chat_template'] ?? '';
  const renderer = rendererOf(template);
  const chat = chatOf(inspection, template, renderer);
  const parameters = tensors
    .filter(({ name }) => ADAPTED.test(name))
    .reduce((sum, { dimensions: [inputs = 0, outputs = 0] }) => sum + RANK * (inputs + outputs), 0);
  const adapter = { rank: RANK, parameters, bytes: BYTES_PER_PARAMETER * parameters };
  const cautions: string[] = [];
  if (problem === null) {
    cautions.push(...inspection.warnings.map((warning) => `llama.cpp: ${warning}`));
    if (trainingProblem !== null) cautions.push(`run, train: ${trainingProblem.message}`);
    if (inspection.evaluatesAlone)
      cautions.push(
        'share prompts: the model keeps a state of the text that two samples cannot share, so each sample is evaluated ' +
          'by itself, and no prompt prefix is cached',
      );
    if (chat.template === 'none')
      cautions.push(
        'messages: the file has no chat template, so ChatML is used. If this is a base model, it does not know ChatML; ' +
          'use generate --raw to continue a text',
      );
    if (chat.template === 'invalid')
      cautions.push(
        `messages: the chat template cannot be rendered (${chat.problem}); token ids and --raw work`,
      );
    if (renderer.uncovered.length > 0) {
      const named = renderer.uncovered.slice(0, MOST_NAMED).join(', ');
      cautions.push(
        `messages: the chat template uses ${named}, which is not supported; a prompt that needs it is refused`,
      );
    }
    if (chat.template === 'own' && !chat.system)
      cautions.push(
        'system messages: the chat template does not support them; put their text into the question',
      );
    if (chat.ends.length === 0)
      cautions.push(
        'ends: the file names no end-of-text token, so a reply may end only at the token limit',
      );
    if (memory !== null && memory.totalBytes > available)
      cautions.push(
        'memory: the model does not fit into the available memory; use a smaller --context or a smaller quantisation',
      );
  }
  return { chat, adapter, cautions };
}
