/** Texts that continue one text, the trunk, at several positions, scored in one call. */
import { z } from 'zod';
import type { NativeBranch } from './addon.js';
import { bounded } from './bounded-list.js';
import { checked } from './argument-check.js';
import { tokenIds, type TokenIds } from './generate-request.js';

export interface Branch {
  /** Number of tokens of the trunk before the branch, at least 1. */
  readonly at: number;
  readonly tokenIds: TokenIds;
  /** Index of the first token to score. Default 0. */
  readonly from?: number;
}

const branch = z.strictObject({
  at: z.int32().min(1),
  tokenIds,
  from: z.int32().min(0).default(0),
});

/** @throws IsoproError INVALID_ARGUMENT; whether a branch is on the trunk is the addon's to say */
export function nativeBranches(branches: readonly Branch[]): NativeBranch[] {
  return checked(bounded(z.array(branch)), branches, 'branches').map(
    ({ at, tokenIds: tokens, from }) => ({ at, tokens, from }),
  );
}
