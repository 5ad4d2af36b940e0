/** Rejection-sampling fine-tuning: likelihood steps on accepted rollouts. */
import { z } from 'zod';
import { jaccard, shingles } from '../shingles.js';
import { fates, rarity, unusable } from './admission.js';
import {
  algorithm,
  type AdmissionContext,
  type Fate,
  type Group,
  type Sample,
} from './algorithm.js';
import { chunks, takeSteps } from './steps.js';
import { seededRandom } from '../random.js';

/**
 * Two samples of one problem are near-duplicates when this part of their runs of five tokens is
 * common (Jaccard).
 */
const SIMILAR = 0.9;
const SHINGLE = 5;

/**
 * Control: as many rollouts of each tier as passed, drawn among the complete ones whatever their
 * verdict.
 */
function shuffledVerdicts<S extends Sample>(
  groups: readonly Group<S>[],
  { iteration, runSeed }: AdmissionContext<S, unknown>,
): (rollout: S) => boolean {
  const chosen = new Set<S>();
  for (const tier of new Set(groups.map((group) => group.tier))) {
    const complete = groups
      .filter((group) => group.tier === tier)
      .flatMap(({ rollouts }) =>
        rollouts.filter(({ finish, verdict }) => finish === 'stop' && verdict.kind !== 'none'),
      );
    const passed = complete.filter(({ verdict }) => verdict.kind === 'pass').length;
    const random = seededRandom(runSeed, 'shuffled verdicts', iteration, tier);
    for (const rollout of random.shuffle(complete).slice(0, passed)) chosen.add(rollout);
  }
  return (rollout) => chosen.has(rollout);
}

/**
 * Control: a coin for every rollout, whatever its reply, problem and tier, that falls as often as
 * the iteration's complete replies passed. Unlike the shuffled verdicts it does not keep which
 * tiers the model can solve.
 */
function randomVerdicts<S extends Sample>(
  groups: readonly Group<S>[],
  { iteration, runSeed }: AdmissionContext<S, unknown>,
): (rollout: S) => boolean {
  const all = groups.flatMap(({ rollouts }) => rollouts);
  const complete = all.filter((rollout) => unusable(rollout) === null);
  const passRate =
    complete.filter(({ verdict }) => verdict.kind === 'pass').length / complete.length;
  const random = seededRandom(runSeed, 'random verdicts', iteration);
  const chosen = new Set(all.filter(() => random.nextDouble() < passRate));
  return (rollout) => chosen.has(rollout);
}

/** Returns which rollouts to train on, by the setting `accept`. */
function wantedBy<S extends Sample>(
  groups: readonly Group<S>[],
  context: AdmissionContext<S, unknown>,
): (rollout: S) => boolean {
  switch (context.settings.buffer.accept) {
    case 'shuffled':
      return shuffledVerdicts(groups, context);
    case 'random':
      return randomVerdicts(groups, context);
    case 'failing':
      return ({ verdict }) => verdict.kind === 'fail';
    case 'references':
      return () => false;
    case 'passing':
      return ({ verdict }) => verdict.kind === 'pass';
  }
}

export const rft = algorithm({
  id: 'rft',
  title: 'rejection-sampling fine-tuning',
  replays: true,
  settings: z.object({
    /**
     * ReST-EM (Singh et al. 2024, arXiv 2312.06585 §3): what samples improves, what is trained
     * always begins as the base model.
     */
    fromBase: z
      .boolean()
      .default(false)
      .describe(
        'rft: train each iteration from the base model again, on everything accepted so far',
      ),
  }),
  contradictions: ({ algorithm: { fromBase }, monitor: { policy } }) =>
    fromBase && policy !== 'observe'
      ? [
          'algorithm.fromBase: each iteration restarts from the base model, which undoes remedies: use --policy observe',
        ]
      : [],
  startsAnew: ({ algorithm: { fromBase } }) => fromBase,
  readsReasoning: ({ buffer: { accept } }, { finish, verdict }) =>
    accept === 'passing' && finish === 'stop' && verdict.kind === 'pass',

  admit<S extends Sample>(
    groups: readonly Group<S>[],
    context: AdmissionContext<S, unknown>,
  ): Map<S, Fate> {
    const { accept, kind } = context.settings.buffer;
    const wanted = wantedBy(groups, context);
    return fates(groups, (group) => {
      const kept: Set<string>[] = [];
      const fateOf = (rollout: S): Omit<Fate, 'weight'> => {
        if (!wanted(rollout)) return { admission: 'failed' };
        if (rft.readsReasoning(context.settings, rollout) && context.contradicts(rollout))
          return { admission: 'contradictory' };
        // the original does not remove duplicates
        if (kind === 'classic') return { admission: 'admitted' };
        const own = shingles(rollout.tokenIds, SHINGLE, ',');
        if (kept.some((other) => jaccard(own, other) >= SIMILAR)) return { admission: 'duplicate' };
        kept.push(own);
        return { admission: 'admitted' };
      };
      return { weight: accept === 'passing' ? rarity(group) : 1, fateOf };
    });
  },

  learn: (context) => {
    const { buffer, settings, iteration, batchSize } = context;
    const wanted = settings.optimiser.stepsPerIteration * batchSize;
    const runSeed = BigInt(settings.seed);
    const traces = buffer.draw(settings.buffer, { runSeed, iteration, wanted });
    return takeSteps(context, chunks(traces, batchSize));
  },
});
