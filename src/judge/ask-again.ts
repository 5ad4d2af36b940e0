/** Asks the base model a run's questions again, where it decided in the run. */
import type { Adapter } from '../engine/adapter.js';
import { readLetters } from '../engine/letter-readout.js';
import type { Model } from '../engine/model.js';
import { letterAt, promptText } from '../monitor/policies/prompt.js';
import { ordersOf } from '../monitor/policies/readout.js';
import type { AskedAgain, CheckedQuestions } from './questions.js';

export interface AskAgainOptions {
  readonly model: Model;
  readonly sha256: string;
  /** The adapter that the model has, which is put back. */
  readonly adapter: Adapter | null;
  /** Questions at most. */
  readonly most: number;
  readonly signal?: AbortSignal | undefined;
}

/** @throws IsoproError as `Model.score` */
export async function askAgain(
  { commitment, reader, seed, questions }: CheckedQuestions,
  { model, sha256, adapter, most, signal }: AskAgainOptions,
): Promise<AskedAgain> {
  const none = (reason: string): AskedAgain => ({ asked: 0, same: 0, reason });
  if (commitment.kind !== 'readout') return none('the decider is not a model in the process');
  if (commitment.model.adapted) return none('the adapters that decided are not kept');
  if (commitment.model.sha256 !== sha256)
    return none(`${commitment.model.name} decided, which is not the base model of the run`);
  const replied = questions.filter(
    ({ asked: { failure } }) => failure === null || failure.code === 'REPLY_INVALID',
  );
  // spread over the run
  const chosen = replied.filter(
    (_, i) =>
      Math.floor((i * most) / replied.length) !== Math.floor(((i - 1) * most) / replied.length),
  );
  let same = 0;
  await model.setAdapter(null);
  try {
    for (const { asked, question } of chosen) {
      const orders = ordersOf(question, seed);
      const { logProbabilities } = await readLetters(
        model,
        orders.map((order) => promptText(question.prompt, order)),
        question.menu.map((_, place) => letterAt(place)),
        { signal },
      );
      const again = reader.read(question, { orders, logProbabilities }).choice;
      if (again === reader.read(question, asked.reply).choice) same++;
    }
  } finally {
    await model.setAdapter(adapter);
  }
  return { asked: chosen.length, same, reason: null };
}
