/**
 * Prepares an adapter for other programs: its files in the form that each reads, and the commands
 * to run.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';
import { shellWord } from '../shell-word.js';
import { hashFile } from './adapter.js';
import { PEFT_WEIGHTS } from './peft.js';
import {
  adaptedName,
  askCommand,
  modelfile,
  OLLAMA_TEMPLATE,
  ollamaCommands,
  serverCommands,
} from './adapter-commands.js';
import { convertAdapter, readAdapterFile, requireEverywhere } from './adapter-files.js';
import { writeFileAtomically } from './atomic-file.js';
import { checked } from './argument-check.js';
import { bounded } from './bounded-list.js';
import { mergeAdapter } from './model-export.js';
import type { ChatMessage } from './prompt-renderer.js';

export const ADAPTER_USERS = ['llama-server', 'ollama', 'lm-studio', 'transformers'] as const;
export type AdapterUser = (typeof ADAPTER_USERS)[number];

const said = z.strictObject({
  role: z.enum(['system', 'user', 'assistant']),
  content: z.string(),
}) as z.ZodType<ChatMessage, ChatMessage>;
const adapterUse = z.strictObject({
  for: z.enum(ADAPTER_USERS),
  /** Path of a GGUF, or of a folder in PEFT's format. */
  adapter: z.string().min(1),
  /** Path of the base model, a GGUF. */
  model: z.string().min(1),
  /**
   * SHA-256 of the base model that the adapter was trained on, if known; any other file is refused.
   */
  modelSha256: z.string().min(1).optional(),
  /** Output folder; created if missing. */
  out: z.string().min(1),
  /**
   * Messages before every question that the adapter was trained on: a system message, solved
   * examples. Default: none.
   */
  before: bounded(z.array(said)).default([]),
  /** Replace existing files, which may belong to another adapter. Default: false. */
  force: z.boolean().default(false),
});
export type AdapterUse = z.input<typeof adapterUse>;

export interface PreparedAdapter {
  /** Absolute paths of the written files. */
  readonly files: readonly string[];
  /** Shell commands to run, in this order. */
  readonly commands: readonly string[];
  /** What to know before running them. */
  readonly note: string;
}

/** Names of the files that are written to the folder. */
const FILES: Readonly<Record<AdapterUser, (name: string) => readonly string[]>> = {
  'llama-server': () => ['adapter.gguf'],
  ollama: () => ['adapter.gguf', 'Modelfile'],
  'lm-studio': (name) => [`${name}.gguf`],
  transformers: () => ['adapter_model.safetensors', 'adapter_config.json', 'reply.py'],
};

const IGNORES_IT =
  'A program that does not know its invocation tokens applies it to every token, and its answers are then wrong.';
/** What to know of an adapter that acts from the reply on. */
const ACTS_FROM_REPLY: Readonly<Record<AdapterUser, string>> = {
  'llama-server': `The adapter acts from the reply on: llama-server follows that, llama-cli does not. ${IGNORES_IT}`,
  ollama: `The adapter acts from the reply on, and whether Ollama follows that is unknown. ${IGNORES_IT}`,
  'lm-studio': IGNORES_IT,
  transformers: `The adapter acts from the reply on, which PEFT follows from version 0.18. ${IGNORES_IT}`,
};

const SCRIPT = new URL('../../../assets/python/reply.py', import.meta.url);

interface Place {
  readonly adapter: string;
  readonly model: string;
  readonly folder: string;
  /** Name under which other programs register it. */
  readonly name: string;
  readonly before: readonly ChatMessage[];
}

