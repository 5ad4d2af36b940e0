/**
 * Badge for the last judgement in the folder of a run. The file is not signed: anyone who has the
 * folder can write one.
 */
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { RunRecord } from '../run-folder/read-run.js';
import { runPaths } from '../run-folder/paths.js';
import { shortcoming, toneOfConclusion } from '../text/conclusion.js';
import { label } from '../text/hostile-text.js';
import type { Integrity } from './integrity.js';

const form = z.object({
  format: z.literal('isopro.judge.v1'),
  runId: z.string().nullable(),
  verdict: z.enum(['pass', 'not_verified', 'hard_fail', 'not_ended']),
  failure: z.object({ name: z.string(), detail: z.string() }).nullable(),
  /** Checks that were not verified; absent in older traces. */
  notVerified: z.array(z.string()).max(100).optional(),
});

/** `none`: no judge has been here, or it judged another run. */
export type Judged = z.output<typeof form> | 'none' | 'unreadable';

export function readJudged({ folder, manifest }: Pick<RunRecord, 'folder' | 'manifest'>): Judged {
  let text: string;
  try {
    text = readFileSync(runPaths(folder).judgeTrace, 'utf8');
  } catch {
    return 'none';
  }
  try {
    const judged = form.parse(JSON.parse(text));
    return judged.runId === null || judged.runId === manifest.runId ? judged : 'none';
  } catch {
    return 'unreadable';
  }
}

export interface Badge {
  readonly text: string;
  readonly tone: 'good' | 'fair' | 'bad';
}

const AND_THE_MODEL = {
  good: '',
  fair: '; the model is not better beyond chance',
  bad: '; the model got worse',
} as const;

/**
 * Good news only where a judge passed the run, the log still holds, the key is of the user who
 * reads (of another's folder the file proves nothing), and the run came to a result with an adapter
 * of its own that is better than the model was, beyond chance.
 */
export function judgedBadge(judged: Judged, run: RunRecord, integrity: Integrity): Badge {
  if (judged === 'none') return { text: 'not judged', tone: 'fair' };
  if (judged === 'unreadable')
    return { text: 'not judged: judge-trace.json could not be read', tone: 'fair' };
  const { verdict, failure } = judged;
  if (verdict === 'hard_fail')
    return {
      text: `the judge rejected it: ${label(failure?.detail ?? 'no reason given', 200)}`,
      tone: 'bad',
    };
  if (verdict === 'not_ended')
    return { text: 'judged before the run had ended: no verdict', tone: 'fair' };
  if (verdict === 'not_verified') {
    const [first] = judged.notVerified ?? [];
    const what = first === undefined ? '' : `: ${label(first, 200)}`;
    return {
      text: `judged, not verified: no check failed, but not everything was measured and confirmed${what}`,
      tone: 'fair',
    };
  }
  if (integrity.outcome !== 'ok')
    return {
      text: 'a judge found the log intact, but this check does not confirm it',
      tone: 'fair',
    };
  if (!integrity.key.ownedByThisUser)
    return {
      text: 'according to a file in the folder, a judge found the log intact',
      tone: 'fair',
    };
  if (shortcoming(run) !== null)
    return {
      text: 'the judge found the log intact; the run has no result',
      tone: 'fair',
    };
  const tone = toneOfConclusion(run);
  return { text: `the judge found the log intact${AND_THE_MODEL[tone]}`, tone };
}
