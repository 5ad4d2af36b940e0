/** What this machine can verify about the log of a run. */
import path from 'node:path';
import { IsoproError } from '../errors.js';
import { verifyRun } from '../log/local-trust.js';
import { namedRun } from '../run-folder/manifest.js';
import { RUN_STREAMS } from '../run-folder/streams.js';
import type { TruthVerification } from '../truth-seeking/run/verify.js';

export type Integrity =
  | Omit<TruthVerification, 'runId'>
  | { readonly outcome: 'unchecked'; readonly reason: string };

/**
 * Checks the log of a training run. A missing key or log is a finding too.
 * @throws IsoproError ABORTED
 */
export const checkIntegrity = (
  folder: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<Integrity> =>
  checkLog(folder, () =>
    verifyRun(folder, { streams: RUN_STREAMS, ...options, ...namedRun(folder) }),
  );

/** Checks the log of a folder with a verification of its kind. @throws IsoproError ABORTED */
export async function checkLog(
  folder: string,
  verify: () => Promise<TruthVerification>,
): Promise<Integrity> {
  try {
    return await verify();
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code === 'ABORTED') throw error;
    return {
      outcome: 'unchecked',
      reason: error.message.replaceAll(path.join(folder, path.sep), '').replace(/ at \/\S*/g, ''),
    };
  }
}

/** Text of a badge, and its tone. */
export function integrityLine(integrity: Integrity): {
  readonly text: string;
  readonly tone: 'good' | 'fair' | 'bad';
} {
  if (integrity.outcome === 'unchecked') return { text: 'log not checked', tone: 'fair' };
  const { outcome, signer, key } = integrity;
  if (outcome === 'open') {
    const by =
      signer !== 'witness'
        ? 'the run itself'
        : key.ownedByThisUser
          ? "this user's witness"
          : "another's witness";
    return {
      text: `log consistent, signed by ${by}`,
      tone: signer === 'witness' ? 'good' : 'fair',
    };
  }
  if (outcome === 'unterminated') return { text: 'log consistent, run not ended', tone: 'fair' };
  if (outcome !== 'ok') return { text: `log ${outcome}`, tone: 'bad' };
  if (signer !== 'witness') return { text: 'log complete, signed by the run itself', tone: 'fair' };
  return key.ownedByThisUser
    ? { text: "log complete, signed by this user's witness", tone: 'good' }
    : { text: "log complete, signed by another's witness", tone: 'good' };
}

/** Explains the badge in sentences. */
export function integrityText(integrity: Integrity): string[] {
  if (integrity.outcome === 'unchecked')
    return [`The log could not be checked when this page was written: ${integrity.reason}.`];
  const { outcome, disagreement, signer, records, signedRecords, heads, resumes, key } = integrity;
  const meaning = {
    ok: 'The log is complete, and a final signed head covers all of it.',
    open:
      'The log is consistent, its run is complete, and a signed head covers all of it. It stays open, because the run can be ' +
      'measured again.',
    unterminated: 'The log is consistent, but the run has not ended: there is no final head.',
    tampered: 'The log contradicts itself or a signed head. Nothing on this page is reliable.',
    truncated: 'Records that a signed head covers are missing. Nothing on this page is reliable.',
    equivocation:
      'Two different histories of the same size were signed. Nothing on this page is reliable.',
  }[outcome];
  return [
    meaning,
    ...(disagreement === null
      ? []
      : [`First disagreement: ${disagreement.table} ${disagreement.at}: ${disagreement.reason}.`]),
    `${records} records, ${signedRecords} of them under ${heads} signed head${heads === 1 ? '' : 's'}; resumed ${resumes} ` +
      `time${resumes === 1 ? '' : 's'}.`,
    signer === 'witness'
      ? 'Signed by a witness, a separate process that keeps every head.'
      : 'Signed by the run itself: no witness kept its heads.',
    key.ownedByThisUser
      ? 'The key belongs to the user who wrote this page, who could have signed any history. Another person should check the log against ' +
        'a key and heads that were published during the run.'
      : `Checked against the key ${key.text}.`,
  ];
}