const PREPARE: Readonly<Record<AdapterUser, (place: Place) => Promise<PreparedAdapter>>> = {
  'llama-server': async ({ adapter, model, folder, before }) => {
    const file = await asGguf(adapter, model, folder);
    return {
      files: [file],
      commands: serverCommands(model, file, before),
      note: 'Run the second command once the server is listening. llama-cli takes the same --model and --lora.',
    };
  },
  ollama: async ({ adapter, model, folder, name, before }) => {
    // refused before anything is written
    const text = modelfile(model, path.join(folder, 'adapter.gguf'), before);
    const file = await asGguf(adapter, model, folder);
    const written = path.join(folder, 'Modelfile');
    await writeFileAtomically(written, [Buffer.from(text)]);
    const commands = ollamaCommands(name, written);
    return { files: [file, written], commands, note: OLLAMA_TEMPLATE };
  },
  'lm-studio': async ({ adapter, model, folder, name, before }) => {
    const file = path.join(folder, `${name}.gguf`);
    await mergeAdapter({ model, adapter, out: file });
    return {
      files: [file],
      commands: [
        `lms import --user-repo isopro-native/${name} ${shellWord(file)}`,
        `lms load ${name}`,
        ...(before.length === 0
          ? [`lms chat ${name}`]
          : ['lms server start', askCommand(1234, before, name)]),
      ],
      note:
        'LM Studio does not load adapters: this is the model with the adapter merged into it, in f16. ' +
        '`isopro-native adapters merge --type q8_0` makes a smaller one.',
    };
  },
  transformers: async ({ adapter, model, folder, before }) => {
    await convertAdapter({ adapter, model, format: 'peft', out: folder, baseModel: model });
    const script = path.join(folder, 'reply.py');
    const text = await readFile(SCRIPT, 'utf8');
    // a list of JSON is one of Python
    const own =
      before.length === 0
        ? text
        : text.replace(/^BEFORE = \[\]$/m, () => `BEFORE = ${JSON.stringify(before, null, 4)}`);
    await writeFileAtomically(script, [Buffer.from(own)]);
    return {
      files: FILES.transformers('').map((file) => path.join(folder, file)),
      commands: [
        'pip install torch transformers peft gguf',
        `python ${shellWord(script)} "${before.length === 0 ? 'Hello' : 'QUESTION'}"`,
      ],
      note:
        'transformers reads the base model from the same GGUF and unpacks it to f32, four bytes per parameter. ' +
        'reply.py shows how. PeftModel.from_pretrained takes the folder.',
    };
  },
};

async function asGguf(adapter: string, model: string, folder: string): Promise<string> {
  const file = path.join(folder, 'adapter.gguf');
  await convertAdapter({ adapter, model, format: 'gguf', out: file });
  return file;
}

/**
 * Writes what a program needs to use an adapter.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_CORRUPT, ADAPTER_CORRUPT, ADAPTER_MISMATCH (another
 *   base), INVALID_ARGUMENT, WRITE_FAILED, also for a file that is there
 */
export async function prepareAdapter(use: AdapterUse): Promise<PreparedAdapter> {
  const valid = checked(adapterUse, use, 'use');
  const adapter = path.resolve(valid.adapter);
  const model = path.resolve(valid.model);
  const folder = path.resolve(valid.out);
  const source = await readAdapterFile(adapter, null);
  if (valid.for === 'lm-studio')
    requireEverywhere(adapter, source, 'LM Studio only takes it merged into its base model');
  if (/[\n"]/.test(`${model}${folder}`))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'a path in a Modelfile cannot contain quotes or line breaks',
    );
  if (valid.modelSha256 !== undefined && (await hashFile(model)) !== valid.modelSha256)
    throw new IsoproError(
      'ADAPTER_MISMATCH',
      `${model} is not the model that the adapter was trained on: its SHA-256 differs`,
    );
  const weights = path.join(adapter, PEFT_WEIGHTS);
  const name = adaptedName(model, await hashFile(existsSync(weights) ? weights : adapter));
  const there = FILES[valid.for](name).find((file) => existsSync(path.join(folder, file)));
  if (there !== undefined && !valid.force)
    throw new IsoproError(
      'WRITE_FAILED',
      `${path.join(folder, there)} exists already and may belong to another adapter`,
      { remedy: 'Choose another folder with --out, or replace the files with --force.' },
    );
  makeFolder(folder);
  const place = { adapter, model, folder, name, before: valid.before };
  const prepared = await PREPARE[valid.for](place);
  if (source.invocationTokens.length === 0) return prepared;
  return { ...prepared, note: `${prepared.note} ${ACTS_FROM_REPLY[valid.for]}` };
}
