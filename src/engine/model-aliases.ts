/**
 * Short names of well-known instruction-tuned models, all Q4_K_M: the makers' own GGUF repositories
 * where they hold that file in one piece, else bartowski's or unsloth's conversions.
 */
export interface ModelAlias {
  /** `hf:<owner>/<repository>/<file>` */
  readonly uri: string;
  /** Approximate size of the download, for lists before anything is fetched. */
  readonly approximateBytes: number;
}

/**
 * The model that ships with this package (assets/models/MODEL_CARD.md): a name that is always here
 * and never downloaded.
 */
export const EMBEDDED_MODEL = 'tiny';
export const EMBEDDED_MODEL_FILE = new URL('../../../assets/models/tiny.gguf', import.meta.url);

const hub = (file: string, approximateBytes: number): ModelAlias => ({
  uri: `hf:${file}`,
  approximateBytes,
});

export const MODEL_ALIASES: Readonly<Record<string, ModelAlias>> = {
  'qwen2.5-0.5b': hub('Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf', 0.49e9),
  'qwen2.5-1.5b': hub('Qwen/Qwen2.5-1.5B-Instruct-GGUF/qwen2.5-1.5b-instruct-q4_k_m.gguf', 1.12e9),
  'qwen2.5-3b': hub('Qwen/Qwen2.5-3B-Instruct-GGUF/qwen2.5-3b-instruct-q4_k_m.gguf', 2.1e9),
  'qwen2.5-7b': hub('bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf', 4.68e9),
  'llama-3.2-1b': hub(
    'bartowski/Llama-3.2-1B-Instruct-GGUF/Llama-3.2-1B-Instruct-Q4_K_M.gguf',
    0.81e9,
  ),
  'llama-3.2-3b': hub(
    'bartowski/Llama-3.2-3B-Instruct-GGUF/Llama-3.2-3B-Instruct-Q4_K_M.gguf',
    2.02e9,
  ),
  'gemma-2-2b': hub('bartowski/gemma-2-2b-it-GGUF/gemma-2-2b-it-Q4_K_M.gguf', 1.71e9),
  'smollm2-135m': hub(
    'bartowski/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct-Q4_K_M.gguf',
    0.105e9,
  ),
  'smollm2-360m': hub(
    'bartowski/SmolLM2-360M-Instruct-GGUF/SmolLM2-360M-Instruct-Q4_K_M.gguf',
    0.271e9,
  ),
  'qwen3-0.6b': hub('unsloth/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q4_K_M.gguf', 0.397e9),
  'qwen3-1.7b': hub('unsloth/Qwen3-1.7B-GGUF/Qwen3-1.7B-Q4_K_M.gguf', 1.11e9),
  'qwen3-4b': hub('Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf', 2.5e9),
};
