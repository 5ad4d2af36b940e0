/** The domains that come with the package. */
import type { Domain } from './domain.js';
import { SMALL_WORLD } from './small-world.js';
import { SUMS_AND_CLAIMS, SUMS_WITH_WRONG_USER } from './sums-and-claims.js';
import { THREE_URNS, URNS } from './three-urns.js';

export const DOMAINS: readonly Domain[] = [URNS, THREE_URNS, SUMS_AND_CLAIMS, SUMS_WITH_WRONG_USER, SMALL_WORLD];
