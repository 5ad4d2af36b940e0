import type { z } from 'zod';
import { canonicalJson, type Json } from '../canonical-json.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { evaluationSet, wholeSets } from '../evaluation/evaluation-set.js';
import { HeldOutProblems } from '../evaluation/held-out-problems.js';
import { judgePolicies } from '../evaluation/policies.js';
import type { LogReader } from '../log/read.js';
import type { RunStart } from '../run-folder/manifest.js';
import { problem as problemRecord, rollout as rolloutRecord } from '../run-folder/records.js';
import { MAX_NONE_FRACTION } from '../statistics/index.js';
import type { OpenTask } from '../tasks/open-task.js';
import { problemId } from '../tasks/problem-id.js';
import type { Problem } from '../tasks/task.js';
import { onFiles } from './deliverables.js';
import type { CheckedFigures } from './figures.js';
import { HardFail } from './hard-fail.js';

/** Step 13: every logged rollout answers the problem that it names, has the verdict that the task gives, and none is of a held-out problem. */

const problemForm = problemRecord.omit({ prompt: true });
const rolloutForm = rolloutRecord.pick({
  problemId: true, tier: true, tokenIds: true, text: true, finish: true, form: true, verdict: true, admission: true,
});

const fail = (detail: string): never => {
  throw new HardFail('rollout_verification', detail);
};

/** Without the task only ids can be compared. @throws HardFail where a problem of an evaluation was sampled for training */
export function checkIds(reader: LogReader, { evaluations }: CheckedFigures): void {
  const heldOut = new Set(evaluations.flatMap(({ outcomes }) => outcomes.map(([id]) => id)));
  for (const { gseq, payload } of reader.records({ stream: 'rollouts' })) {
    if (typeof payload.problemId === 'string' && heldOut.has(payload.problemId)) fail(`record ${gseq}: a problem of an evaluation set was sampled for training`);
  }
}

export interface VerifyRequest {
  readonly reader: LogReader;
  readonly start: RunStart;
  readonly task: OpenTask;
  readonly model: Model;
  readonly figures: CheckedFigures;
  readonly signal?: AbortSignal;
}

export interface VerifiedRollouts {
  readonly rollouts: number;
  /** Verdicts, on the trivial policies too, that either side could not find, and the other could. */
  readonly undecided: number;
}

/** Counts verdicts that only one side could find: a verifier may run out of time once, and on no more than a hundredth of the replies. */
class Undecided {
  #all = 0;
  #undecided = 0;

  /** @throws HardFail where both sides decided, and not alike */
  compare(what: string, logged: string, own: string): void {
    this.#all++;
    if (logged === own) return;
    if (logged !== 'none' && own !== 'none') fail(`${what}: the run logged ${logged}, and the verifier says ${own}`);
    this.#undecided++;
  }

