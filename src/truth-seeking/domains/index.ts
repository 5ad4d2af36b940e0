/** The domains that come with the package. */
import { CONCEPTUAL } from './conceptual.js';
import type { Domain } from './domain.js';
import { NEGATION_PAIRS } from './negation-pairs.js';
import { PUZZLES_WITH_AN_EASY_ANSWER } from './puzzles.js';
import { SMALL_WORLD } from './small-world.js';
import { SUMS_AND_CLAIMS, SUMS_WITH_WRONG_USER } from './sums-and-claims.js';
import { THREE_URNS, URNS } from './three-urns.js';
import { VALUE_STATEMENTS } from './value-statements.js';

export const DOMAINS: readonly Domain[] = [
  ...[URNS, THREE_URNS, SUMS_AND_CLAIMS, SUMS_WITH_WRONG_USER, SMALL_WORLD],
  ...[NEGATION_PAIRS, VALUE_STATEMENTS, PUZZLES_WITH_AN_EASY_ANSWER, CONCEPTUAL],
];
