/** Reasoners that take part in a run. */
import type { Reasoner } from '../reasoner.js';

/** A reasoner with everything that determines its answers, as a run's folder keeps it. */
export type NamedReasoner = Reasoner & { readonly identity: object };

export interface TruthReasoners {
  readonly evaluated: NamedReasoner;
  /** Predicts, forecasts, and reads beliefs where the one that reasons has no log-probabilities. */
  readonly predictor: NamedReasoner | null;
  /** Says beliefs, rates and grades. Default: the predictor, or else the one that reasons. */
  readonly judge?: NamedReasoner | null;
}
