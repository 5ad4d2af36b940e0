import { localBackend } from '../backends/local.js';
import { given } from '../given.js';
import { inTurns, type LogReader } from '../log/read.js';
import { Random } from '../random.js';
import { answer, samplingOf } from '../rollouts/answer.js';
import {
  readRolloutsRecord,
  type ProblemRecord,
  type RolloutRecord,
} from '../run-folder/rollout-records.js';
import type { OpenTask, Problem } from '../tasks/task.js';
import { courseSettings } from './course-settings.js';
import type { Findings } from './findings.js';
import { HardFail } from './hard-fail.js';
import { nonceSeed } from './nonce-seed.js';
import type { Step } from './step.js';
import { plural } from './trace.js';

/**
 * Samples a few rollouts again. The base model sampled those of the first iteration, and the judge
 * has it; later adapters are not kept. The nonce chooses the rollouts, so a run that invents
 * replies cannot know which ones are checked.
 */

/** Rollouts that are sampled again. */
export const RESAMPLED = 8;

/**
 * First tokens that identify a reply sampled with its seed. On another class of machine a reply may
 * differ from some token on, where rounding moved a draw.
 */
const FIRST = 16;

interface Chosen {
  readonly problem: ProblemRecord;
  readonly rollout: RolloutRecord;
}

/**
 * Chooses among the rollouts of the base model, each with the same probability (Vitter 1985,
 * algorithm R).
 */
async function choose(
  reader: LogReader,
  nonce: string,
  signal: AbortSignal | undefined,
): Promise<Chosen[]> {
  const random = new Random(nonceSeed('isopro.resample.v1', nonce));
  const chosen: Chosen[] = [];
  let problem: ProblemRecord | null = null;
  let seen = 0;
  for await (const record of inTurns(reader.records({ stream: 'rollouts' }), signal)) {
    if (record.payload.kind !== 'problem' && record.payload.kind !== 'rollout') continue;
    const taken = readRolloutsRecord(record);
    if (taken.iteration !== 1) break;
    if (taken.kind === 'problem') problem = taken;
    else if (taken.kind === 'rollout' && problem !== null && taken.adapterId === null) {
      const place = seen++ < RESAMPLED ? chosen.length : random.nextInteger(0, seen - 1);
      if (place < RESAMPLED) chosen[place] = { problem, rollout: taken };
    }
  }
  return chosen;
}

type Given = Pick<
  Findings,
  'options' | 'reader' | 'submitted' | 'nonce' | 'model' | 'start' | 'sameMachine' | 'opened'
>;

export const rolloutResampling: Step<keyof Given> = {
  name: 'rollout_resampling',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE', 'PROBLEM_INVALID'],
  run: async (found) => {
    const { submitted, opened } = found;
    if (opened.task === null) return { found: {}, detail: opened.reason, status: 'skipped' };
    if (submitted.adapter === null)
      return { found: {}, detail: 'nothing was trained', status: 'skipped' };
    const { asked, same } = await resample(found, opened.task);
    return {
      found: {},
      detail: `${same} of ${plural(asked, 'rollout')} of the first iteration, chosen by the nonce, match the log token by token`,
      status: same === asked ? 'pass' : 'findings',
    };
  },
};

/**
 * Samples the chosen rollouts again.
 * @returns the number of replies, and how many match the log token by token
 * @throws HardFail if the base model does not give what the log has; errors of task and model
 */
async function resample(
  { options, reader, nonce, model, start, sameMachine }: Given,
  task: OpenTask,
): Promise<{ readonly asked: number; readonly same: number }> {
  const { sampling } = courseSettings(start);
  // true if samples have the same bits as on the run's machine
  const exact = sameMachine && model.info.batchInvariant;
  const chosen = await choose(reader, nonce, options.signal);
  const plan: { problem: Problem; seeds: bigint[] }[] = [];
  for (const { problem, rollout } of chosen)
    plan.push({ problem: await task.readProblem(problem.problem), seeds: [BigInt(rollout.seed)] });
  const found: number[][] = [];
  const { style, maxTokens, maxSequences } = start.evaluation;
  const { temperature, topP } = sampling;
  await model.setAdapter(null);
  await answer(
    {
      backend: localBackend(model),
      plan,
      ...samplingOf(task, { style, temperature, topP, maxTokens }, maxSequences),
      ...given(options, 'signal'),
    },
    ({ earlier, rollout }) => {
      found[rollout.promptIndex] = [...earlier.map(({ reply }) => reply), rollout].flatMap(
        ({ tokenIds }) => [...tokenIds],
      );
    },
  );
  const beginsAlike = (i: number, length: number): boolean => {
    const { tokenIds } = chosen[i]!.rollout;
    return found[i]!.slice(0, length).join() === tokenIds.slice(0, length).join();
  };
  const same = chosen.filter((_, i) => beginsAlike(i, Infinity)).length;
  const begun = chosen.filter((_, i) => beginsAlike(i, FIRST)).length;
  if (exact ? same < chosen.length : chosen.length > 1 && begun === 0)
    throw new HardFail(
      'rollout_resampling',
      `of ${chosen.length} rollouts of the first iteration, chosen by the nonce and sampled again from the base model, ${same} ` +
        `${same === 1 ? 'matches' : 'match'} the log${exact ? '' : `, and none of them begins as logged`}`,
    );
  return { asked: chosen.length, same };
}
