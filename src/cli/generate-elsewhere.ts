/** `generate --backend`: replies of a service, a server, a program or a person. */
import { z } from 'zod';
import { promptOf, readPromptLines } from '../engine/prompt-file.js';
import { IsoproError } from '../errors.js';
import { readJson, readLines } from '../files.js';
import { given } from '../given.js';
import {
  backendMembers,
  contradictionsOf,
  kindOf,
  openAsked,
  type BackendSettings,
} from '../operations/backend-settings.js';
import { Flags } from '../operations/flags.js';
import { generateReplies, type GeneratedReply } from '../operations/generate-replies.js';
import { WrongSetting } from '../operations/operation.js';
import { visible } from '../visible-text.js';
import { note } from './adapter-notes.js';
import { readSeed } from './option.js';
import { interrupted, interruption, jsonText, UsageError, write } from './output.js';
import { personScreen } from './person.js';
import { Progress } from './progress.js';

const schema = z.object(backendMembers);
/** Flags of whoever answers. */
export const backendFlags = new Flags(schema);

/** Flags of `generate` that need a model of this process. */
const OF_MODEL = [
  'model',
  'adapter',
  'task',
  'registry',
  'grammar',
  'threads',
  'raw',
  'stream',
  'fixedThreads',
] as const;

export interface GenerateFlags {
  readonly prompt?: readonly string[] | undefined;
  readonly prompts?: string | undefined;
  readonly system?: string | undefined;
  readonly json: boolean;
  readonly samples: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly topP: number;
  readonly minP: number;
  readonly repeatPenalty: number;
  readonly topK: number;
  readonly seed: string;
  readonly stop: readonly string[];
  readonly jsonSchema?: string | undefined;
  readonly adapterScale: number;
  readonly context?: number | undefined;
  readonly batch?: number | undefined;
}

/** Whether somebody else than a model in this process is to answer. */
export const isElsewhere = (argv: object): boolean => {
  const { backend } = argv as { readonly backend?: unknown };
  return backend !== undefined && backend !== 'local';
};

/** @throws UsageError */
function settingsOf(argv: GenerateFlags): BackendSettings {
  const refuse = (message: string): never => {
    throw new UsageError(backendFlags.named(message));
  };
  const read = schema.safeParse(backendFlags.read(argv as never));
  if (!read.success) {
    const [{ path, message }] = read.error.issues as [z.core.$ZodIssue];
    return refuse(`${path.join('.')}: ${message}`);
  }
  const settings = read.data;
  if (settings.backend.startsWith('local:'))
    return refuse('backend: name the model with --model instead');
  const [wrong] = contradictionsOf(settings);
  if (wrong !== undefined) return refuse(wrong);
  for (const name of OF_MODEL) {
    const value = (argv as unknown as Readonly<Record<string, unknown>>)[name];
    const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    if (value !== undefined && value !== false)
      return refuse(`--${flag} has no effect with the back end ${kindOf(settings)}: leave it out.`);
  }
  return settings;
}

/** @throws UsageError; as openAsked and generateReplies */
export async function generateWith(argv: GenerateFlags): Promise<void> {
  const settings = settingsOf(argv);
  const { prompt: typed = [], prompts: file, system, samples, maxTokens, stop, json } = argv;
  const { temperature, topP, minP, repeatPenalty, topK } = argv;
  const sampling = { temperature, topP, minP, repeatPenalty, topK };
  const jsonSchema =
    argv.jsonSchema === undefined ? undefined : (readJson(argv.jsonSchema) as object);
  const lines =
    file === undefined
      ? typed.map((one) => ({ prompt: promptOf(one, { system }) }))
      : readPromptLines(readLines(file), { system });
  const asked = { samples, maxTokens, stop: [...stop], seed: argv.seed, ...sampling };
  using screen =
    settings.backend === 'human' && process.stdin.isTTY === true ? personScreen() : null;
  const { backend, record } = await openAsked(
    settings,
    given({ ask: screen?.ask }),
    'generate',
    asked,
    argv.context,
  ).catch((error: unknown) => {
    if (error instanceof WrongSetting) throw new UsageError(backendFlags.named(error.message));
    throw error;
  });
  const signal = interruption();
  try {
    if (record !== null) note(`Replies are recorded in ${record}.`);
    using progress = new Progress({ label: 'generating', unit: 'answers' });
    const isReadable = !json && process.stdout.isTTY;
    const replies = generateReplies(backend, lines, {
      ...{ samples, maxTokens, stop, signal },
      sampling,
      seed: readSeed(argv.seed),
      maxFailed: settings.maxFailed,
      ...given({ jsonSchema, maxSequences: argv.batch }),
      onProgress: ({ replies: done, failed }) =>
        progress.update(done, failed === 0 ? {} : { note: `${failed} without a reply` }),
    });
    for await (const reply of replies) {
      progress.clear();
      await write(
        isReadable
          ? readableText(reply, typed.length === 1 && samples === 1)
          : `${jsonText(jsonOf(reply))}\n`,
      );
    }
    progress.finish();
  } catch (error) {
    throw record !== null && error instanceof IsoproError
      ? interrupted(
          error,
          'the generation',
          'The same command continues: replies that were recorded are not asked for again.',
        )
      : error;
  } finally {
    await backend.dispose();
  }
}

const jsonOf = ({
  promptIndex,
  id,
  sampleIndex,
  messages,
  text,
  finish,
  promptTokens,
  tokens,
  failure,
  problem,
}: GeneratedReply): object => ({
  promptIndex,
  ...given({ id }),
  sampleIndex,
  prompt: { messages },
  text,
  finish,
  ...given({ promptTokens, tokens, failure, problem }),
});

/** @param only whether there is no other answer, so that it needs no heading */
function readableText(
  { promptIndex, sampleIndex, finish, text, failure }: GeneratedReply,
  only: boolean,
): string {
  const said = failure === undefined ? text.trim() : `no reply: ${failure.message}`;
  const answer = `${visible(said)}\n`;
  return only
    ? answer
    : `--- prompt ${promptIndex + 1}, answer ${sampleIndex + 1}: ${finish}\n${answer}`;
}
