import { z } from 'zod';
import { ALGORITHM_IDS, algorithmOf } from '../algorithms/index.js';
import { ACCEPTANCES } from '../algorithms/algorithm.js';
import { canonicalJson, type Json } from '../canonical-json.js';
import { given } from '../given.js';
import type { LogPayload } from '../log/payload.js';
import { inTurns, type LogReader, type LogRecord } from '../log/read.js';
import { gate } from '../run-folder/course-records.js';
import {
  heldOut,
  iterationReport,
  policies,
  type HeldOut,
  type Policies,
} from '../run-folder/evaluation-records.js';
import { iterationForm } from '../run-folder/monitor-records.js';
import { readRecord } from '../run-folder/record.js';
import { reference, rollout, type ReferenceRecord } from '../run-folder/rollout-records.js';
import { byPart } from '../run-folder/written-settings.js';
import {
  compareDev,
  figuresLogged,
  heldOutReading,
  loggedEvaluation,
  policySummaries,
  RolloutTally,
  strayEvaluation,
  tiersOf,
  type LoggedEvaluation,
} from '../run-folder/derived-figures.js';
import { failing } from './hard-fail.js';

/**
 * Step 12: what the rules read of rollouts and evaluations, every sum that the log holds, and what
 * became of each rollout in training, is what the log's single verdicts give.
 */

const settings = z.looseObject({
  seed: z.string().regex(/^\d{1,20}$/),
  sampling: z.looseObject({ samples: z.int().min(1) }),
  buffer: z.looseObject({ kind: z.enum(['balanced', 'classic']), accept: z.enum(ACCEPTANCES) }),
  algorithm: z.looseObject({ id: z.enum(ALGORITHM_IDS) }),
  evaluation: z.looseObject({ gate: z.boolean(), gateLevel: z.number() }),
});
type Settings = z.infer<typeof settings>;

const takenRollout = rollout.pick({
  iteration: true,
  problemId: true,
  tier: true,
  sample: true,
  tokenIds: true,
  finish: true,
  verdict: true,
  admission: true,
  advantage: true,
  weight: true,
});
type LoggedRollout = z.infer<typeof takenRollout> & { readonly gseq: number };
const fail = failing('figure_recomputation');
const show = (value: unknown): string => JSON.stringify(value) ?? 'nothing';

const same = (what: string, gseq: number, claimed: unknown, derived: unknown): void => {
  if (canonicalJson(claimed as Json) !== canonicalJson(derived as Json))
    fail(
      `record ${gseq} states that ${what} is ${show(claimed)}; the verdicts in the log give ${show(derived)}`,
    );
};

interface Read<T> {
  readonly gseq: number;
  readonly value: T;
  /** Sum that the record states in addition to its verdicts; readers derive their own. */
  readonly claimed: unknown;
}

/** A record of what the rules read of an iteration. */
interface Measured {
  readonly gseq: number;
  readonly iteration: number;
  readonly said: LogPayload;
}

export interface CheckedFigures {
  readonly iterations: number;
  readonly rollouts: number;
  readonly evaluations: readonly LoggedEvaluation[];
  readonly policies: Policies | null;
  /** Settings that the run started with. */
  readonly settings: Settings;
}

/**
 * Compares what became of each rollout with the verdicts of its iteration. Only the task can tell
 * whether reasoning contradicts its problem.
 * @throws HardFail if a record differs
 */