  /** @throws HardFail */
  settle(what: string): number {
    if (this.#undecided > Math.max(1, MAX_NONE_FRACTION * this.#all)) fail(`${this.#undecided} of ${this.#all} ${what} were found by one side only`);
    return this.#undecided;
  }
}

/** @throws HardFail, and what the judge's own copy of the task throws */
export async function verifyRollouts({ reader, start, task, model, figures, signal }: VerifyRequest): Promise<VerifiedRollouts> {
  const { style } = start.evaluation;
  const { algorithm, accept } = start.settings;
  const heldOut = new HeldOutProblems(await wholeSets(task), { model, task, style });
  const trained = new Map(task.tiers.map(({ id, trains }) => [id, trains]));

  /** The problem as the task reads it. */
  const problemOf = async (gseq: number, record: z.infer<typeof problemForm>): Promise<Problem> => {
    const problem = await onFiles('rollout_verification', ['PROBLEM_INVALID'], () => task.readProblem(record.problem));
    if (problem.id !== record.problemId || problem.tier !== record.tier || problemId(problem) !== problem.id) fail(`record ${gseq}: the problem is not the one that its id names`);
    if (trained.get(problem.tier) !== true) fail(`record ${gseq}: ${problem.tier} is no tier that is trained on`);
    const found = await heldOut.find(problem);
    if (found !== null) fail(`record ${gseq}: a problem of an evaluation set was sampled for training${found === 'prompt' ? '; its id is another, its prompt the same' : ''}`);
    const { tokenIds } = model.renderChat(await task.prompt(problem, style));
    if (tokenIds.length !== record.promptIds.length || record.promptIds.some((id, i) => id !== tokenIds[i])) fail(`record ${gseq}: the prompt is not the one of its problem`);
    return problem;
  };

  let problem: Problem | null = null;
  let rollouts = 0;
  const verdicts = new Undecided();
  for (const { gseq, payload } of reader.records({ stream: 'rollouts' })) {
    if (signal?.aborted === true) throw new IsoproError('ABORTED', 'judging was cancelled');
    if (payload.kind === 'problem') {
      const parsed = problemForm.safeParse(payload);
      problem = await problemOf(gseq, parsed.success ? parsed.data : fail(`record ${gseq} is no problem`));
    } else if (payload.kind === 'rollout') {
      const parsed = rolloutForm.safeParse(payload);
      const { problemId: id, tier, text, finish, tokenIds, form, verdict: logged, admission } = parsed.success ? parsed.data : fail(`record ${gseq} is no rollout`);
      if (problem === null || problem.id !== id || problem.tier !== tier) return fail(`record ${gseq}: the rollout does not follow its problem`);
      // the token that ended the turn is no text, whatever its kind
      if (model.detokenize(finish === 'stop' ? tokenIds.slice(0, -1) : tokenIds) !== text) fail(`record ${gseq}: the text is not what the sampled tokens say`);
      const own = await task.judge(problem, text, finish);
      verdicts.compare(`record ${gseq}`, logged.kind, own.verdict.kind);
      if (logged.kind !== 'none' && own.verdict.kind !== 'none' && (form !== own.form || canonicalJson(logged.violations as Json) !== canonicalJson(own.verdict.violations.map(({ category }) => category)))) {
        fail(`record ${gseq}: the run logged the violations ${logged.violations.join(', ') || 'none'}, and the verifier finds ${own.verdict.violations.map(({ category }) => category).join(', ') || 'none'}`);
      }
      if (admission === 'admitted' && algorithm === 'rft' && accept === 'passing') {
        if (logged.kind !== 'pass' || finish !== 'stop') fail(`record ${gseq}: trained on, and ${finish === 'stop' ? `its verdict is ${logged.kind}` : 'not complete'}`);
        const [finding] = await task.checkTrace(problem, text);
        if (finding !== undefined) fail(`record ${gseq}: trained on, and its reasoning contradicts the problem ("${finding.excerpt}")`);
      }
      rollouts++;
    }
  }
  let undecided = verdicts.settle('verdicts on rollouts');
  if (figures.policies !== null) {
    const { problems } = await onFiles('rollout_verification', ['INVALID_ARGUMENT'], () => evaluationSet(task, 'test', start.sets.test.perTier));
    undecided += await checkPolicies(figures.policies, task, problems);
  }
  return { rollouts, undecided };
}

/** @returns verdicts that only one side could find. @throws HardFail */
async function checkPolicies({ tiers, outcomes }: NonNullable<CheckedFigures['policies']>, task: OpenTask, problems: readonly Problem[]): Promise<number> {
  if (canonicalJson(tiers as unknown as Json) !== canonicalJson(task.tiers as unknown as Json)) fail("the tiers that the log names are not the task's");
  const own = await judgePolicies(task, problems);
  if (Object.keys(outcomes).sort().join() !== Object.keys(own).sort().join()) fail("the trivial policies in the log are not the task's");
  const verdicts = new Undecided();
  for (const [policy, kinds] of Object.entries(own)) kinds.forEach((kind, i) => verdicts.compare(`the trivial policy ${policy} on test problem ${i}`, outcomes[policy]![i] ?? 'nothing', kind));
  return verdicts.settle('verdicts on trivial policies');
}
