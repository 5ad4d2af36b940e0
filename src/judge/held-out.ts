import { isDeepStrictEqual } from 'node:util';
import { localBackend } from '../backends/local.js';
import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import { evaluationSet, type EvaluationSet } from '../evaluation/evaluation-set.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { evaluatePolicies } from '../evaluation/policies.js';
import { given } from '../given.js';
import { inTurns, type LogReader } from '../log/read.js';
import { isSameTask, type RunStart } from '../run-folder/manifest.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { compareEvaluations, type Comparison as Change } from '../run-folder/comparison.js';
import { failuresLogged, verdictsOf, type Failures } from '../run-folder/derived-figures.js';
import {
  constrained,
  heldOut,
  type Constrained,
  type HeldOut,
} from '../run-folder/evaluation-records.js';
import { readRecord } from '../run-folder/record.js';
import {
  brierScore,
  figuresGiven,
  mcnemarExact,
  READINGS,
  summarise,
  SUMMARY_SEED,
  underReading,
  type FigureName,
  type Outcome,
  type Reading,
  type Summary,
} from '../statistics/index.js';
import { needsNoFile } from '../tasks/data/check.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import { askingOf } from '../tasks/asking-options.js';
import { dataOptionsOf } from '../tasks/data/options.js';
import { openTask, type OpenTaskOptions } from '../tasks/open-task.js';
import { isBuiltIn } from '../tasks/registry.js';
import type { OpenTask } from '../tasks/task.js';
import { failing, onFiles } from './hard-fail.js';
import { claimP, isRefuted, mostUndecided, type Differences } from './refutation.js';
import { lines, plural } from './trace.js';

/**
 * Step 10: measures held-out accuracy again with the shared evaluator and compares it with the
 * run's claims.
 */

const fail = failing('test_set_evaluation');

export interface Claims {
  readonly before: HeldOut;
  readonly after: HeldOut;
  /** Evaluations under the answer grammar; null if the run made none. */
  readonly constrained: { readonly before: Constrained; readonly after: Constrained } | null;
}

/**
 * The run's own figures, before and after.
 * @throws HardFail unless it made exactly one claim of each that its settings promise
 */
export async function readClaims(
  reader: LogReader,
  start: RunStart,
  adapter: string | null,
  signal?: AbortSignal,
): Promise<Claims> {
  const claims: HeldOut[] = [];
  const further: Constrained[] = [];
  for await (const record of inTurns(reader.records({ stream: 'evaluations' }), signal)) {
    if (record.payload.kind === 'held_out' && record.payload.set === 'test')
      claims.push(readRecord(heldOut, record, fail));
    if (record.payload.kind === 'constrained') further.push(readRecord(constrained, record, fail));
  }
  const promised = readWrittenSettings(start.settings).evaluation.constrained === true;
  return {
    ...pairOf(claims, start, adapter),
    constrained: further.length === 0 && !promised ? null : pairOf(further, start, adapter),
  };
}

type Claim = HeldOut | Constrained;

function pairOf<C extends Claim>(
  claims: readonly C[],
  start: RunStart,
  adapter: string | null,
): { readonly before: C; readonly after: C } {
  const one = (when: HeldOut['when']): C => {
    const { length, 0: found } = claims.filter((claim) => claim.when === when);
    return length === 1
      ? found!
      : fail(`the log holds ${length} evaluations of the test set ${when} training, not one`);
  };
  const [before, after] = [one('before'), one('after')];
  if (claims.length !== 2) fail('the test set was also evaluated during training');
  if (before.adapter !== null || after.adapter !== adapter)
    fail(
      'the evaluations do not measure the base model before training and the submitted adapter after it',
    );
  if ([before, after].some(({ setSha256 }) => setSha256 !== start.sets.test.sha256))
    fail('the evaluations use a different test set than the run committed to');
  return { before, after };
}

/** A task, or the reason why it is not available. */
export type OpenedTask =
  | { readonly task: OpenTask }
  | { readonly task: null; readonly reason: string };

/**
 * Opens the run's task in the same version; a user's task only from the file that the user of the
 * judge names.
 * @param options with whether the addon and the class of machine are the run's, on which the
 *   verdicts of a model depend
 * @returns a reason instead of the task if it is not available
 */