function checkFates(
  iteration: number,
  rollouts: readonly LoggedRollout[],
  settings: Settings,
): void {
  const { samples } = settings.sampling;
  const groups = new Map<string, { readonly tier: string; readonly rollouts: LoggedRollout[] }>();
  for (const each of rollouts) {
    const group = groups.get(each.problemId) ?? { tier: each.tier, rollouts: [] };
    groups.set(each.problemId, group);
    if (each.sample !== group.rollouts.length)
      fail(
        `record ${each.gseq} is sample ${each.sample} of its problem, but sample ${group.rollouts.length} must come next`,
      );
    group.rollouts.push(each);
  }
  for (const [problemId, { rollouts: of }] of groups)
    if (of.length !== samples)
      fail(
        `problem ${problemId} has ${of.length} samples in iteration ${iteration}, not ${samples}`,
      );
  const options = {
    settings,
    iteration,
    runSeed: BigInt(settings.seed),
    contradicts: ({ admission }: LoggedRollout) => admission === 'contradictory',
  };
  for (const [{ gseq, admission, advantage, weight }, own] of algorithmOf(settings).admit(
    [...groups.values()],
    options,
  )) {
    const said = { admission, ...given({ advantage }), weight };
    if (canonicalJson(said) !== canonicalJson({ ...own }))
      fail(
        `record ${gseq} states that training uses its rollout as ${show(said)}; the verdicts of its iteration give ${show(own)}`,
      );
  }
}

/**
 * References are the control's that trains on them, and each follows the samples of its problem.
 * @param referred the record of the reference before it
 * @throws HardFail
 */
function checkReference(
  gseq: number,
  { iteration, problemId, tier }: ReferenceRecord,
  sampled: readonly LoggedRollout[],
  referred: number,
  { buffer: { accept } }: Settings,
): void {
  if (accept !== 'references')
    fail(`record ${gseq} is a reference to train on, but the run accepts ${accept}`);
  const last = sampled.at(-1);
  if (
    last?.iteration !== iteration ||
    last.problemId !== problemId ||
    last.tier !== tier ||
    referred > last.gseq
  )
    fail(`record ${gseq} is a reference that does not follow the samples of its problem`);
}

/**
 * @param written the settings that the run started with, of either version
 * @throws HardFail, IsoproError LOG_UNREADABLE
 */
