/** A decider that is a back end: a model that answers in text, on a server or in a program. */
import { z } from 'zod';
import {
  failureText,
  isCapable,
  sampleFrom,
  type Backend,
  type Reply,
} from '../backends/backend.js';
import { checked } from '../engine/argument-check.js';
import { IsoproError } from '../errors.js';
import { askedNow, readerOf, type DeciderCommitment } from '../monitor/policies/commitment.js';
import { promptText } from '../monitor/policies/prompt.js';
import { answerSchema, votesCount, votesFor } from '../monitor/policies/votes.js';
import type { Menu } from '../monitor/menu.js';
import type { Decider, Replied } from '../monitor/question.js';
import { deriveSeed } from '../random.js';
import type { LoraTypes } from '../trainees/lora/trainee.js';

/** A decider, and what the run's genesis commits to. */
export type LoraDecider = Decider<LoraTypes> & { readonly commitment: DeciderCommitment };

/** A back end that decides, and how it is asked. */
export interface DecidingBackend {
  /** Who answers; whoever opened it closes it. */
  readonly backend: Backend;
  /** Replies to a question about R6 or R7, of which the majority decides. Default 3. */
  readonly votes?: number;
  /** Default 0.7. */
  readonly temperature?: number;
  /** Most tokens of a reply. Default 400. */
  readonly maxTokens?: number;
}

export { votesCount };
export const DEFAULT_VOTES = 3;

const asking = z.strictObject({
  votes: votesCount.default(DEFAULT_VOTES),
  temperature: z.number().min(0).max(10).default(0.7),
  maxTokens: z.int().min(1).max(100_000).default(400),
});

/** Tokens that are counted in a reply, one way or the other. */
const tokensOf = (reply: Reply): Replied['tokens'] => ({
  prompt: reply.promptIds?.length ?? reply.promptTokens ?? 0,
  sampled: reply.tokenIds?.length ?? reply.tokens ?? 0,
});

/** @throws IsoproError INVALID_ARGUMENT */
export async function votesDecider(
  name: string,
  seed: bigint,
  feedback: string | null,
  { backend, ...given }: DecidingBackend,
): Promise<LoraDecider> {
  const { votes, temperature, maxTokens } = checked(asking, given, 'decider');
  const commitment: DeciderCommitment = {
    kind: 'votes',
    model: { name: backend.identity.name, sha256: (await backend.digest?.()) ?? null },
    sampling: { temperature, maxTokens, votes },
    ...askedNow('votes', feedback),
  };
  const jsonSchema = isCapable(backend, 'jsonSchema');
  return {
    ...readerOf<LoraTypes>(commitment, seed),
    commitment,
    name,
    async ask(question, { signal }): Promise<Replied> {
      const { prompt, menu, context } = question;
      const { rule, evaluations } = context;
      const seeds = Array.from({ length: votesFor(question, votes) }, (_, sample) =>
        deriveSeed({
          runSeed: seed,
          purpose: 'decider votes',
          iteration: evaluations.at(-1)!.iteration,
          problemId: rule,
          sample,
        }),
      );
      const texts: string[] = seeds.map(() => '');
      const tokens = { prompt: 0, sampled: 0 };
      const before = backend.spending?.cost ?? 0;
      for await (const reply of sampleFrom(backend, {
        prompts: [{ id: rule, messages: [{ role: 'user', content: promptText(prompt) }], seeds }],
        sampling: { temperature },
        maxTokens,
        ...(jsonSchema && { jsonSchema: answerSchema(menu as Menu) }),
        signal,
      })) {
        if (!['stop', 'length'].includes(reply.finish))
          throw new IsoproError(
            'BACKEND_REPLY_INVALID',
            `${backend.identity.name} gave no reply: ${reply.failure === undefined ? reply.finish : failureText(reply.failure)}`,
          );
        texts[reply.sampleIndex] = reply.text.slice(0, 100_000).toWellFormed();
        const { prompt: read, sampled } = tokensOf(reply);
        tokens.prompt += read;
        tokens.sampled += sampled;
      }
      const after = backend.spending?.cost;
      return { reply: texts, tokens, cost: after === undefined ? null : after - before };
    },
  };
}
