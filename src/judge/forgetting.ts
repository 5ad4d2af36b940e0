import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import {
  FORGETTING_TEXTS,
  forgettingTexts,
  measureForgetting,
  type ForgettingOptions,
} from '../evaluation/forgetting.js';
import { inTurns, type LogReader } from '../log/read.js';
import { loggedForgetting } from '../run-folder/derived-figures.js';
import { forgetting, type ForgettingRecord } from '../run-folder/evaluation-records.js';
import { restraintFault, type Restraint } from '../evaluation/restraint.js';
import type { Submission } from '../run-folder/course-records.js';
import type { RunStart } from '../run-folder/manifest.js';
import { readRecord } from '../run-folder/record.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { forgettingOf, type Forgetting } from '../statistics/index.js';
import { failing } from './hard-fail.js';

/** Step 10, its other half: what the run says that the model forgot, measured again. */

/** Nats a token by which the same arithmetic on a machine of the same class may differ. */
const TOLERANCE = 1e-3;
/**
 * Tolerance on another class of machine, where quantised products are rounded differently. The
 * limit of small models is 0.05.
 */
const OTHER_MACHINE_TOLERANCE = 2e-2;

/**
 * The run measured both with one addon on one machine; only where ranks differ the strength is
 * rounded with the factors.
 */
const OWN_TOLERANCE = 1e-4;

const fail = failing('test_set_evaluation');

export interface ForgettingComparison {
  readonly claimed: Forgetting;
  readonly measured: Forgetting;
  /** Nats a token, the largest of the figures. */
  readonly difference: number;
}

export interface ForgettingClaim {
  readonly record: ForgettingRecord;
  /** General prompts that the run's settings say it measures on. */
  readonly prompts: number;
}

/**
 * Reads the run's own measurement; null if it was not asked for one.
 * @throws HardFail unless there is exactly one where the settings promise it, of the submitted
 *   adapter and the right texts
 */
export async function readForgettingClaim(
  reader: LogReader,
  start: Pick<RunStart, 'settings'>,
  { adapter, restraint }: Pick<Submission, 'adapter' | 'restraint'>,
  signal?: AbortSignal,
): Promise<ForgettingClaim | null> {
  const { forgetting: prompts = 0, maxForgetting } = readWrittenSettings(start.settings).evaluation;
  const limit = prompts === 0 || adapter === null ? undefined : maxForgetting;
  if (restraint?.limit !== limit)
    fail(
      `the limit on forgetting is ${limit ?? 'none'}, but the submission states ${restraint?.limit ?? 'none'}`,
    );
  const claims: ForgettingRecord[] = [];
  for await (const record of inTurns(reader.records({ stream: 'evaluations' }), signal))
    if (record.payload.kind === 'forgetting') claims.push(readRecord(forgetting, record, fail));
  if (prompts === 0 && claims.length === 0) return null;
  const [claim] = claims;
  if (claim === undefined || claims.length !== 1 || prompts === 0)
    return fail(
      `the log holds ${claims.length} measurements of forgetting, but its settings ask for ${prompts === 0 ? 'none' : 'one'}`,
    );
  if (claim.adapter !== adapter)
    fail('forgetting was measured with a different adapter than the submitted one');
  if (
    claim.texts.english !== FORGETTING_TEXTS.english ||
    claim.texts.prompts !== FORGETTING_TEXTS.prompts
  )
    fail('forgetting was measured on different texts');
  if (restraint !== undefined) checkRestraint(restraint, loggedForgetting(claim));
  return { record: claim, prompts };
}

/**
 * The strength follows from what was tried, and the submitted adapter loses as much as was measured
 * at it.
 * @throws HardFail
 */
function checkRestraint(restraint: Restraint, { lost }: Forgetting): void {
  const fault = restraintFault(restraint);
  if (fault !== null) fail(`the limit on forgetting: ${fault}`);
  const tried = restraint.tried.find(({ strength }) => strength === restraint.strength)!;
  if (!(Math.abs(tried.lost - lost.mean) <= OWN_TOLERANCE))
    fail(
      `the submitted adapter loses ${lost.mean} nats a token, but ${tried.lost} were measured at that strength`,
    );
}

/**
 * Measures forgetting again and compares it with the run's claim. On a machine of the run's class
 * the base model gives the same replies to the general prompts; on another class the logged replies
 * are scored.
 * @throws HardFail if the claim leaves texts out or the measured figures refute it
 */
export async function checkForgetting(
  model: Model,
  { record: claim, prompts }: ForgettingClaim,
  adapter: Adapter | null,
  sameMachine: boolean,
  options: Pick<ForgettingOptions, 'signal' | 'onProgress'>,
): Promise<ForgettingComparison> {
  const replies = claim.replies.map(({ tokenIds }) => tokenIds);
  const texts = forgettingTexts(model, prompts);
  if (
    claim.english.map(({ tokens }) => tokens).join() !==
    texts.paragraphs.map(({ length }) => length).join()
  )
    fail('forgetting was not measured on the paragraphs that the settings require');
  if (replies.length !== texts.prompts.length)
    fail(
      `forgetting was measured on ${replies.length} replies to general prompts, but the settings ask for ${texts.prompts.length}`,
    );
  const { english, replies: scored } = await measureForgetting(model, adapter, {
    ...options,
    prompts,
    ...(sameMachine ? {} : { replies }),
  });
  const [claimed, measured] = [loggedForgetting(claim), forgettingOf(english, scored)];
  const figures = ({ english: of, divergence }: Forgetting): number[] => [
    of.before,
    of.after,
    divergence?.mean ?? 0,
  ];
  const own = figures(measured);
  const difference = Math.max(...figures(claimed).map((figure, i) => Math.abs(figure - own[i]!)));
  const tolerance = sameMachine ? TOLERANCE : OTHER_MACHINE_TOLERANCE;
  if (!(difference <= tolerance))
    fail(
      `forgetting: the run's figures differ by up to ${difference.toPrecision(2)} nats a token from those measured on ` +
        `${sameMachine ? 'a machine of its class' : 'another class of machine'}, and rounding explains at most ${tolerance}`,
    );
  return { claimed, measured, difference };
}
