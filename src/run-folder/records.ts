import { z } from 'zod';
import { dictionary, dictionaryOf, valueOf, type Dictionary } from '../dictionary.js';
import type { LogValue } from '../log/payload.js';
import { figuresGiven, figuresOf, type Figures, type Outcome } from '../statistics/index.js';
import { LORA_MODULE } from '../trainees/lora/structure.js';
import type { NewRunRecord } from './streams.js';

/**
 * Records that a run writes for its judge, beside the monitor's (monitor-records.ts). Their order in the log is the order in which
 * things happened; docs/run-folder.md says what must come before what.
 */

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const iteration = z.number().int().min(0);
const number = z.number().or(z.nan()).or(z.literal(Infinity)).or(z.literal(-Infinity));

const fraction = z.number().min(0).max(1);
const figureMembers = {
  score: fraction.optional(),
  forecast: z.object({ probability: fraction, outcome: z.boolean() }).optional(),
};
const figures = z.object(figureMembers);
const FIGURES_FIT = 'there are as many figures as verdicts, and a verdict of kind none has none';
const fit = (given: readonly Figures[] | undefined, kinds: readonly string[]): boolean =>
  given === undefined ||
  (given.length === kinds.length && given.every((each, i) => kinds[i] !== 'none' || figuresGiven([each]).length === 0));

/** What a trainee is made of, by module. */
export const structureOf = <S extends z.ZodType>(module: S) =>
  dictionaryOf(module).refine(
    (of) => Object.keys(of).every((name) => name.length >= 1 && name.length <= 200),
    "a module's name has 1 to 200 characters",
  );
const targets = structureOf(LORA_MODULE.form);
/** Rank and scale by module name (blk.3.attn_k). */
export type AdapterTargets = z.infer<typeof targets>;

/** `Trainer.info.targets` in the form of the log. */
export const adapterTargets = (
  list: readonly { readonly module: string; readonly rank: number; readonly scale: number }[],
): AdapterTargets => dictionary(list.map(({ module, rank, scale }) => [module, { rank, scale }]));

export const problem = z.object({
  kind: z.literal('problem'),
  iteration,
  problemId: z.string(),
  tier: z.string(),
  problem: dictionaryOf(z.unknown()),
  prompt: z.string().optional(),
  promptIds: z.array(z.int()),
});
/** Rollouts: what the rollouts that follow it answer. */
export type ProblemRecord = z.infer<typeof problem>;

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

/** Replies that did not end the episode: how many tokens each has, and what the model was told after it. */
export const turns = z.array(z.object({ tokens: z.int().min(1), text: z.string(), said: z.string(), saidIds: z.array(z.int()) })).min(1);
export type TurnRecord = z.infer<typeof turns>[number];

export const rollout = z.object({
  kind: z.literal('rollout'),
  iteration,
  problemId: z.string(),
  tier: z.string(),
  sample: z.int(),
  seed: z.string(),
  /** Of all its replies. */
  tokenIds: z.array(z.int()),
  turns: turns.optional(),
  /** Of the last reply. */
  text: z.string(),
  finish: z.enum(['stop', 'length', 'aborted']),
  adapterId: z.string().nullable(),
  /** Mean over the sampled tokens, nats, at temperature 1. */
  meanLogprob: number.nullable(),
  form: z.string().nullable(),
  verdict: z.object({
    kind: z.enum(['pass', 'fail', 'none']),
    violations: z.array(z.string()),
    details: z.array(z.string()).optional(),
    reason: z.string().optional(),
    ...figureMembers,
  }),
  admission: z.enum(ADMISSIONS),
  /** Of a contrasted one. */
  advantage: z.number().optional(),
  /** 1 - smoothed solve rate of its problem; what the replay draws by. */
  weight: z.number(),
});
/** Rollouts: one sample with its verdict, and what became of it in training. Readers take the members that they need. */
export type RolloutRecord = z.infer<typeof rollout>;

export const adapterState = z.object({ kind: z.literal('adapter_state'), iteration, digest: sha256, targets });
/**
 * Metrics: an adapter that can be gone back to, under the digest that `rollback`, `stop` and a gate name. The first one precedes the first
 * step.
 */
export type AdapterState = z.infer<typeof adapterState>;

export const gate = z.object({ kind: z.literal('gate'), iteration, cause: z.string().min(1).max(1000), restored: sha256 });
/** Effects: the dev gate put an earlier adapter back, named by its adapter_state. It makes no obligation. */
export type Gate = z.infer<typeof gate>;

const stage = z.enum(['prepared', 'iteration', 'submitted']);
export const checkpoint = z.object({ kind: z.literal('checkpoint'), stage, iteration, digest: sha256 });
/** Metrics: a checkpoint by the digest over all of it. The run goes on with none but those that live records under a signed head name. */
export type CheckpointNamed = z.infer<typeof checkpoint>;

const text = z.string().max(1000);
export const refusedCheckpoint = z.object({ kind: z.literal('refused_checkpoint'), name: text, reason: text });
/** Metrics: a checkpoint in the folder that a resumed run did not go on with, and why. */
export type RefusedCheckpoint = z.infer<typeof refusedCheckpoint>;

export const submission = z.object({ kind: z.literal('submission'), adapter: sha256.nullable(), targets });
/** Metrics: SHA-256 of the exported adapter file; null: nothing was trained. */
export type Submission = z.infer<typeof submission>;

export const probe = z.object({
  kind: z.literal('probe'),
  adapter: sha256.nullable(),
  batch: sha256,
  sequenceLosses: z.array(number).readonly(),
  gradNorm: number,
  modules: dictionaryOf(number),
});
/** Metrics: what the live diagnostic measured on the submitted adapter. */
export type ProbeRecord = z.infer<typeof probe>;

