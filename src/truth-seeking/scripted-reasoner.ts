/**
 * A reasoner with scripted answers: an oracle for code that measures reasoners. Its tokens are code
 * points.
 */
import { hash } from 'node:crypto';
import type { TokenIds } from '../engine/generate-request.js';
import { asBranch, requireCapability, type Message, type Reasoner } from './reasoner.js';

export interface Script {
  /** Names the script; two scripts of one name are one policy. */
  readonly name: string;
  /** Default: an empty reply. */
  readonly reply?: (messages: readonly Message[], seed: bigint) => string;
  /**
   * Probabilities of answers at the end of a text, which includes the answer; an answer that is not
   * listed has probability 0. Without it the reasoner has no log-probabilities.
   */
  readonly answers?: (text: string) => Readonly<Record<string, number>>;
}

const idsOf = (text: string): number[] =>
  Array.from(text, (character) => character.codePointAt(0)!);
/** Not `String.fromCodePoint(...ids)`, whose arguments have to fit on the stack. */
const textOf = (ids: TokenIds): string =>
  Array.from(ids, (id) => String.fromCodePoint(id)).join('');

export function scriptedReasoner({ name, reply, answers }: Script): Reasoner {
  const reasoner: Reasoner = {
    id: hash('sha256', `scripted ${name}`),
    capabilities: { logprobs: answers !== undefined },
    infer: async (messages, { seed = 0n, maxTokens = 256 } = {}) => {
      const ids = idsOf(reply?.(messages, seed) ?? '');
      const tokenIds = ids.slice(0, maxTokens);
      return {
        text: textOf(tokenIds),
        tokenIds,
        finish: ids.length > maxTokens ? 'length' : 'stop',
      };
    },
    promptIds: (messages) =>
      idsOf(`${messages.map(({ role, content }) => `${role}: ${content}\n`).join('')}assistant: `),
    textIds: idsOf,
    score: async (prefix, targets) => {
      requireCapability(reasoner, 'logprobs');
      return targets.map((given) => {
        const { at, tokenIds: ids, from } = asBranch(given, prefix);
        const target = textOf(ids);
        const probable = answers?.(textOf(prefix.slice(0, at)) + target) ?? {};
        const said = Object.keys(probable).find((answer) => target.endsWith(answer));
        // The first token of an answer has its whole probability: the others follow from it, and
        // whatever stands before is certain.
        const [first, chance] =
          said === undefined
            ? [ids.length - 1, 0]
            : [ids.length - idsOf(said).length, probable[said]!];
        return Float64Array.from(ids, (_, i) => (i === first ? Math.log(chance) : 0)).subarray(
          from,
        );
      });
    },
  };
  return reasoner;
}
