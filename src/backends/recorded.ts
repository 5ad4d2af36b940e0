/**
 * Replies from a JSONL file, for tests and for judging the replies of another program.
 * docs/backends.md has the format.
 */
import path from 'node:path';
import { z } from 'zod';
import { canonicalJson } from '../canonical-json.js';
import { hashFile } from '../engine/adapter.js';
import { chatMessages } from '../engine/messages.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { readLines } from '../files.js';
import { given } from '../given.js';
import { TEXT_ONLY, type Backend, type Reply, type SamplePrompt } from './backend.js';

/** A line as `generate --json` and `eval --out` write it; other members are ignored. */
const line = z.object({
  id: z.string().optional(),
  prompt: z.object({ messages: chatMessages }),
  sampleIndex: z.int().min(0).optional(),
  text: z.string(),
  // the episode had no room for its next turn: what was said is judged as cut off
  finish: z
    .enum(['stop', 'length', 'context', 'aborted', 'refused', 'failed'])
    .transform((finish) => (finish === 'context' ? 'length' : finish)),
  promptTokens: z.int().min(0).optional(),
  tokens: z.int().min(0).optional(),
  tokenIds: z.array(z.int()).optional(),
});

type Recorded = Omit<Reply, 'promptIndex' | 'sampleIndex'>;
type Content = Pick<Reply, 'text' | 'finish'>;

/** Of a prompt, or of one prompt among several that ask the same. */
const keyOf = (messages: readonly ChatMessage[], id?: string): string =>
  canonicalJson([
    messages.map(({ role, content }) => ({ role, content })),
    ...(id === undefined ? [] : [id]),
  ]);
const alike = (a: Content, b: Content): boolean => a.text === b.text && a.finish === b.finish;

/**
 * Returns a back end that answers each prompt with the file's replies to the same messages,
 * whatever the sampling settings. Among lines with the same messages, those with the prompt's `id`
 * are used.
 * @throws IsoproError FILE_UNREADABLE, RECORDING_INVALID naming file and line
 */
export async function recordedBackend(file: string): Promise<Backend> {
  /**
   * By prompt and sample; null where lines of several ids say different things to the same
   * messages.
   */
  const replies = new Map<string, Map<number, Recorded | null>>();
  const samplesOf = (key: string): Map<number, Recorded | null> => {
    const samples = replies.get(key) ?? new Map<number, Recorded | null>();
    replies.set(key, samples);
    return samples;
  };
  // of what is read here, whatever becomes of the file
  const sha256 = file === '-' ? null : await hashFile(file);
  let number = 0;
  for await (const text of readLines(file)) {
    number++;
    if (text.trim() === '') continue;
    const refuse = (what: string, cause?: unknown): never => {
      throw new IsoproError('RECORDING_INVALID', `${file}, line ${number}: ${what}`, { cause });
    };
    const {
      id,
      prompt,
      sampleIndex,
      tokenIds,
      tokens = tokenIds?.length,
      promptTokens,
      ...content
    } = readLine(text, refuse);
    if (content.finish === 'aborted' || content.finish === 'failed') continue; // no reply
    const counts = {
      ...given({ promptTokens, tokens }),
    };
    const reply = { ...content, ...counts };
    const own = samplesOf(keyOf(prompt.messages, id));
    const sample = sampleIndex ?? own.size;
    const before = own.get(sample);
    if (before === null || (before !== undefined && !alike(before, reply)))
      refuse(
        `sample ${sample} of this prompt already has a different reply; give identical prompts an "id" each`,
      );
    own.set(sample, reply);
    if (id === undefined) continue;
    const shared = samplesOf(keyOf(prompt.messages));
    const other = shared.get(sample);
    shared.set(
      sample,
      other === undefined || (other !== null && alike(other, reply)) ? reply : null,
    );
  }
  if (replies.size === 0) throw new IsoproError('RECORDING_INVALID', `${file} contains no replies`);
  const find = ({ id, messages }: SamplePrompt, sample: number): Recorded | null =>
    replies.get(keyOf(messages, id))?.get(sample) ??
    replies.get(keyOf(messages))?.get(sample) ??
    null;
  return {
    identity: { kind: 'recorded', name: path.basename(file) },
    capabilities: TEXT_ONLY,
    ...(sha256 === null ? {} : { digest: async () => sha256 }),
    async *sample({ prompts, signal }) {
      const asked = prompts.flatMap((prompt, promptIndex) =>
        prompt.seeds.map((_, sampleIndex) => ({
          promptIndex,
          sampleIndex,
          id: prompt.id,
          found: find(prompt, sampleIndex),
        })),
      );
      const lacking = asked.filter(({ found }) => found === null);
      if (lacking.length > 0)
        throw new IsoproError(
          'RECORDING_INCOMPLETE',
          `${file} is missing ${lacking.length} of ${asked.length} replies; the first is sample ${lacking[0]!.sampleIndex} of prompt ` +
            lacking[0]!.id,
        );
      for (const { promptIndex, sampleIndex, found } of asked) {
        if (signal?.aborted === true) return;
        yield { ...found!, promptIndex, sampleIndex };
      }
    },
    dispose: async () => undefined,
  };
}

function readLine(
  text: string,
  refuse: (what: string, cause?: unknown) => never,
): z.output<typeof line> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return refuse(`not JSON: ${(cause as Error).message}`, cause);
  }
  const result = line.safeParse(value);
  if (result.success) return result.data;
  return refuse(
    result.error.issues.map((issue) => [issue.path.join('.'), issue.message].join(': ')).join('; '),
    result.error,
  );
}
