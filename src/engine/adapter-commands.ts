/** What to type into other programs so that they use an adapter in GGUF. */
import path from 'node:path';
import { shellWord } from '../shell-word.js';

const HELLO = '{"messages":[{"role":"user","content":"Hello"}]}';

/** Starts llama.cpp's server, and asks it. */
export const serverCommands = (model: string, adapter: string): readonly [start: string, ask: string] => [
  `llama-server --model ${shellWord(model)} --lora ${shellWord(adapter)} --port 8080`,
  `curl -s http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d '${HELLO}'`,
];

const quoted = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : `"${text}"`);

/** Of Ollama; paths are its own or relative to its folder. */
export const modelfile = (model: string, adapter: string): string => `FROM ${quoted(model)}\nADAPTER ${quoted(adapter)}\n`;

export const ollamaCommands = (name: string, file: string): readonly [create: string, run: string] => [
  `ollama create ${name} -f ${shellWord(file)}`,
  `ollama run ${name}`,
];

export const OLLAMA_TEMPLATE =
  "Ollama takes the chat template from the model's file where it knows it; `ollama show --template` says which. For another, add " +
  'TEMPLATE to the Modelfile.';

/** Under which a model with its adapter is registered in other programs: two adapters of one model have two names. */
export const adaptedName = (model: string, adapterSha256: string): string =>
  `${path.basename(model, '.gguf')}-adapted-${adapterSha256.slice(0, 8)}`.toLowerCase().replaceAll(/[^\w.-]/g, '-');
