/** Who takes part in a run. */
import type { Policy } from '../policy.js';

/** A policy with all that its answers follow from, as a run's folder keeps it. */
export type NamedPolicy = Policy & { readonly identity: object };

export interface TruthPolicies {
  readonly evaluated: NamedPolicy;
  /** Predicts, forecasts, and reads beliefs where the one that reasons has no log-probabilities. */
  readonly predictor: NamedPolicy | null;
  /** Says beliefs, rates and grades. Default: the predictor, or else the one that reasons. */
  readonly judge?: NamedPolicy | null;
}
