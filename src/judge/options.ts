import { realpathSync } from 'node:fs';
import { sep } from 'node:path';
import { IsoproError } from '../errors.js';
import type { HeldOutRequest } from './held-out.js';
import type { TraceStep } from './trace.js';

/** Fresh problems of each tier, if nothing else is asked for. */
export const FRESH_PER_TIER = 25;
/** Upper limit of fresh problems of each tier. */
export const MOST_FRESH = 100;

/** Default of the accuracy that scores 1 (the original's). */
export const DEFAULT_TARGET = 0.92;

export interface JudgeOptions {
  readonly folder: string;
  /** The base model: a file, an alias or a URI; absent: the embedded one. */
  readonly model?: string;
  /** Public key of the run's witness; default: this machine's own. Never one from the folder. */
  readonly keyFile?: string;
  /** Files with signed heads that were kept elsewhere. */
  readonly headFiles?: readonly string[];
  /** The judge's own copy of a user's task. */
  readonly task?: string;
  /**
   * Judge's own copy of the task's check, if the task is data and its check is a file or runs one.
   */
  readonly check?: string;
  /** Accuracy that scores 1, in (0, 1]. */
  readonly target?: number;
  /** Held-out evaluations to measure again. Default both. */
  readonly heldOut?: HeldOutRequest['which'];
  /** Fresh problems of each tier for the submitted adapter; 0 for none. Default 25. */
  readonly fresh?: number;
  /**
   * Questions to a model in the process that are asked again, on the base model. Default 0. On the
   * run's class of machine each must be answered alike.
   */
  readonly askAgain?: number;
  /** Threads that judge replies at once; the report is the same with any number. */
  readonly verifierThreads?: number;
  readonly home?: string;
  readonly signal?: AbortSignal;
  readonly onStep?: (step: TraceStep) => void;
  readonly onProgress?: HeldOutRequest['onProgress'];
  /** Texts of what was forgotten, after the test problems. */
  readonly onForgetting?: HeldOutRequest['onProgress'];
  /** Fresh problems, after the test problems. */
  readonly onFresh?: HeldOutRequest['onProgress'];
}

/**
 * Refuses a key inside the run folder: a key that came with the evidence proves nothing.
 * @throws IsoproError INVALID_ARGUMENT, WITNESS_KEY_MISSING
 */
export function refuseKeyInside(folder: string, keyFile: string | undefined): void {
  if (keyFile === undefined) return;
  let key: string;
  try {
    key = realpathSync(keyFile);
  } catch (cause) {
    throw new IsoproError('WITNESS_KEY_MISSING', `there is no key at ${keyFile}`, { cause });
  }
  if (`${key}${sep}`.startsWith(`${realpathSync(folder)}${sep}`))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'the key is in the run folder, which proves nothing: get the key from where its owner publishes it',
    );
}

/** Checks the options of a judgement. @throws IsoproError INVALID_ARGUMENT, WITNESS_KEY_MISSING */
export function checkOptions({
  folder,
  keyFile,
  target = DEFAULT_TARGET,
  fresh = FRESH_PER_TIER,
}: JudgeOptions): void {
  if (!Number.isInteger(fresh) || fresh < 0 || fresh > MOST_FRESH)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `fresh problems of each tier must be 0 to ${MOST_FRESH}, not ${fresh}`,
    );
  if (!(target > 0 && target <= 1))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the target accuracy must be greater than 0 and at most 1, not ${target}`,
    );
  refuseKeyInside(folder, keyFile);
}
