/** Reasoners that take part in a run. */
import type { Reasoner } from '../reasoner.js';

/** A reasoner with everything that determines its answers, as a run's folder keeps it. */
export type NamedReasoner = Reasoner & {
  readonly identity: object;
  /** As `info.ownBits` of a model in this process; absent for other reasoners. */
  readonly ownBits?: number | null;
};

/** The models in this process whose bits show in what the reasoners say. */
export const computing = ({
  evaluated,
  predictor,
  judge = null,
}: TruthReasoners): { readonly ownBits: number | null }[] =>
  [evaluated, predictor, judge].flatMap((reasoner) =>
    reasoner?.ownBits === undefined ? [] : [{ ownBits: reasoner.ownBits }],
  );

export interface TruthReasoners {
  readonly evaluated: NamedReasoner;
  /** Predicts, forecasts, and reads beliefs where the one that reasons has no log-probabilities. */
  readonly predictor: NamedReasoner | null;
  /** Says beliefs, rates and grades. Default: the predictor, or else the one that reasons. */
  readonly judge?: NamedReasoner | null;
}