export async function checkFigures(
  reader: LogReader,
  written: unknown,
  signal?: AbortSignal,
): Promise<CheckedFigures> {
  const tally = new RolloutTally();
  const parsedSettings = settings.safeParse(byPart(written));
  const configured = parsedSettings.success
    ? parsedSettings.data
    : fail(`the run started with invalid settings: ${z.prettifyError(parsedSettings.error)}`);
  /** Rollouts of the current iteration. */
  let sampled: LoggedRollout[] = [];
  /** The reference that was read last. */
  let referred = -1;
  const settle = (): void => {
    if (sampled.length > 0) checkFates(sampled[0]!.iteration, sampled, configured);
    sampled = [];
  };
  const heldOuts: Read<HeldOut>[] = [];
  const iterations: Measured[] = [];
  /**
   * Records that say the gate put the best adapter back, by iteration. One that follows its
   * iteration's measurements is of the submission, which names the adapter it takes.
   */
  const rollbacks = new Map<number, number>();
  let named: Read<Policies> | null = null;
  let rollouts = 0;
  const parse = <T>(form: z.ZodType<T>, record: LogRecord): T => readRecord(form, record, fail);
  for await (const record of inTurns(reader.records(), signal)) {
    const { gseq, stream, payload } = record;
    if (stream === 'rollouts' && payload.kind === 'rollout') {
      const taken = parse(takenRollout, record);
      const { iteration = taken.iteration } = sampled[0] ?? {};
      if (taken.iteration < iteration)
        fail(
          `record ${gseq} is a rollout of iteration ${taken.iteration}, which had already ended`,
        );
      if (taken.iteration > iteration) settle();
      sampled.push({ ...taken, gseq });
      tally.take(taken);
      rollouts++;
    } else if (stream === 'rollouts' && payload.kind === 'reference') {
      const taken = parse(reference, record);
      checkReference(gseq, taken, sampled, referred, configured);
      referred = gseq;
      tally.takeReference(taken);
    } else if (stream === 'metrics' && payload.kind === 'iteration')
      iterations.push({ gseq, iteration: parse(iterationForm, record).iteration, said: payload });
    else if (stream === 'effects' && payload.kind === 'gate') {
      const { iteration } = parse(gate, record);
      if (!iterations.some((measured) => measured.iteration === iteration))
        rollbacks.set(iteration, gseq);
    } else if (stream !== 'evaluations') continue;
    else if (payload.kind === 'held_out')
      heldOuts.push({ gseq, value: parse(heldOut, record), claimed: payload.summary });
    else if (payload.kind === 'policies') {
      if (named !== null) fail(`record ${gseq} judges the trivial policies a second time`);
      named = { gseq, value: parse(policies, record), claimed: payload.summaries };
    } else if (payload.kind === 'iteration_report') {
      parse(iterationReport, record);
      const sums = Object.keys(payload).filter(
        (member) => !Object.hasOwn(iterationReport.shape, member),
      );
      if (sums.length > 0)
        fail(
          `record ${gseq} contains ${sums.join(', ')}, but an iteration's figures are derived and never logged`,
        );
    }
  }
  settle();
  const stray = strayEvaluation(heldOuts.map(({ value }) => value));
  if (stray !== null) fail(stray);
  const tiers = tiersOf(
    named?.value.tiers,
    heldOuts.flatMap(({ value }) => value.outcomes.map(([, tier]) => tier)),
  );
  const figures = figuresLogged(
    heldOuts.map(({ value }) => value),
    named?.value,
  );
  const evaluations = heldOuts.map(({ value }) => loggedEvaluation(value, tiers, figures));
  for (const [i, { gseq, claimed }] of heldOuts.entries())
    if (claimed !== undefined)
      same('the summary of its evaluation', gseq, claimed, evaluations[i]!.summary);
  if (named !== null) {
    const before = evaluations.find(({ set, when }) => set === 'test' && when === 'before');
    const summaries =
      policySummaries(named.value, before?.outcomes ?? [], figures) ??
      fail(`record ${named.gseq} does not have one verdict of each policy on each test problem`);
    if (named.claimed !== undefined)
      same('the accuracy of the trivial policies', named.gseq, named.claimed, summaries);
  }
  checkReadings(iterations, rollbacks, { evaluations, tiers, tally, settings: configured });
  return {
    iterations: iterations.length,
    rollouts,
    evaluations,
    policies: named?.value ?? null,
    settings: configured,
  };
}

/** Compares what the rules read in each iteration with the log. @throws HardFail */
function checkReadings(
  iterations: readonly Measured[],
  rollbacks: ReadonlyMap<number, number>,
  of: Pick<CheckedFigures, 'evaluations' | 'settings'> & {
    readonly tiers: ReturnType<typeof tiersOf>;
    readonly tally: RolloutTally;
  },
): void {
  const { evaluations, tiers, tally, settings } = of;
  const comparisons = compareDev(evaluations, tiers, settings.evaluation);
  for (const { gseq, iteration, said } of iterations) {
    const times = evaluations.filter(
      ({ set, iteration: at }) => set === 'dev' && at === iteration,
    ).length;
    if (times > 1) fail(`the dev problems were evaluated ${times} times in iteration ${iteration}`);
    const compared = comparisons.get(iteration);
    const read = (what: string, claimed: unknown, derived: unknown, at = gseq): void =>
      same(`${what} of iteration ${iteration}`, at, claimed, derived);
    const hasRolledBack = compared?.rolledBack ?? false;
    const at = rollbacks.get(iteration);
    read('"the gate rolled back"', rollbacks.has(iteration), hasRolledBack, at);
    read('the train objective', said.objective, tally.objective(iteration));
    read(
      'the informative part of the groups',
      said.informativeGroupFraction,
      tally.informative(iteration) ?? 0,
    );
    read(
      'the dev accuracy',
      said.heldOut,
      compared === undefined
        ? null
        : heldOutReading(compared.evaluation.summary, compared.verdicts, compared.best),
    );
  }
}
