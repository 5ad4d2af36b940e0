/**
 * Short names of well-known instruction-tuned models, all Q4_K_M: the makers' own GGUF repositories
 * where they hold that file in one piece, else conversions of ggml-org, bartowski or unsloth.
 */
export interface ModelAlias {
  /** `hf:<owner>/<repository>/<file>` */
  readonly uri: string;
  /** Approximate size of the download, for lists before anything is fetched. */
  readonly approximateBytes: number;
  /** Licence of the weights: its SPDX identifier, or the hub's name for a licence without one. */
  readonly licence: string;
  /** The developers have downloaded the file by this alias and run it. */
  readonly tested: boolean;
}

/**
 * The model that ships with this package (assets/models/MODEL_CARD.md): a name that is always here
 * and never downloaded.
 */
export const EMBEDDED_MODEL = 'tiny';
export const EMBEDDED_MODEL_LICENCE = 'Apache-2.0';
export const EMBEDDED_MODEL_FILE = new URL('../../../assets/models/tiny.gguf', import.meta.url);

/** Repository, file name and size come from public pages: no download was ever tried. */
const untested = (file: string, approximateBytes: number, licence: string): ModelAlias => ({
  uri: `hf:${file}`,
  approximateBytes,
  licence,
  tested: false,
});

export const MODEL_ALIASES: Readonly<Record<string, ModelAlias>> = {
  'qwen2.5-0.5b': untested(
    'Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf',
    0.49e9,
    'Apache-2.0',
  ),
  'qwen2.5-1.5b': untested(
    'Qwen/Qwen2.5-1.5B-Instruct-GGUF/qwen2.5-1.5b-instruct-q4_k_m.gguf',
    1.12e9,
    'Apache-2.0',
  ),
  'qwen2.5-3b': untested(
    'Qwen/Qwen2.5-3B-Instruct-GGUF/qwen2.5-3b-instruct-q4_k_m.gguf',
    2.1e9,
    'qwen-research',
  ),
  'qwen2.5-7b': untested(
    'bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf',
    4.68e9,
    'Apache-2.0',
  ),
  'qwen3-0.6b': untested('unsloth/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q4_K_M.gguf', 0.397e9, 'Apache-2.0'),
  'qwen3-1.7b': untested('unsloth/Qwen3-1.7B-GGUF/Qwen3-1.7B-Q4_K_M.gguf', 1.11e9, 'Apache-2.0'),
  'qwen3-4b': untested('Qwen/Qwen3-4B-GGUF/Qwen3-4B-Q4_K_M.gguf', 2.5e9, 'Apache-2.0'),
  'qwen3.5-0.8b': untested(
    'unsloth/Qwen3.5-0.8B-GGUF/Qwen3.5-0.8B-Q4_K_M.gguf',
    0.533e9,
    'Apache-2.0',
  ),
  'qwen3.5-2b': untested('unsloth/Qwen3.5-2B-GGUF/Qwen3.5-2B-Q4_K_M.gguf', 1.28e9, 'Apache-2.0'),
  'qwen3.5-4b': untested('unsloth/Qwen3.5-4B-GGUF/Qwen3.5-4B-Q4_K_M.gguf', 2.74e9, 'Apache-2.0'),
  'llama-3.2-1b': untested(
    'bartowski/Llama-3.2-1B-Instruct-GGUF/Llama-3.2-1B-Instruct-Q4_K_M.gguf',
    0.81e9,
    'llama3.2',
  ),
  'llama-3.2-3b': untested(
    'bartowski/Llama-3.2-3B-Instruct-GGUF/Llama-3.2-3B-Instruct-Q4_K_M.gguf',
    2.02e9,
    'llama3.2',
  ),
  'gemma-2-2b': untested('bartowski/gemma-2-2b-it-GGUF/gemma-2-2b-it-Q4_K_M.gguf', 1.71e9, 'gemma'),
  'gemma-3-1b': untested('ggml-org/gemma-3-1b-it-GGUF/gemma-3-1b-it-Q4_K_M.gguf', 0.806e9, 'gemma'),
  'gemma-3-4b': untested('ggml-org/gemma-3-4b-it-GGUF/gemma-3-4b-it-Q4_K_M.gguf', 2.49e9, 'gemma'),
  'smollm2-135m': untested(
    'bartowski/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct-Q4_K_M.gguf',
    0.105e9,
    'Apache-2.0',
  ),
  'smollm2-360m': untested(
    'bartowski/SmolLM2-360M-Instruct-GGUF/SmolLM2-360M-Instruct-Q4_K_M.gguf',
    0.271e9,
    'Apache-2.0',
  ),
  'smollm3-3b': untested('ggml-org/SmolLM3-3B-GGUF/SmolLM3-Q4_K_M.gguf', 1.92e9, 'Apache-2.0'),
  'granite-4.0-micro': untested(
    'ibm-granite/granite-4.0-micro-GGUF/granite-4.0-micro-Q4_K_M.gguf',
    2.1e9,
    'Apache-2.0',
  ),
  'granite-4.0-h-micro': untested(
    'ibm-granite/granite-4.0-h-micro-GGUF/granite-4.0-h-micro-Q4_K_M.gguf',
    1.94e9,
    'Apache-2.0',
  ),
  'phi-4-mini': untested(
    'unsloth/Phi-4-mini-instruct-GGUF/Phi-4-mini-instruct-Q4_K_M.gguf',
    2.49e9,
    'MIT',
  ),
};
