/** The rollouts stream of the log: how judged rollouts stand in it, and how they are read back. */
import { z } from 'zod';
import { dictionaryOf } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import type { NewRecord } from '../log/event-log.js';
import type { LogPayload, LogValue } from '../log/payload.js';
import { Random, deriveSeed } from '../random.js';
import type { JudgedRollout, RolloutGroup } from '../rollouts/sample.js';
import type { OpenTask } from '../tasks/open-task.js';
import { contrasts } from './advantages.js';
import type { RunSettings } from './settings.js';

/** What becomes of a rollout. */
export const ADMISSIONS = [
  'admitted', // into the replay buffer: its likelihood is raised where it is drawn
  'contrasted', // with the other samples of its problem: trained on with its advantage, up or down
  'failed', // by the verdict, or by what a control trains on instead of it
  'undecided',
  'incomplete', // it did not end by itself: training on it would teach to stop anywhere
  'contradictory', // its reasoning contradicts the problem
  'duplicate', // of an earlier sample of its problem
  'uninformative', // no sample of its problem has the other verdict: there is nothing to contrast it with
] as const;
export type Admission = (typeof ADMISSIONS)[number];

const verdictRecord = z.object({ kind: z.enum(['pass', 'fail', 'none']), violations: z.array(z.string()), details: z.array(z.string()).optional(), reason: z.string().optional() });

const problemRecord = z.object({ kind: z.literal('problem'), iteration: z.int(), problemId: z.string(), tier: z.string(), problem: dictionaryOf(z.unknown()), prompt: z.string().optional(), promptIds: z.array(z.int()) });
const rolloutRecord = z.object({
  kind: z.literal('rollout'),
  iteration: z.int(),
  problemId: z.string(),
  tier: z.string(),
  sample: z.int(),
  seed: z.string(),
  tokenIds: z.array(z.int()),
  text: z.string(),
  finish: z.enum(['stop', 'length', 'aborted']),
  adapterId: z.string().nullable(),
  /** Mean over the sampled tokens, nats, at temperature 1. */
  meanLogprob: z.number().nullable(),
  form: z.string().nullable(),
  verdict: verdictRecord,
  admission: z.enum(ADMISSIONS),
  /** Of a contrasted one. */
  advantage: z.number().optional(),
  /** 1 - smoothed solve rate of its problem; what the replay draws by. */
  weight: z.number(),
});
export type ProblemRecord = z.infer<typeof problemRecord>;
export type RolloutRecord = z.infer<typeof rolloutRecord>;

