/** Attempts at one run with a decider, each told what came of those before. */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { asJson, canonicalJson } from '../canonical-json.js';
import { checked } from '../engine/argument-check.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { isFile, makeFolder, readJson } from '../files.js';
import { given } from '../given.js';
import {
  attemptForm,
  attemptOf,
  feedbackOf,
  standingOf,
  type Attempt,
  type Standing,
} from '../harness/attempts.js';
import { judgeRun } from '../judge/judge.js';
import { compareRuns } from '../lookup/run-list.js';
import { LEVEL, type Finding } from '../run-folder/comparison.js';
import type { RunOptions } from '../training/hooks.js';
import { needsNoFile } from '../tasks/data/check.js';
import { isBuiltIn } from '../tasks/registry.js';
import { withProfile } from '../training/profile.js';
import {
  mergeSettings,
  requireMachine,
  resolveSettings,
  type RunSettingsInput,
} from '../training/settings.js';
import { count, output } from './members.js';
import { operation, WrongSetting } from './operation.js';
import { hooksOf } from './run.js';
import { RUN_FLAGS, runMembers } from './run-settings.js';
import { run } from './tracked-run.js';

const own = z.strictObject({
  attempts: count(100)
    .default(3)
    .describe('number of attempts; the same command continues an interrupted one'),
  out: output.default('attempts').describe('folder of the attempts'),
});

export interface AttemptsResult extends Standing {
  readonly format: 'isopro.attempts.v1';
  readonly attempts: readonly Attempt[];
}

const nameOf = (index: number): string => `attempt-${String(index).padStart(2, '0')}`;
const textOf = (value: unknown): Buffer[] => [Buffer.from(`${JSON.stringify(value, null, 2)}\n`)];
const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex');

/**
 * Compares two attempts on the test problems. The more attempts there are, the less may be chance.
 */
const accuracyFinding =
  (out: string, attempts: number) =>
  (a: Attempt, b: Attempt): Finding => {
    const { comparison } = compareRuns(path.join(out, a.run), path.join(out, b.run));
    const { difference, p } = comparison;
    if (difference === null || difference.mean === 0 || p >= LEVEL / Math.max(1, attempts - 1))
      return 'chance';
    return difference.mean > 0 ? 'better' : 'worse';
  };

export interface AttemptsOptions extends Omit<RunOptions, 'out' | 'feedback'> {
  readonly out: string;
  readonly attempts: number;
  readonly onAttempt?: (index: number, attempts: number) => void;
}

/**
 * Makes attempts one after the other. An attempt that was judged is never made again, whatever its
 * verdict; an error ends the attempts, and the same call goes on with the run that it ended.
 * @throws IsoproError INVALID_ARGUMENT where the folder holds attempts with other settings, and
 *   what a run and the judge throw
 */
export async function makeAttempts(
  settings: RunSettingsInput,
  { out, attempts: asked, onAttempt, ...options }: AttemptsOptions,
): Promise<AttemptsResult> {
  const attempts: Attempt[] = [];
  const resolved = resolveSettings(settings);
  const { model, task, check } = resolved;
  const identity = sha256(canonicalJson(asJson(resolved)));
  const standing = (): AttemptsResult => ({
    format: 'isopro.attempts.v1',
    ...standingOf(attempts, accuracyFinding(out, asked)),
    attempts,
  });
  for (let index = 1; index <= asked; index++) {
    const folder = path.join(out, nameOf(index));
    const judged = path.join(folder, 'attempt.json');
    if (isFile(judged)) {
      const attempt = checked(attemptForm, readJson(judged), judged);
      if (attempt.settings !== identity)
        throw new WrongSetting(
          `out: ${folder} holds an attempt with other settings; give another folder`,
        );
      attempts.push(attempt);
      continue;
    }
    onAttempt?.(index, asked);
    makeFolder(folder);
    const feedback = feedbackOf(attempts);
    if (feedback !== null)
      await writeFileAtomically(path.join(folder, 'feedback.txt'), [Buffer.from(feedback)]);
    const runFolder = path.join(folder, 'run');
    const result = await run(settings, {
      ...options,
      out: runFolder,
      ...given({ feedback: feedback ?? undefined }),
    });
    const report = await judgeRun({
      folder: runFolder,
      model: model.name,
      ...given({
        task: isBuiltIn(task) ? undefined : task,
        check: check !== undefined && !needsNoFile(check) ? check : undefined,
      }),
      ...given(options, 'signal'),
    });
    const attempt = attemptOf(report, {
      index,
      settings: identity,
      run: path.join(nameOf(index), 'run'),
      accuracy: result.test.after.mean,
      feedback: feedback === null ? null : sha256(feedback),
    });
    await writeFileAtomically(judged, textOf(attempt));
    attempts.push(attempt);
    await writeFileAtomically(path.join(out, 'attempts.json'), textOf(standing()));
  }
  return standing();
}

interface AttemptsRequest extends z.output<typeof own> {
  readonly stated: RunSettingsInput;
}

const isOwn = (name: string): boolean => name in own.shape;
const part = (all: object, isIn: (name: string) => boolean): Record<string, unknown> =>
  Object.fromEntries(Object.entries(all).filter(([name]) => isIn(name)));

export const harnessRun = operation<z.ZodObject, AttemptsResult, AttemptsRequest>({
  id: 'harness run',
  title: 'Make several attempts at one run, each with feedback on those before',
  settings: z.strictObject({ ...runMembers, ...own.shape }),
  flags: RUN_FLAGS,
  read(asked) {
    const stated = mergeSettings(part(asked as object, (name) => !isOwn(name)));
    requireMachine(resolveSettings(stated));
    return { ...checked(own, part(asked as object, isOwn), 'settings'), stated };
  },
  async run({ stated, out, attempts }, { signal, tell }) {
    const { onDownload, onNotice, ...hooks } = hooksOf(tell);
    const settings = await withProfile(stated, signal, onDownload);
    return makeAttempts(settings, {
      ...hooks,
      onNotice,
      out,
      attempts,
      signal,
      onAttempt: (index, of) => onNotice(`attempt ${index} of ${of}`),
    });
  },
});