const heldOutMembers = z.object({
  kind: z.literal('held_out'),
  set: z.enum(['dev', 'test']),
  when: z.enum(['before', 'iteration', 'after']),
  iteration,
  /** SHA-256 of the adapter's file; null: the bare base. In `iteration` records a digest of adapter_state is as good. */
  adapter: sha256.nullable(),
  /** Of the problem ids, as in the manifest. */
  setSha256: sha256,
  /** [problem id, tier, verdict], in the set's order. */
  outcomes: z.array(z.tuple([sha256, z.string(), z.enum(['pass', 'fail', 'none'])])),
  /** What each verdict says beside its kind; absent where none says anything. */
  figures: z.array(figures).optional(),
});
export const heldOut = heldOutMembers.refine(
  (record) =>
    fit(
      record.figures,
      record.outcomes.map(([, , kind]) => kind),
    ),
  FIGURES_FIT,
);
/** Evaluations: a greedy evaluation on a whole evaluation set of the manifest. */
export type HeldOut = z.infer<typeof heldOut>;

const tier = z
  .object({ id: z.string(), title: z.string().default(''), trains: z.boolean().default(true), group: z.string().optional() })
  .transform(({ group, ...rest }) => ({ ...rest, ...(group === undefined ? {} : { group }) }));

const policiesMembers = z.object({
  kind: z.literal('policies'),
  /** The task's, in its order. */
  tiers: z.array(tier),
  /** By policy: a verdict for each test problem, in the set's order. */
  outcomes: dictionaryOf(z.array(z.enum(['pass', 'fail', 'none']))),
  /** By policy: what each verdict says beside its kind; absent where none says anything. */
  figures: dictionaryOf(z.array(figures)).optional(),
});
export const policies = policiesMembers.refine(
  (record) =>
    record.figures === undefined ||
    Object.entries(record.outcomes).every(([policy, kinds]) => fit(valueOf(record.figures!, policy) ?? [], kinds)),
  FIGURES_FIT,
);
/** Evaluations: what programs without a model reach on the test set, after the `held_out` record of it before the training. */
export type Policies = z.infer<typeof policies>;

export const iterationReport = z.object({
  kind: z.literal('iteration_report'),
  iteration,
  /** SHA-256 of the token ids and labels of every step's sequences, in order. */
  data: z.string(),
  /** Of the adapter that the iteration ended with. */
  adapterId: z.string(),
  /** Between trainer and sampler, nats; null where it was not measured. */
  samplerGap: number.nullable(),
  learningRate: z.number(),
  seconds: z.object({ rollouts: z.number(), training: z.number(), evaluation: z.number() }),
  tokens: z.object({ sampled: z.number().int().min(0), trained: z.number().int().min(0) }),
});
/** Evaluations: what an iteration did and cost. Its figures are derived from the other records (derived.ts). */
export type IterationRecord = z.infer<typeof iterationReport>;

const payload = (value: object): NewRunRecord['payload'] => value as { readonly kind: string; readonly [key: string]: LogValue };

export const adapterStateRecord = (value: Omit<AdapterState, 'kind'>): NewRunRecord => ({
  stream: 'metrics',
  payload: payload(adapterState.parse({ ...value, kind: 'adapter_state' })),
});
export const checkpointRecord = (value: Omit<CheckpointNamed, 'kind'>): NewRunRecord => ({
  stream: 'metrics',
  payload: payload(checkpoint.parse({ ...value, kind: 'checkpoint' })),
});
export const refusedCheckpointRecord = (value: Omit<RefusedCheckpoint, 'kind'>): NewRunRecord => ({
  stream: 'metrics',
  payload: payload(refusedCheckpoint.parse({ ...value, kind: 'refused_checkpoint' })),
});
export const gateRecord = (value: Omit<Gate, 'kind'>): NewRunRecord => ({
  stream: 'effects',
  payload: payload(gate.parse({ ...value, kind: 'gate' })),
});
export const submissionRecord = (value: Omit<Submission, 'kind'>): NewRunRecord => ({
  stream: 'metrics',
  payload: payload(submission.parse({ ...value, kind: 'submission' })),
});
export const probeRecord = (value: Omit<ProbeRecord, 'kind'>): NewRunRecord => ({
  stream: 'metrics',
  payload: payload(probe.parse({ ...value, kind: 'probe' })),
});
export const policiesRecord = ({
  tiers,
  verdicts,
}: Pick<Policies, 'tiers'> & { readonly verdicts: Dictionary<readonly Pick<Outcome, 'kind' | keyof Figures>[]> }): NewRunRecord => {
  const given = Object.entries(verdicts);
  const outcomes = dictionary(given.map(([policy, judged]) => [policy, judged.map(({ kind }) => kind)] as const));
  const silent = figuresGiven(Object.values(verdicts).flat()).length === 0;
  const all = silent ? {} : { figures: dictionary(given.map(([policy, judged]) => [policy, judged.map(figuresOf)] as const)) };
  return { stream: 'evaluations', payload: payload(policies.parse({ kind: 'policies', tiers, outcomes, ...all })) };
};
export const iterationReportRecord = (value: Omit<IterationRecord, 'kind'>): NewRunRecord => ({
  stream: 'evaluations',
  payload: payload(iterationReport.parse({ ...value, kind: 'iteration_report' })),
});
export const heldOutRecord = (value: Omit<HeldOut, 'kind'>): NewRunRecord => ({
  stream: 'evaluations',
  payload: payload(heldOut.parse({ ...value, kind: 'held_out' })),
});