/** @throws IsoproError LOG_UNREADABLE */
export function readRolloutRecord(payload: LogPayload): ProblemRecord | RolloutRecord {
  const parsed = (payload.kind === 'problem' ? problemRecord : rolloutRecord).safeParse(payload);
  if (!parsed.success) throw new IsoproError('LOG_UNREADABLE', `a ${payload.kind} record of the rollouts stream does not have its form: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/** Two samples of one problem are near-duplicates when this part of their runs of five tokens is common (Jaccard). */
const SIMILAR = 0.9;
const SHINGLE = 5;

function shingles(tokenIds: Int32Array): Set<string> {
  const set = new Set<string>();
  for (let at = 0; at + SHINGLE <= tokenIds.length || at === 0; at++) set.add(tokenIds.subarray(at, at + SHINGLE).join());
  return set;
}

function similar(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  let common = 0;
  for (const each of a) if (b.has(each)) common++;
  return common >= SIMILAR * (a.size + b.size - common);
}

/** (passed + 1) / (decided + 2): neither 0 nor 1 whatever the few samples say. */
const smoothedSolveRate = (rollouts: readonly JudgedRollout[]): number => {
  const decided = rollouts.filter(({ verdict }) => verdict.kind !== 'none').length;
  return (rollouts.filter(({ verdict }) => verdict.kind === 'pass').length + 1) / (decided + 2);
};

/** Of what a verifier says about one reply, so many sentences of so many characters are kept for readers of the report. */
const DETAILS = 8;
const DETAIL_LENGTH = 300;

export interface AdmissionOptions {
  readonly task: OpenTask;
  readonly iteration: number;
  readonly runSeed: bigint;
  readonly settings: Pick<RunSettings, 'accept' | 'algorithm' | 'buffer' | 'style'>;
}

/** The groups of an iteration as records: each problem, then its samples with what becomes of them. */
export async function rolloutRecords(groups: readonly RolloutGroup[], options: AdmissionOptions): Promise<(ProblemRecord | RolloutRecord)[]> {
  const { task, iteration, settings } = options;
  const wanted = settings.accept === 'shuffled' ? shuffledVerdicts(groups, options) : ({ verdict }: JudgedRollout): boolean => verdict.kind === (settings.accept === 'failing' ? 'fail' : 'pass');
  const advantages = settings.algorithm === 'grpo' ? contrasts(groups) : null;
  const records: (ProblemRecord | RolloutRecord)[] = [];
  for (const { problem, promptIds, rollouts } of groups) {
    const { id: problemId, tier } = problem;
    const prompt = (await task.prompt(problem, settings.style)).map(({ content }) => content).join('\n\n').toWellFormed();
    records.push({ kind: 'problem', iteration, problemId, tier, problem: problem as unknown as Record<string, unknown>, prompt, promptIds: [...promptIds] });
    const weight = settings.accept === 'passing' ? 1 - smoothedSolveRate(rollouts) : 1;
    const kept: Set<string>[] = [];
    const admissionOf = async (rollout: JudgedRollout): Promise<Admission> => {
      if (rollout.verdict.kind === 'none') return 'undecided';
      if (rollout.finish !== 'stop') return 'incomplete';
      if (advantages !== null) return advantages.has(rollout) ? 'contrasted' : 'uninformative';
      if (!wanted(rollout)) return 'failed';
      if (settings.accept === 'passing' && (await task.checkTrace(problem, rollout.text)).length > 0) return 'contradictory';
      if (settings.buffer === 'classic') return 'admitted'; // the original removes no duplicates
      const own = shingles(rollout.tokenIds);
      if (kept.some((other) => similar(own, other))) return 'duplicate';
      kept.push(own);
      return 'admitted';
    };
    for (const rollout of rollouts) {
      const { sampleIndex: sample, seed, tokenIds, text, finish, adapterId, logprobs, verdict, form } = rollout;
      const { kind, violations, reason } = verdict;
      const advantage = advantages?.get(rollout);
      records.push({
        kind: 'rollout', iteration, problemId, tier, sample, seed: seed.toString(), tokenIds: [...tokenIds], text, finish, adapterId,
        meanLogprob: logprobs.length === 0 ? null : logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length,
        form, verdict: { kind, violations: violations.map(({ category }) => category), details: violations.slice(0, DETAILS).map(({ detail }) => detail.slice(0, DETAIL_LENGTH).toWellFormed()), ...(reason === undefined ? {} : { reason: reason.toWellFormed() }) },
        admission: await admissionOf(rollout), ...(advantage === undefined ? {} : { advantage }), weight,
      });
    }
  }
  return records;
}

/** Control: as many rollouts of each tier as passed, drawn among the complete ones whatever their verdict. */
function shuffledVerdicts(groups: readonly RolloutGroup[], { iteration, runSeed }: AdmissionOptions): (rollout: JudgedRollout) => boolean {
  const chosen = new Set<JudgedRollout>();
  for (const tier of new Set(groups.map(({ problem }) => problem.tier))) {
    const complete = groups.filter(({ problem }) => problem.tier === tier).flatMap(({ rollouts }) => rollouts.filter(({ finish, verdict }) => finish === 'stop' && verdict.kind !== 'none'));
    const passed = complete.filter(({ verdict }) => verdict.kind === 'pass').length;
    const random = new Random(deriveSeed({ runSeed, purpose: 'shuffled verdicts', iteration, problemId: tier, sample: 0 }));
    for (const rollout of random.shuffle(complete).slice(0, passed)) chosen.add(rollout);
  }
  return (rollout) => chosen.has(rollout);
}

export const asLogRecord = (record: ProblemRecord | RolloutRecord): NewRecord => ({ stream: 'rollouts', payload: record as unknown as { kind: string; [key: string]: LogValue } });
