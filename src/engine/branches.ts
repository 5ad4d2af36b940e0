/** Texts that go on from places of one text, the trunk: what is scored of them in one call. */
import { z } from 'zod';
import type { NativeBranch } from './addon.js';
import { bounded } from './bounded-list.js';
import { checked } from './argument-check.js';
import { tokenIds, type TokenIds } from './generate-request.js';

export interface Branch {
  /** How many tokens of the trunk stand before it, at least 1. */
  readonly at: number;
  readonly tokenIds: TokenIds;
  /** The first of its tokens whose log-probability is wanted. Default 0. */
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