export async function openRunTask(
  start: RunStart,
  file: string | undefined,
  { sameKernels = true, ...options }: OpenTaskOptions & { readonly sameKernels?: boolean } = {},
): Promise<OpenedTask> {
  const none = (reason: string): OpenedTask => ({ task: null, reason });
  if (start.task.file !== null && file === undefined)
    return none(`the task ${start.task.id} is a user's file: name your copy of it with --task`);
  // the id is the run's claim, and openTask also accepts a path
  if (start.task.file === null && !isBuiltIn(start.task.id))
    return none(`this version has no built-in task ${start.task.id}`);
  if (!sameKernels && isModelCheck(start))
    return none(
      `the verdicts of ${start.task.id} came from a model, which repeats them only with the run's native addon on a ` +
        `machine of the same class`,
    );
  const asked = optionsOf(start, file, options);
  if (asked === null)
    return none(
      `the task ${start.task.id} is checked with a user's files: name your copy with --check`,
    );
  const task = await openTask(start.task.file === null ? start.task.id : file!, asked);
  const sha256 = task.source.kind === 'file' ? task.source.sha256 : null;
  const reason =
    sha256 !== start.task.file
      ? `the file given with --task${task.rows === undefined ? '' : ', with its split and its check,'} has SHA-256 ` +
        `${sha256 ?? 'none'}, not the run's ${start.task.file ?? 'built-in task'}`
      : !isSameTask(start.task, { id: task.id, version: task.version, file: sha256 })
        ? `the run's task is ${start.task.id} ${start.task.version}, but this one is ${task.id} ${task.version}`
        : null;
  if (reason === null) return { task };
  await task.dispose();
  return none(reason);
}

/** True if a model that scores replies gave the verdicts of a run. */
export const isModelCheck = ({ settings }: RunStart): boolean =>
  readWrittenSettings(settings).check?.startsWith('model:') === true;

/**
 * Options that the run opened its task with; null if the judge must supply the check because it is
 * a file or runs one.
 */
function optionsOf(
  { settings, task }: RunStart,
  file: string | undefined,
  options: OpenTaskOptions,
): OpenTaskOptions | null {
  const written = readWrittenSettings(settings);
  const asked = {
    ...options,
    ...given(written.sampling, 'turns'),
    ...askingOf(written.sampling),
  };
  if (task.file === null || !isDataFile(file!)) return asked;
  if (asked.check === undefined && written.check !== undefined && !needsNoFile(written.check))
    return null;
  return { ...dataOptionsOf(written), ...asked };
}

export interface Comparison {
  readonly claimed: Summary;
  readonly measured: Summary;
  /** Problems with different verdicts, not counting those where only the judge found none. */
  readonly differing: number;
  /** Problems with a claimed verdict for which the judge found none. */
  readonly unverified: number;
  /** Problems on which the claim has no verdict and the judge found one. */
  readonly undecided: number;
  /** Problems with a verdict on both sides. */
  readonly decided: number;
  readonly passes: Differences;
  /**
   * Exact McNemar over claimed against measured passes that both sides decided: a slow verifier
   * refutes nothing.
   */
  readonly p: number;
  /** Comparison by figure of the verdicts, over problems that both sides decided. */
  readonly figures?: readonly FigureComparison[];
  /** Reasons why replies do not pass: from the log (null if it does not say) and as measured. */
  readonly failures: {
    readonly claimed: Failures | null;
    readonly measured: Failures;
    /** Replies that fail on both sides for different reasons; null if the log does not say. */
    readonly differing: number | null;
  };
  /** Comparison by further reading of the claimed replies, over those that both sides decided. */
  readonly readings?: readonly ReadingComparison[];
}

/** `p` is that of an exact McNemar test, as of the verdicts. */
export interface ReadingComparison extends Pick<Comparison, 'differing' | 'passes' | 'p'> {
  readonly reading: Reading;
}

export interface FigureComparison extends Pick<Comparison, 'differing'> {
  readonly figure: FigureName;
  readonly better: Differences;
  /**
   * Exact sign test over claims that are better than what was measured against those that are
   * worse.
   */
  readonly p: number;
}

/**
 * Quality of a verdict by one of its figures. The quadratic loss orders forecasts of one problem as
 * any proper score does.
 */
const QUALITY: Readonly<Record<FigureName, (outcome: Outcome) => number>> = {
  score: ({ kind, score }) => score ?? (kind === 'pass' ? 1 : 0),
  forecast: ({ forecast }) => (forecast === undefined ? -1 : -brierScore(forecast)),
};

function figureComparisons(
  said: readonly Outcome[],
  own: readonly Outcome[],
  figures: readonly FigureName[],
): FigureComparison[] {
  const pairs = said.flatMap((claimed, i): [Outcome, Outcome][] =>
    claimed.kind === 'none' || own[i]!.kind === 'none' ? [] : [[claimed, own[i]!]],
  );
  return figures.map((figure) => {
    const quality = QUALITY[figure];
    const signs = pairs.map(([claimed, measured]) =>
      Math.sign(quality(claimed) - quality(measured)),
    );
    const differs = ([claimed, measured]: [Outcome, Outcome]): boolean =>
      !isDeepStrictEqual(claimed[figure], measured[figure]);
    const count = (sign: number): number => signs.filter((each) => each === sign).length;
    const better = { more: count(1), less: count(-1) };
    const p = mcnemarExact(better.less, better.more);
    return { figure, differing: pairs.filter(differs).length, better, p };
  });
}

