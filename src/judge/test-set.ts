import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import type { LogReader } from '../log/read.js';
import type { Submission } from '../run-folder/course-records.js';
import type { RunStart } from '../run-folder/manifest.js';
import type { OpenTask } from '../tasks/task.js';
import { onFiles } from './deliverables.js';
import type { CheckedFigures } from './figures.js';
import { checkForgetting, readForgettingClaim, type ForgettingComparison } from './forgetting.js';
import { FRESH_PER_TIER, freshDoubts, measureFresh, type Fresh } from './fresh.js';
import { HardFail } from './hard-fail.js';
import { evaluateHeldOut, heldOutDoubts, readClaims, type HeldOutResult } from './held-out.js';
import type { JudgeOptions } from './options.js';
import { plural, type StepResult } from './trace.js';

/**
 * Step 10 as a whole: the test problems beside the claims, what was forgotten, the fresh problems,
 * and what of it is no pass.
 */

export interface TestSetRequest {
  readonly reader: LogReader;
  readonly start: RunStart;
  readonly figures: CheckedFigures;
  readonly submitted: Submission;
  readonly model: Model;
  /** Null with the reason why there is none. */
  readonly task: { readonly task: OpenTask } | { readonly task: null; readonly reason: string };
  readonly loaded: Adapter | null;
  readonly nonce: string;
  readonly sameMachine: boolean;
  readonly options: Pick<
    JudgeOptions,
    'heldOut' | 'fresh' | 'signal' | 'onProgress' | 'onForgetting' | 'onFresh'
  >;
}

export interface TestSetFindings {
  readonly heldOut: HeldOutResult | null;
  readonly fresh: Fresh | null;
  readonly forgetting: ForgettingComparison | null;
  readonly unverified: number;
  /** Why the verdict cannot be a pass. */
  readonly doubts: readonly string[];
}

const NOTHING: TestSetFindings = {
  heldOut: null,
  fresh: null,
  forgetting: null,
  unverified: 0,
  doubts: [],
};

/** @throws HardFail where a claim is missing or refuted; what task and model throw */
export async function measureTestSet(
  request: TestSetRequest,
): Promise<StepResult<TestSetFindings>> {
  const {
    reader,
    start,
    figures,
    submitted,
    model,
    task: opened,
    loaded,
    nonce,
    sameMachine,
    options,
  } = request;
  const {
    heldOut: which = 'both',
    fresh: perTier = FRESH_PER_TIER,
    signal,
    onProgress,
    onForgetting,
    onFresh,
  } = options;
  const cancelling = signal === undefined ? {} : { signal };
  const claims = await onFiles('test_set_evaluation', ['LOG_UNREADABLE'], () =>
    readClaims(reader, start, submitted.adapter, signal),
  );
  if (figures.policies === null && submitted.adapter !== null)
    throw new HardFail('test_set_evaluation', 'the log holds no verdicts of the trivial policies');
  const forgot = await onFiles('test_set_evaluation', ['LOG_UNREADABLE'], () =>
    readForgettingClaim(reader, start, submitted, signal),
  );
  const { task } = opened;
  const leftOut =
    which === 'both' || task === null
      ? []
      : [
          which === 'none'
            ? 'test problems were not answered again'
            : 'the accuracy before training was not measured again',
        ];
  if (which === 'none')
    return { value: { ...NOTHING, doubts: leftOut }, detail: 'not asked for', status: 'skipped' };
  if (task === null) return { value: NOTHING, detail: opened.reason, status: 'skipped' };

  const heldOut = await evaluateHeldOut(model, task, start, claims, loaded, sameMachine, {
    which,
    ...cancelling,
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  const forgetting =
    forgot === null
      ? null
      : await checkForgetting(model, forgot, loaded, sameMachine, {
          ...cancelling,
          ...(onForgetting === undefined ? {} : { onProgress: onForgetting }),
        });
  const fresh =
    perTier === 0
      ? null
      : await measureFresh({
          ...{ reader, start, task, model, nonce, perTier },
          adapter: loaded,
          tested: heldOut.after.measured,
          ...cancelling,
          ...(onFresh === undefined ? {} : { onProgress: onFresh }),
        });
  const ofFresh =
    perTier === 0 ? ['no fresh problems were asked for'] : fresh === null ? [] : freshDoubts(fresh);
  const { text, isAsClaimed, unverified } = besideClaims(heldOut);
  const beside =
    fresh !== null
      ? `; ${plural(fresh.measured.n, 'fresh problem')} as well`
      : perTier === 0
        ? ''
        : '; the task does not have fresh problems of every tier';
  return {
    value: {
      heldOut,
      fresh,
      forgetting,
      unverified,
      doubts: [...leftOut, ...heldOutDoubts(heldOut, sameMachine), ...ofFresh],
    },
    detail: `${text}${beside}`,
    status: isAsClaimed && (fresh === null || ofFresh.length === 0) ? 'pass' : 'findings',
  };
}

/** What differs between claims and measurements, in words. */
function besideClaims({ before, after, constrained }: HeldOutResult): {
  readonly text: string;
  readonly isAsClaimed: boolean;
  readonly unverified: number;
} {
  const all = [before, after, constrained?.before, constrained?.after].flatMap(
    (comparison) => comparison ?? [],
  );
  const sum = (of: (comparison: (typeof all)[number]) => number): number =>
    all.reduce((total, each) => total + of(each), 0);
  const differingOf = (parts: readonly { readonly differing: number }[] = []): number =>
    parts.reduce((total, { differing }) => total + differing, 0);
  const [verdicts, unverified] = [
    sum(({ differing }) => differing),
    sum((each) => each.unverified),
  ];
  const [figures, readings] = [
    sum((each) => differingOf(each.figures)),
    sum((each) => differingOf(each.readings)),
  ];
  const others = (n: number, one: string, several = `${one}s`): string =>
    n === 1 ? `${n} ${one} differs from the claim` : `${n} ${several} differ from the claim`;
  const agreed =
    unverified === 0 ? 'every verdict is as claimed' : 'no verdict is other than claimed';
  return {
    text: [
      verdicts === 0 ? agreed : others(verdicts, 'verdict'),
      ...(figures === 0 ? [] : [others(figures, 'figure of a verdict', 'figures of verdicts')]),
      ...(readings === 0
        ? []
        : [others(readings, 'further reading of a reply', 'further readings of replies')]),
      ...(unverified === 0
        ? []
        : [`${plural(unverified, 'verdict')} not verified: the verifier ran out of time here`]),
    ].join('; '),
    isAsClaimed: verdicts + figures + readings + unverified === 0,
    unverified,
  };
}
