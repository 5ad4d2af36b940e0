/** The accuracy of whoever answers on a task's held-out problems, beside its trivial policies. */
import type { Backend, BackendIdentity, Spending } from '../backends/backend.js';
import type { Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import type { EvaluationOptions } from '../evaluation/answers.js';
import { evaluationSet, shortTiers, type EvaluationSet } from '../evaluation/evaluation-set.js';
import { evaluateGreedy, type GreedyEvaluation } from '../evaluation/greedy.js';
import {
  evaluatePassAtK,
  type PassAtKEvaluation,
  type PassAtKSummary,
} from '../evaluation/pass-at-k.js';
import { judgePolicies, summarisePolicies } from '../evaluation/policies.js';
import { given } from '../given.js';
import { commonestFailure, nothingAccepted } from '../text/failures.js';
import { label } from '../text/hostile-text.js';
import {
  figuresGiven,
  summarise,
  SUMMARY_SEED,
  type Measures,
  type Summary,
} from '../statistics/index.js';
import type { Failures } from '../tasks/failures.js';
import { SET_SIZE } from '../tasks/frozen-sets.js';
import { openTask, type OpenTaskOptions } from '../tasks/open-task.js';
import type { OpenTask, PromptStyle, VerdictKind } from '../tasks/task.js';
import { resolveSettings, type RunSettings } from '../training/settings.js';
import {
  answerFrom,
  answerLocally,
  findModel,
  loadingOf,
  runDefaults,
  type Answering,
} from './reply-source.js';
import { ksOf, type EvaluateRequest } from './evaluate-settings.js';
import { IN_FLIGHT, kindOf, modelNamed, openAsked } from './backend-settings.js';
import { howAsked } from './asking.js';
import { noticeTo, unreadableTask } from './notes.js';
import type { Context } from './operation.js';
import { RepliesFile } from './replies-file.js';

/** Result of `eval`. */
export interface TaskEvaluation {
  readonly backend: BackendIdentity & { readonly sha256: string | null };
  /** Null for a recording. */
  readonly model: { readonly path: string; readonly sha256: string } | null;
  readonly adapter: { readonly path: string; readonly sha256: string } | null;
  readonly task: Pick<OpenTask, 'id' | 'version'>;
  readonly set: Pick<EvaluationSet, 'name' | 'origin' | 'perTier' | 'sha256'> & {
    /** Number of problems. */
    readonly problems: number;
  };
  readonly style: PromptStyle;
  /** Max tokens of a reply; absent for a recording. */
  readonly maxTokens?: number;
  readonly fewShot: number;
  readonly constrained: boolean;
  /** Samples per problem; 1: greedy. */
  readonly samples: number;
  /** Accuracy of greedy replies. */
  readonly accuracy?: Summary;
  /** Sampling temperature; this and the following members are for samples only. */
  readonly temperature?: number;
  readonly seed?: string;
  readonly passAtK?: PassAtKEvaluation['passAtK'];
  readonly lenientPassAtK?: PassAtKEvaluation['passAtK'];
  readonly format?: PassAtKSummary;
  readonly majority?: Summary;
  readonly bestOfK?: Summary | null;
  readonly measures?: Measures;
  /** Replies without a verdict. */
  readonly none: number;
  readonly failures: Failures;
  readonly trivialPolicies: Readonly<Record<string, Summary>>;
  readonly policyNotes: OpenTask['policyNotes'];
  /** Null if the back end does not count tokens. */
  readonly promptTokens: number | null;
  readonly sampledTokens: number | null;
  readonly seconds: number;
  /** Samples without a reply, and those that a filter refused; absent if there can be none. */
  readonly failed?: number;
  readonly refused?: number;
  /** What requests to a service cost; absent for others. */
  readonly spending?: Spending;
  /** Advice for the user. */
  readonly advice: readonly string[];
}

/** Prompt settings: the stated ones, otherwise those of a run of the model. */
interface Asking {
  readonly style: PromptStyle;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly maxSequences: number;
}

const askingOf = (asked: EvaluateRequest, { sampling, model }: RunSettings): Asking => ({
  style: asked.style ?? sampling.style,
  maxTokens: asked.maxTokens ?? sampling.maxTokens,
  temperature: asked.temperature ?? sampling.temperature,
  maxSequences: asked.maxSequences ?? model.maxSequences,
});

export async function evaluateTask(
  asked: EvaluateRequest,
  context: Context,
): Promise<TaskEvaluation> {
  const kind = kindOf(asked);
  const isLocal = kind === 'local';
  const { model: stated = modelNamed(asked) } = asked;
  const named = isLocal ? await findModel({ ...asked, model: stated }) : null;
  await using task = await openTask(asked.task, openedWith(asked));
  if (asked.constrained && task.answerGrammar === null)
    throw new IsoproError('INVALID_ARGUMENT', `constrained: ${task.id} has no answer grammar`);
  const set = await evaluationSet(task, asked.set, asked.perTier ?? SET_SIZE[asked.set]);
  const note = noticeTo(context.tell);
  shortTiers(task, set).forEach(note);
  if (named !== null) note(unreadableTask(named.name, asked.task));
  told(context, 0, 0, isLocal ? 'loading the model' : `asking ${kind}`);
  const defaults = named === null ? resolveSettings({}) : await runDefaults(named.name, context);
  const asking = {
    ...askingOf(asked, defaults),
    ...(!isLocal && asked.maxSequences === undefined && { maxSequences: IN_FLIGHT }),
  };
  await using answering =
    named === null
      ? await answerFrom(
          await openAsked(asked, context, 'eval', dependsOn(asked, asking), asked.contextTokens),
        )
      : await answerLocally(named, loadingOf(defaults, asked), context);
  if (answering.record !== null) note(`Replies are recorded in ${answering.record}.`);
  await using file = asked.out === undefined ? null : await RepliesFile.open(asked.out);
  const started = performance.now();
  const measured = await measure({ task, set, answering, file }, asked, asking, context);
  await file?.written();
  const seconds = (performance.now() - started) / 1000;
  const judged = await judgePolicies(task, set.problems, { signal: context.signal });
  const figures = figuresGiven([
    ...(measured.greedy?.outcomes ?? []),
    ...Object.values(judged).flat(),
  ]);
  const policies = summarisePolicies(judged, set.problems, task.tiers, figures);
  const accuracy =
    measured.greedy === null
      ? null
      : summarise(measured.greedy.outcomes, task.tiers, { seed: SUMMARY_SEED, figures });
  const { failures, promptTokens, sampledTokens } = measured.greedy ?? measured.sampled;
  const { sampling, model } = defaults;
  const how = {
    model: { ...model, ...(named !== null && { name: named.name }) },
    task: asked.task,
    sampling: {
      ...sampling,
      ...asking,
      samples: asked.samples,
      ...given({ examples: asked.examples }),
    },
  };
  return {
    ...(await describedAs({ task, set, answering }, asked, asking)),
    ...(measured.greedy === null
      ? {
          ...(kind !== 'recorded' && { temperature: asking.temperature, seed: asked.seed }),
          ...figuresOfSamples(measured.sampled),
        }
      : { accuracy: accuracy!, none: accuracy!.none }),
    failures,
    trivialPolicies: policies,
    policyNotes: task.policyNotes,
    promptTokens,
    sampledTokens,
    seconds,
    ...unanswered(answering.backend, failures),
    advice: [
      ...beaten(accuracy, policies),
      ...(isLocal && isUnread(failures) ? [nothingAccepted(failures, {}, howAsked(how))] : []),
      ...undecidedPolicies(judged),
      ...(answering.backend.ignored ?? []).map((text) => `Of the service: ${label(text, 200)}.`),
    ],
  };
}

const openedWith = (asked: EvaluateRequest): OpenTaskOptions =>
  given(
    asked,
    ...(['check', 'answerTag', 'verifySeconds', 'system', 'examples', 'stop'] as const),
    ...(['judgeTruncated', 'verifierThreads', 'turns'] as const),
  );

/** What the replies of a service depend on besides who gives them. */
const dependsOn = (
  { task, set, samples, seed, fewShot, system, examples, turns, stop }: EvaluateRequest,
  { style, maxTokens, temperature }: Asking,
): Json => ({
  ...{ task, set, samples, seed, fewShot, style, maxTokens },
  ...given({ system, examples, turns, stop }),
  temperature: samples === 1 ? 0 : temperature,
});

/** Samples that no verifier saw, and what requests cost; nothing where each sample has a reply. */
function unanswered({ spending }: Backend, { rows }: Failures) {
  const count = (kind: 'failed' | 'refused'): number =>
    rows.reduce((sum, row) => sum + (row.kind === kind ? row.count : 0), 0);
  const [failed, refused] = [count('failed'), count('refused')];
  if (spending === undefined && failed + refused === 0) return {};
  return { failed, refused, ...given({ spending }) };
}

const told = ({ tell }: Context, done: number, total: number, note = ''): void =>
  tell({ type: 'progress', data: { stage: 'evaluating', done, total, unit: 'answers', note } });

interface Evaluated {
  readonly task: OpenTask;
  readonly set: EvaluationSet;
  readonly answering: Answering;
  readonly file: RepliesFile | null;
}

/** Greedy replies, or samples. */
type Replies =
  | { readonly greedy: GreedyEvaluation; readonly sampled?: never }
  | { readonly greedy: null; readonly sampled: PassAtKEvaluation };

async function measure(
  { task, set: { problems }, answering: { backend, adapter }, file }: Evaluated,
  asked: EvaluateRequest,
  { style, maxTokens, temperature, maxSequences }: Asking,
  context: Context,
): Promise<Replies> {
  const { samples, fewShot: count } = asked;
  const seed = BigInt(asked.seed);
  const options: EvaluationOptions = {
    maxFailed: asked.maxFailed,
    style,
    adapter,
    signal: context.signal,
    lenient: true,
    ...(count > 0 && { fewShot: { count, seed } }),
    ...(asked.constrained && { grammar: task.answerGrammar! }),
    maxTokens,
    maxSequences,
    endUndecided: true,
    onProgress: ({ done, total }) => told(context, done, total),
    onReply: (reply) => file?.add(reply),
  };
  if (samples === 1) return { greedy: await evaluateGreedy(backend, task, problems, options) };
  const ofSamples = { samples, temperature, seed, ks: ksOf(asked) };
  const sampled = await evaluatePassAtK(backend, task, problems, { ...options, ...ofSamples });
  return { greedy: null, sampled };
}

/** Description of the measurement. */
async function describedAs(
  { task, set, answering: { backend, adapter, model } }: Omit<Evaluated, 'file'>,
  { fewShot, constrained, samples }: EvaluateRequest,
  { style, maxTokens }: Asking,
) {
  const { name, origin, perTier, problems, sha256 } = set;
  return {
    backend: { ...backend.identity, sha256: (await backend.digest?.()) ?? null },
    model,
    adapter: adapter === null ? null : { path: adapter.path, sha256: adapter.id },
    task: { id: task.id, version: task.version },
    set: { name, origin, perTier, problems: problems.length, sha256 },
    style,
    ...(backend.identity.kind !== 'recorded' && { maxTokens }),
    fewShot,
    constrained,
    samples,
  };
}

const figuresOfSamples = ({
  passAtK,
  lenientPassAtK,
  format,
  chosen,
  none,
  measures,
}: PassAtKEvaluation) => ({
  passAtK,
  ...given({ lenientPassAtK }),
  format,
  ...chosen,
  none,
  ...given({ measures }),
});

/** Checks whether most replies fail because of their form. */
function isUnread(failures: Failures): boolean {
  const cause = commonestFailure(failures)?.kind;
  return (
    2 * failures.passed < failures.replies &&
    cause !== undefined &&
    ['format', 'truncated', 'context'].includes(cause)
  );
}

const percent = (fraction: number): string => `${(100 * fraction).toFixed(1)} %`;

/** A policy that solves as much as the replies do. */
function beaten(
  accuracy: Summary | null,
  policies: Readonly<Record<string, Summary>>,
): readonly string[] {
  const [best] = Object.entries(policies).sort(([, a], [, b]) => (b.mean ?? 0) - (a.mean ?? 0));
  if (best === undefined || accuracy === null || accuracy.mean === null) return [];
  const [name, { mean }] = best;
  return mean === null || mean < accuracy.mean
    ? []
    : [
        `A program without a model (${name}) solves ${percent(mean)}, and these replies solve ${percent(accuracy.mean)}.`,
      ];
}

/** Policies of whose answers the verifier decided none, with what it said of one. */
function undecidedPolicies(
  judged: Readonly<
    Record<string, readonly { readonly kind: VerdictKind; readonly reason?: string }[]>
  >,
): string[] {
  const lost = Object.entries(judged).filter(
    ([, verdicts]) => verdicts.length > 0 && verdicts.every(({ kind }) => kind === 'none'),
  );
  if (lost.length === 0) return [];
  const names = lost.map(([policy]) => policy).join(', ');
  return [
    `The verifier could not decide any answer of ${names}: ` +
      `${label(lost[0]![1][0]!.reason ?? 'it gave no reason', 300)}. \`tasks check\` tests the verifier.`,
  ];
}