function readingComparisons(
  said: readonly Outcome[],
  own: readonly Outcome[],
): ReadingComparison[] {
  return READINGS.flatMap((reading) => {
    const [claimed, measured] = [underReading(said, reading), underReading(own, reading)];
    if (claimed === null || measured === null) return [];
    const count = (was: Outcome['kind'], is: Outcome['kind']): number =>
      claimed.filter(({ kind }, i) => kind === was && measured[i]!.kind === is).length;
    const passes = { more: count('pass', 'fail'), less: count('fail', 'pass') };
    const p = mcnemarExact(passes.less, passes.more);
    return [{ reading, differing: passes.more + passes.less, passes, p }];
  });
}

/**
 * Evaluates a set and compares it with a claim, verdict by verdict.
 * @throws HardFail if the claim does not cover the set's problems
 */
async function compare(
  model: Model,
  task: OpenTask,
  set: EvaluationSet,
  claim: Claim,
  adapter: Adapter | null,
  start: RunStart,
  progress: HeldOutRequest,
): Promise<{ readonly comparison: Comparison; readonly outcomes: readonly Outcome[] }> {
  if (
    claim.outcomes.length !== set.problems.length ||
    set.problems.some(
      ({ id, tier }, i) => claim.outcomes[i]![0] !== id || claim.outcomes[i]![1] !== tier,
    )
  ) {
    fail('an evaluation does not list the problems of the test set in their order');
  }
  const { style, maxTokens, maxSequences } = start.evaluation;
  const { outcomes, failures } = await evaluateGreedy(localBackend(model), task, set.problems, {
    ...{ style, maxTokens, maxSequences, adapter },
    lenient: claim.lenient !== undefined,
    ...(claim.kind === 'constrained' && {
      grammar: task.answerGrammar ?? fail('the task has no answer grammar'),
    }),
    ...given(progress, 'signal', 'onProgress'),
  });
  const said = verdictsOf(claim);
  const options = { seed: SUMMARY_SEED, figures: figuresGiven([...said, ...outcomes]) };
  const pairs = outcomes.map(({ kind }, i) => ({ claimed: said[i]!.kind, own: kind }));
  const found = pairs.filter(({ claimed, own }) => own !== 'none' || claimed === 'none');
  const decided = pairs.filter(({ claimed, own }) => own !== 'none' && claimed !== 'none');
  const count = (claimed: string, own: string): number =>
    decided.filter((pair) => pair.claimed === claimed && pair.own === own).length;
  const passes = { more: count('pass', 'fail'), less: count('fail', 'pass') };
  const readings = readingComparisons(said, outcomes);
  const isOtherFailure = ({ kind, why }: (typeof outcomes)[number], i: number): boolean =>
    kind === 'fail' && claim.outcomes[i]![2] === 'fail' && !isDeepStrictEqual(why, claim.why![i]);
  const comparison = {
    claimed: summarise(said, task.tiers, options),
    measured: summarise(outcomes, task.tiers, options),
    differing: found.filter((pair) => pair.claimed !== pair.own).length,
    unverified: pairs.length - found.length,
    undecided: found.filter((pair) => pair.claimed === 'none' && pair.own !== 'none').length,
    decided: decided.length,
    passes,
    p: claimP(passes, decided.length, true),
    ...(options.figures.length > 0 && {
      figures: figureComparisons(said, outcomes, options.figures),
    }),
    failures: {
      claimed: failuresLogged(claim),
      measured: failures,
      differing: claim.why === undefined ? null : outcomes.filter(isOtherFailure).length,
    },
    ...(readings.length > 0 && { readings }),
  };
  return { comparison, outcomes };
}

/** Compares before and after training problem by problem, as measured here. */
function changeOf(
  { problems, sha256 }: EvaluationSet,
  task: OpenTask,
  before: readonly Outcome[],
  after: readonly Outcome[],
): Change {
  const [was, is] = [before, after].map((outcomes) => ({
    setSha256: sha256,
    outcomes: problems.map(({ id, tier }, i) => [id, tier, outcomes[i]!.kind] as const),
  })) as [Parameters<typeof compareEvaluations>[0], Parameters<typeof compareEvaluations>[1]];
  return compareEvaluations(was, is, task.tiers);
}

