/** Commands for other programs that use an adapter in GGUF. */
import path from 'node:path';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { shellWord } from '../shell-word.js';
import type { ChatMessage } from './prompt-renderer.js';

/**
 * What a server of the OpenAI API is asked; the question is a stand-in.
 * @param before what stands before it
 */
export function askCommand(port: number, before: readonly ChatMessage[], model?: string): string {
  const messages = [
    ...before.map(({ role, content }) => ({ role, content })),
    { role: 'user', content: before.length > 0 ? 'QUESTION' : 'Hello' },
  ];
  const body = JSON.stringify({ ...given({ model }), messages }).replaceAll("'", '\\u0027'); // it stands in quotes
  return `curl -s http://127.0.0.1:${port}/v1/chat/completions -H 'Content-Type: application/json' -d '${body}'`;
}

/** Returns the commands that start llama.cpp's server and ask it. */
export const serverCommands = (
  model: string,
  adapter: string,
  before: readonly ChatMessage[] = [],
): readonly [start: string, ask: string] => [
  `llama-server --model ${shellWord(model)} --lora ${shellWord(adapter)} --port 8080`,
  askCommand(8080, before),
];

const quoted = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : `"${text}"`);

/** A text of several lines ends where one of them ends with three quotes. */
function tripleQuoted(text: string): string {
  if (/"""\s*[\r\n]/.test(text))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'a message before the questions has a line that ends with three quotes, which a Modelfile cannot represent',
      {
        remedy: 'Prepare the adapter for another program, such as --for llama-server.',
      },
    );
  return `"""${text}"""`;
}

/**
 * Of Ollama; paths are its own or relative to its folder.
 * @throws IsoproError INVALID_ARGUMENT for a text that cannot be said there
 */
export const modelfile = (
  model: string,
  adapter: string,
  before: readonly ChatMessage[] = [],
): string =>
  [
    `FROM ${quoted(model)}`,
    `ADAPTER ${quoted(adapter)}`,
    ...before.map(
      ({ role, content }) =>
        `${role === 'system' ? 'SYSTEM' : `MESSAGE ${role}`} ${tripleQuoted(content)}`,
    ),
    '',
  ].join('\n');

export const ollamaCommands = (
  name: string,
  file: string,
): readonly [create: string, run: string] => [
  `ollama create ${name} -f ${shellWord(file)}`,
  `ollama run ${name}`,
];

export const OLLAMA_TEMPLATE =
  'Ollama uses the chat template of the model file if it knows it; `ollama show --template` prints it. To use another, add ' +
  'TEMPLATE to the Modelfile.';

/**
 * Under which a model with its adapter is registered in other programs: two adapters of one model
 * have two names.
 */
export const adaptedName = (model: string, adapterSha256: string): string =>
  `${path.basename(model, '.gguf')}-adapted-${adapterSha256.slice(0, 8)}`
    .toLowerCase()
    .replaceAll(/[^\w.-]/g, '-');
