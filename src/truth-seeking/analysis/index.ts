/** The eight analyzers of the reference (section 7), each with what it gives. */
import { agreementSchema } from './cross-setup-agreement.js';
import { attributionSchema } from './causal-attribution.js';
import { catalogSchema } from './results-catalog.js';
import { performanceSchema } from './performance-comparison.js';
import { relationshipSchema } from './evaluation-relationship.js';
import { tokenEvidenceSchema } from './token-level-evidence.js';
import { trainingEffectSchema } from './training-effect.js';
import { trajectoryScoresSchema } from './trajectory-score.js';

export const ANALYZERS = {
  'performance-comparison': {
    what: 'rank policies, compare them in pairs and with an external figure',
    result: performanceSchema,
  },
  'evaluation-relationship': {
    what: 'correlate the scores of two strategies',
    result: relationshipSchema,
  },
  'causal-attribution': { what: 'relate scores to features', result: attributionSchema },
  'cross-setup-agreement': {
    what: 'compare the scores of a policy under different setups',
    result: agreementSchema,
  },
  'token-level-evidence': {
    what: 'find the words that moved the belief',
    result: tokenEvidenceSchema,
  },
  'trajectory-score': {
    what: 'sort trajectories by score, best first',
    result: trajectoryScoresSchema,
  },
  'training-causal-effect': {
    what: 'measure the effect of training on scores',
    result: trainingEffectSchema,
  },
  'results-catalog': { what: 'list the results', result: catalogSchema },
} as const;
export type AnalyzerId = keyof typeof ANALYZERS;

export {
  attribute,
  type AttributionOptions,
  type CausalAttribution,
} from './causal-attribution.js';
export { crossSetupAgreement, type CrossSetupAgreement } from './cross-setup-agreement.js';
export { relateEvaluations, type EvaluationRelationship } from './evaluation-relationship.js';
export {
  comparePerformance,
  type PerformanceComparison,
  type PerformanceOptions,
} from './performance-comparison.js';
export { resultsCatalog, type Catalog } from './results-catalog.js';
export type { ScoredRun, Setup } from './scored-run.js';
export { tokenEvidence, type TokenEvidence } from './token-level-evidence.js';
export { trainingEffect, type TrainingEffect } from './training-effect.js';
export { trajectoryScores, type TrajectoryScores } from './trajectory-score.js';
