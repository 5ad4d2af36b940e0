/** How likely a model holds short answers to several forms of one question. */
import { given } from '../given.js';
import { commonBeginning } from './common-beginning.js';
import type { Model } from './model.js';

export interface LetterReadout {
  /** For each text, the log-probability of each answer as the beginning of a reply, in nats. */
  readonly logProbabilities: number[][];
  /** Tokens of the texts that were evaluated: what all begin with counts once. */
  readonly tokens: number;
}

/**
 * Reads answers on a model with the adapter that it has. One call evaluates what all texts begin
 * with only once.
 * @throws IsoproError as `score`
 */
export async function readLetters(
  model: Model,
  texts: readonly string[],
  answers: readonly string[],
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<LetterReadout> {
  const prompts = model
    .renderChats(texts.map((content) => [{ role: 'user', content }]))
    .map(({ tokenIds }) => tokenIds);
  const letters = answers.map((answer) => model.tokenize(answer));
  const shared = Math.max(1, commonBeginning(prompts));
  const continuations = prompts.flatMap((prompt) =>
    letters.map((letter) => Int32Array.from([...prompt.subarray(shared), ...letter])),
  );
  const scores = await model.score(
    prompts[0]!.subarray(0, shared),
    continuations,
    given({ signal: options.signal }),
  );
  const logProbabilities = prompts.map((_, k) =>
    letters.map((letter, i) =>
      scores[k * letters.length + i]!.subarray(-letter.length).reduce((sum, x) => sum + x, 0),
    ),
  );
  const apart = prompts.reduce((sum, prompt) => sum + prompt.length - shared, 0);
  return { logProbabilities, tokens: shared + apart };
}
