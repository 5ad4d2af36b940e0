/** Chooses uniformly from the menu, by seed: what a decider has to be better than. */
import { deriveSeed, Random } from '../../random.js';
import type { Reader } from '../question.js';
import type { Evaluation } from '../evaluate-rules.js';
import type { TraineeTypes } from '../trainee.js';
import { renderPrompt } from './prompt.js';

/** @param seed of the run */
export const randomReader = <T extends TraineeTypes>(
  commitment: Reader['commitment'],
  seed: bigint,
): Reader<T> => ({
  source: 'random',
  commitment,
  render: (context, menu) => renderPrompt(context, menu, { form: 'letter' }),
  read({ context: { rule, evaluations }, menu }) {
    const { iteration } = evaluations.at(-1) as Evaluation;
    const drawn = new Random(
      deriveSeed({
        runSeed: seed,
        purpose: 'random decider',
        iteration,
        problemId: rule,
        sample: 0,
      }),
    );
    const { id } = menu[drawn.nextInteger(0, menu.length - 1)]!;
    return { choice: id, margin: null, agreement: null };
  },
});
