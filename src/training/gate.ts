/** The guard on the dev problems: whether an iteration's adapter is significantly worse than the best one. */
import { mcnemarExact } from '../statistics/paired.js';
import type { VerdictKind } from '../tasks/task.js';

/** Verdict by problem id. */
export type Outcomes = ReadonlyMap<string, VerdictKind>;

export interface PairedTest {
  /** Problems that fail before and pass after, and the other way round. */
  readonly gained: number;
  readonly lost: number;
  /** Exact two-sided McNemar test. */
  readonly p: number;
}

/** Problems without a verdict on either side are left out. */
export function compareOutcomes(before: Outcomes, after: Outcomes): PairedTest {
  let [gained, lost] = [0, 0];
  for (const [id, kind] of before) {
    const now = after.get(id);
    if (kind === 'fail' && now === 'pass') gained++;
    if (kind === 'pass' && now === 'fail') lost++;
  }
  return { gained, lost, p: mcnemarExact(gained, lost) };
}