export interface HeldOutRequest {
  /** Evaluations to measure again; `none` measures nothing. */
  readonly which: 'both' | 'after' | 'none';
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

interface MeasuredPair {
  readonly before: Comparison | null;
  readonly after: Comparison;
  /** Change by training as measured here; null if the accuracy before was not measured. */
  readonly change: Change | null;
}

export interface HeldOutResult extends MeasuredPair {
  /** Measurements under the answer grammar, if the run claims them. */
  readonly constrained?: MeasuredPair;
  readonly policies: Readonly<Record<string, Summary>>;
}

/**
 * Measures the held-out claims again.
 * @param sameMachine true if the judge's machine is of the run's class
 * @throws HardFail if the test set is not the task's or the measured verdicts refute a claim
 */
export async function evaluateHeldOut(
  model: Model,
  task: OpenTask,
  start: RunStart,
  claims: Claims,
  adapter: Adapter | null,
  sameMachine: boolean,
  request: HeldOutRequest,
): Promise<HeldOutResult> {
  const set = await onFiles('test_set_evaluation', ['INVALID_ARGUMENT'], () =>
    evaluationSet(task, 'test', start.sets.test.perTier),
  );
  if (set.sha256 !== start.sets.test.sha256)
    fail("the test set that the run committed to is not the task's");
  const measure = async (pair: Record<'before' | 'after', Claim>): Promise<MeasuredPair> => {
    const after = await compare(model, task, set, pair.after, adapter, start, request);
    const before =
      request.which === 'both'
        ? await compare(model, task, set, pair.before, null, start, request)
        : null;
    if (before !== null) refuseRefuted('before', before.comparison, sameMachine);
    refuseRefuted('after', after.comparison, sameMachine);
    return {
      before: before?.comparison ?? null,
      after: after.comparison,
      change: before === null ? null : changeOf(set, task, before.outcomes, after.outcomes),
    };
  };
  return {
    ...(await measure(claims)),
    ...(claims.constrained !== null && { constrained: await measure(claims.constrained) }),
    policies: await evaluatePolicies(task, set.problems),
  };
}

/**
 * @throws HardFail if what was measured refutes a claim, or the run did not find verdicts that
 *   are easily found
 */
function refuseRefuted(when: string, comparison: Comparison, sameMachine: boolean): void {
  const { claimed, measured, passes, decided, undecided, differing } = comparison;
  const { readings = [], figures = [] } = comparison;
  const where = sameMachine
    ? 'on a machine of the same class'
    : "here, more than another machine's rounding explains";
  const said = (differences: Differences): string =>
    `p ${claimP(differences, decided, sameMachine).toPrecision(2)}`;
  if (isRefuted(passes, decided, sameMachine))
    fail(
      `accuracy ${when}: the run claims ${claimed.mean}, and ${measured.mean} was measured ${where} (${differing} verdicts differ, ` +
        `${said(passes)})`,
    );
  if (undecided > mostUndecided(decided + undecided))
    fail(
      `accuracy ${when}: ${undecided} of ${decided + undecided} verdicts are missing in the run, but the verifier gives them`,
    );
  for (const { reading, differing: ofReading, passes: read } of readings)
    if (isRefuted(read, decided, sameMachine))
      fail(
        `the ${reading} reading ${when}: ${ofReading} replies were read differently ${where}, ${said(read)}`,
      );
  for (const { figure, differing: ofFigure, better } of figures)
    if (isRefuted(better, decided, sameMachine))
      fail(
        `${figure}s ${when}: ${ofFigure} of those that the run claims differ from those measured ${where}, ${said(better)}`,
      );
}

/** An accuracy that too many problems have no verdict for. */
export const invalidDoubts = (of: string, { valid, none }: Summary): string[] =>
  valid ? [] : [`${of} is not valid: ${plural(none, 'verdict')} could not be determined`];

/**
 * Returns the reasons why measured claims are not confirmed: verdicts that only one side found and,
 * on a machine of the run's class where each verdict repeats, verdicts that differ.
 */
export function heldOutDoubts(
  { before, after, constrained: further }: HeldOutResult,
  sameMachine: boolean,
): string[] {
  const all: [string, Comparison | null][] = [
    ['before', before],
    ['after', after],
    ['before under the grammar', further?.before ?? null],
    ['after under the grammar', further?.after ?? null],
  ];
  return all.flatMap(([when, comparison]) => {
    if (comparison === null) return [];
    const { decided, undecided, unverified, passes, figures = [], readings = [] } = comparison;
    const others =
      passes.more +
      passes.less +
      [...figures, ...readings].reduce((sum, { differing }) => sum + differing, 0);
    return [
      ...lines(
        unverified > 0 &&
          `${plural(unverified, 'test verdict')} ${when} not verified: the verifier ran out of time`,
        undecided > 0 && `${plural(undecided, 'test verdict')} ${when} missing in the run`,
      ),
      ...invalidDoubts(`the accuracy ${when}`, comparison.measured),
      ...lines(
        sameMachine &&
          others > 0 &&
          `${others} test verdicts or figures of ${decided} replies ${when} differ here, on a machine of the run's class`,
      ),
    ];
  });
}
