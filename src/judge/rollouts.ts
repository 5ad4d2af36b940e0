import type { z } from 'zod';
import { algorithmOf } from '../algorithms/index.js';
import { hasRoom } from '../backends/backend.js';
import { asJson, canonicalJson, type Json } from '../canonical-json.js';
import { ownValue } from '../dictionary.js';
import { contextOf } from '../engine/context-overflow.js';
import { withQuestions } from '../evaluation/failure-examples.js';
import { evaluationSet, wholeSets } from '../evaluation/evaluation-set.js';
import { HeldOutProblems } from '../evaluation/held-out-problems.js';
import { given } from '../given.js';
import { inTurns, type LogReader, type LogRecord } from '../log/read.js';
import { devReply, heldOut } from '../run-folder/evaluation-records.js';
import { readRecord } from '../run-folder/record.js';
import {
  problem as problemRecord,
  reference as referenceRecord,
  rollout as rolloutRecord,
} from '../run-folder/rollout-records.js';
import { figuresOf, type Figures } from '../statistics/index.js';
import { FailureTally, reasonOf, whyOf, type Failures } from '../tasks/failures.js';
import { problemId } from '../tasks/problem-id.js';
import type { ChatMessage, JudgeOptions, Judgement, OpenTask, Problem } from '../tasks/task.js';
import { isWellFormed } from '../tasks/verdict.js';
import { callAhead } from './ordered-concurrency.js';
import type { CheckedFigures } from './figures.js';
import type { Findings } from './findings.js';
import { failing, onFiles } from './hard-fail.js';
import { mostUndecided } from './refutation.js';
import { NOT_SAID, type LoggedReply, type ReplyReader } from './replies.js';

/**
 * Checks that every logged rollout answers the problem that it names, has the task's verdict and is
 * not of a held-out problem, and that the dev replies have the verdicts that rules and gate read.
 */

const problemForm = problemRecord.omit({ prompt: true });
const rolloutForm = rolloutRecord.pick({
  problemId: true,
  tier: true,
  tokenIds: true,
  turns: true,
  text: true,
  finish: true,
  form: true,
  verdict: true,
  admission: true,
});

const fail = failing('rollout_verification');

/** `texts`: of all its replies. */
type LoggedRollout = z.infer<typeof rolloutForm> & { readonly texts: readonly string[] };

/** A rollout whose texts are what its tokens say. */
function readRollout(
  replies: ReplyReader,
  record: Pick<LogRecord, 'gseq' | 'payload'>,
): LoggedRollout {
  const rollout = readRecord(rolloutForm, record, fail);
  const texts = replies.read(record.gseq, rollout);
  if (texts.at(-1) !== rollout.text) fail(`record ${record.gseq}: ${NOT_SAID}`);
  return { ...rollout, texts };
}

/**
 * Compares ids, and texts with their tokens, when the task is not available.
 * @throws HardFail if an evaluation problem was sampled for training
 */
export async function checkIds(
  reader: LogReader,
  { evaluations }: CheckedFigures,
  replies: ReplyReader,
  signal?: AbortSignal,
): Promise<void> {
  const heldOut = new Set(evaluations.flatMap(({ outcomes }) => outcomes.map(([id]) => id)));
  for await (const record of inTurns(reader.records({ stream: 'rollouts' }), signal)) {
    const { gseq, payload } = record;
    if (typeof payload.problemId === 'string' && heldOut.has(payload.problemId))
      fail(`record ${gseq}: an evaluation problem was sampled for training`);
    if (payload.kind === 'rollout') readRollout(replies, record);
    if (payload.kind === 'reference')
      replies.checkReference(gseq, readRecord(referenceRecord, record, fail));
  }
}

export interface VerifyRequest extends Pick<Findings, 'reader' | 'start' | 'model' | 'figures'> {
  readonly task: OpenTask;
  readonly replies: ReplyReader;
  /**
   * Verdicts that are asked for at once; default 1. What is found, and in which order, is the same
   * with any number.
   */
  readonly atOnce?: number;
  readonly signal?: AbortSignal;
}

export interface VerifiedRollouts {
  readonly rollouts: number;
  /**
   * Verdicts, on dev problems and of trivial policies too, that the run could not find and the
   * judge could.
   */
  readonly undecided: number;
  /** Verdicts of the run that the judge could not find because its verifier ran out of time. */
  readonly unverified: number;
  /** Failures of rollouts by the judge's own verdicts. */
  readonly failures: Failures;
}

/**
 * Counts verdicts that only one side found. A run's verifier may run out of time once, and on at
 * most a hundredth of the replies: more would hide failures. A timeout of the judge's verifier says
 * nothing about the run and leaves the verdict unverified.
 */
class Verdicts {
  #all = 0;
  undecided = 0;
  unverified = 0;

  /**
   * Compares a logged verdict with the judge's own.
   * @param found the judge's own verdict
   * @param again repeats the judgement once if it found no verdict, since a timeout may not happen
   *   twice
   * @throws HardFail if both sides decided differently
   */
  async compare<T extends { readonly kind: string } | Pick<Judgement, 'verdict'>>(
    what: string,
    logged: string,
    found: T,
    again: () => Promise<T>,
  ): Promise<T> {
    const kindOf = (of: T): string => ('kind' in of ? of.kind : of.verdict.kind);
    this.#all++;
    const own = kindOf(found) === 'none' && logged !== 'none' ? await again() : found;
    const kind = kindOf(own);
    if (logged !== kind) {
      if (kind === 'none') this.unverified++;
      else if (logged === 'none') this.undecided++;
      else fail(`${what}: the run logged ${logged}, but the verifier says ${kind}`);
    }
    return own;
  }

  /** Fails if the run lacks too many verdicts that the verifier gives. @throws HardFail */
  settle(what: string): this {
    if (this.undecided > mostUndecided(this.#all))
      fail(
        `${this.undecided} of ${this.#all} ${what} are missing in the run, but the verifier gives them`,
      );
    return this;
  }
}

/**
 * Compares the figures of two verdicts.
 * @throws HardFail if both sides decided and their figures differ
 */
function sameFigures(
  what: string,
  logged: { readonly kind: string } & Figures,
  own: { readonly kind: string } & Figures,
): void {
  if (logged.kind === 'none' || own.kind === 'none') return;
  const [said, found] = [logged, own].map((verdict) => canonicalJson(asJson(figuresOf(verdict))));
  if (said !== found)
    fail(`${what}: the run logged the figures ${said}, but the verifier finds ${found}`);
}

/** Returns a reader of problems. @throws HardFail if a problem must not be trained on */
async function problemReader({
  start,
  task,
  model,
}: Pick<VerifyRequest, 'start' | 'task' | 'model'>): Promise<
  (gseq: number, record: z.infer<typeof problemForm>) => Promise<Problem>
> {
  const { style } = start.evaluation;
  const heldOut = new HeldOutProblems(await wholeSets(task), { model, task, style });
  const trained = new Map(task.tiers.map(({ id, trains }) => [id, trains]));

  return async (gseq, record) => {
    const problem = await onFiles('rollout_verification', ['PROBLEM_INVALID'], () =>
      task.readProblem(record.problem),
    );
    if (
      problem.id !== record.problemId ||
      problem.tier !== record.tier ||
      problemId(problem) !== problem.id
    )
      fail(`record ${gseq}: the problem does not match its id`);
    if (trained.get(problem.tier) !== true)
      fail(`record ${gseq}: ${problem.tier} is not a training tier`);
    const found = await heldOut.find(problem);
    if (found !== null)
      fail(
        `record ${gseq}: an evaluation problem was sampled for ` +
          `training${found === 'prompt' ? '; its id differs, but its prompt is the same' : ''}`,
      );
    const { tokenIds } = model.renderChat(await task.prompt(problem, style));
    if (
      tokenIds.length !== record.promptIds.length ||
      record.promptIds.some((id, i) => id !== tokenIds[i])
    )
      fail(`record ${gseq}: the prompt does not match its problem`);
    return problem;
  };
}

/**
 * Compares the violations of two verdicts.
 * @throws HardFail if both sides decided for different reasons
 */
function sameViolations(
  gseq: number,
  { form, verdict: logged }: Pick<LoggedRollout, 'form' | 'verdict'>,
  own: Judgement,
): void {
  if (logged.kind === 'none' || own.verdict.kind === 'none') return;
  const found = own.verdict.violations.map(({ category }) => category);
  if (form !== own.form || canonicalJson(logged.violations as Json) !== canonicalJson(found))
    fail(
      `record ${gseq}: the run logged the violations ${logged.violations.join(', ') || 'none'}, but the verifier finds ` +
        `${found.join(', ') || 'none'}`,
    );
}

/**
 * Judges all rollouts of a run again.
 * @throws HardFail, and what the judge's own copy of the task throws
 */
export async function verifyRollouts(request: VerifyRequest): Promise<VerifiedRollouts> {
  const { reader, start, task, model, replies, figures, atOnce = 1, signal } = request;
  const { settings } = figures;
  const { readsReasoning } = algorithmOf(settings);
  const readProblem = await problemReader(request);

  interface Asked {
    readonly gseq: number;
    readonly problem: Problem;
    readonly rollout: LoggedRollout;
  }
  const cancelling = given(request, 'signal');
  const judge = ({ problem, rollout: { text, finish, texts } }: Asked) =>
    task.judge(problem, text, finish, { ...earlierOf(texts), ...cancelling });
  const sampled: Problem[] = [];
  const verdicts = new Verdicts();
  async function* asked(): AsyncGenerator<Asked> {
    let problem: Problem | null = null;
    for await (const record of inTurns(reader.records({ stream: 'rollouts' }), signal)) {
      const { gseq, payload } = record;
      if (payload.kind === 'problem') {
        problem = await readProblem(gseq, readRecord(problemForm, record, fail));
        sampled.push(problem);
      } else if (payload.kind === 'rollout') {
        const rollout = readRollout(replies, record);
        if (problem === null || problem.id !== rollout.problemId || problem.tier !== rollout.tier)
          return fail(`record ${gseq}: the rollout does not follow its problem`);
        const untold = await checkTurns(request, gseq, problem, rollout, rollout.verdict.kind);
        verdicts.unverified += untold; // other rollouts are judged meanwhile
        yield { gseq, problem, rollout };
      } else if (payload.kind === 'reference') {
        const reference = readRecord(referenceRecord, record, fail);
        replies.checkReference(gseq, reference);
        if (problem?.id !== reference.problemId)
          return fail(`record ${gseq}: the reference does not follow its problem`);
        const { verdict } = await task.judge(problem, reference.text, 'stop', cancelling);
        if (verdict.kind === 'fail')
          return fail(`record ${gseq}: the reference was trained on, but the verifier says fail`);
      }
    }
  }
  let rollouts = 0;
  const tally = new FailureTally();
  for await (const [each, found] of callAhead(asked(), atOnce, judge)) {
    const { gseq, problem, rollout } = each;
    const { text, verdict: logged, admission } = rollout;
    const what = `record ${gseq}`;
    const own = await verdicts.compare(what, logged.kind, found, () => judge(each));
    sameViolations(gseq, rollout, own);
    sameFigures(what, logged, own.verdict);
    const { id: problemId, tier } = problem;
    tally.take({ problemId, tier, text, ...reasonOf(own, rollout.finish) });
    if (readsReasoning(settings, rollout)) {
      const [finding] = await task.checkTrace(problem, text);
      if (admission === 'contradictory' && finding === undefined)
        fail(
          `record ${gseq}: the run left it out because its reasoning contradicts the problem, but no contradiction was found`,
        );
      if (admission !== 'contradictory' && finding !== undefined)
        fail(
          `record ${gseq}: trained on, but its reasoning contradicts the problem ("${finding.excerpt}")`,
        );
    }
    rollouts++;
  }
  const parts = [
    verdicts.settle('verdicts on rollouts'),
    await checkDev({ reader, start, task, model, replies, atOnce, ...cancelling }),
  ];
  if (figures.policies !== null) {
    const { problems } = await onFiles('rollout_verification', ['INVALID_ARGUMENT'], () =>
      evaluationSet(task, 'test', start.sets.test.perTier),
    );
    parts.push(await checkPolicies(figures.policies, task, problems, atOnce, cancelling));
  }
  const sum = (of: 'undecided' | 'unverified'): number =>
    parts.reduce((total, part) => total + part[of], 0);
  return {
    rollouts,
    undecided: sum('undecided'),
    unverified: sum('unverified'),
    failures: await withQuestions(tally.failures, task, sampled, start.evaluation.style),
  };
}

const earlierOf = (texts: readonly string[]): JudgeOptions =>
  texts.length === 1 ? {} : { earlier: texts.slice(0, -1) };

/**
 * Checks the turns of an episode. The user messages must be what the task says, in the tokens of
 * the model's template. Each prompt must have had room for a reply, and the episode must end where
 * the task ends it or where the next prompt has no room. An attempt without a verdict ends the
 * episode.
 * @param kind of the logged verdict
 * @returns how many turns could not be checked because the judge's verifier found no verdict
 * @throws HardFail
 */
async function checkTurns(
  { model, task, start }: Pick<VerifyRequest, 'model' | 'task' | 'start'>,
  gseq: number,
  problem: Problem,
  {
    turns = [],
    texts,
    tokenIds,
    finish,
  }: Omit<LoggedReply, 'problemId'> & { readonly texts: readonly string[] },
  kind: string,
): Promise<number> {
  if (task.turns === 1 && turns.length === 0 && finish !== 'context') return 0;
  const { style, maxTokens, contextTokens } = start.evaluation;
  const context = contextOf({ contextTokens, trainedContext: model.info.trainedContext });
  const messages = await task.prompt(problem, style);
  let tokens = model.renderChat(messages).tokenIds.length;
  let untold = 0;
  const isUndecided = async (reply: string): Promise<boolean> =>
    (await task.judge(problem, reply, 'stop')).verdict.kind === 'none';
  for (const [i, turn] of turns.entries()) {
    const told: ChatMessage = { role: 'user', content: turn.said };
    const own = await task.step(problem, texts.slice(0, i + 1));
    if (own === null && (await isUndecided(texts[i]!))) untold++;
    else if (own !== turn.said)
      fail(`record ${gseq}: the message after reply ${i + 1} is not what the task says`);
    if (model.renderTurn(messages, told).join() !== turn.saidIds.join())
      fail(`record ${gseq}: the tokens after reply ${i + 1} do not match the message`);
    messages.push({ role: 'assistant', content: texts[i]! }, told);
    tokens += turn.tokens + turn.saidIds.length;
    if (!hasRoom(tokens, maxTokens, context))
      fail(`record ${gseq}: the context of ${context} tokens has no room for reply ${i + 2}`);
  }
  if (finish !== 'stop' && finish !== 'context') return untold;
  const content = await task.step(problem, texts);
  if (finish === 'stop') {
    if (content !== null && kind !== 'none')
      fail(`record ${gseq}: the task continues after the last reply`);
    return untold;
  }
  if (content === null) {
    if (texts.length < task.turns && (await isUndecided(texts.at(-1)!))) return untold + 1;
    return fail(`record ${gseq}: the episode ended for lack of room, but the task ends there`);
  }
  const last = tokenIds.length - turns.reduce((sum, turn) => sum + turn.tokens, 0);
  tokens += last + model.renderTurn(messages, { role: 'user', content }).length;
  if (hasRoom(tokens, maxTokens, context))
    fail(
      `record ${gseq}: the episode ended for lack of room, but the context of ${context} tokens has room for another reply`,
    );
  return untold;
}

/**
 * Checks the dev evaluations by their replies, since the adapters in between are not kept: each dev
 * problem has one reply and the right verdict.
 * @throws HardFail
 */
async function checkDev({
  reader,
  start,
  task,
  model,
  replies,
  atOnce = 1,
  ...cancelling
}: Pick<
  VerifyRequest,
  'reader' | 'start' | 'task' | 'model' | 'replies' | 'atOnce' | 'signal'
>): Promise<Verdicts> {
  const verdicts = new Verdicts();
  const set = await onFiles('rollout_verification', ['INVALID_ARGUMENT'], () =>
    evaluationSet(task, 'dev', start.sets.dev.perTier),
  );
  if (set.sha256 !== start.sets.dev.sha256)
    fail("the dev set that the run committed to is not the task's");
  let given: (LoggedReply & { readonly gseq: number })[] = [];
  for await (const record of inTurns(
    reader.records({ stream: 'evaluations' }),
    cancelling.signal,
  )) {
    const { gseq, payload } = record;
    if (payload.kind === 'dev_reply') given.push({ ...readRecord(devReply, record, fail), gseq });
    else if (payload.kind === 'held_out' && payload.set === 'dev') {
      const { outcomes, figures, formed, why } = readRecord(heldOut, record, fail);
      const same = (list: readonly string[]): boolean =>
        list.length === set.problems.length && set.problems.every(({ id }, i) => id === list[i]);
      if (
        !same(outcomes.map(([id]) => id)) ||
        set.problems.some(({ tier }, i) => tier !== outcomes[i]![1])
      )
        fail(`record ${gseq} does not list the dev problems in their order`);
      if (!same(given.map(({ problemId: id }) => id)))
        fail(`record ${gseq} does not follow one reply to each dev problem in their order`);
      const read = given.map(({ gseq: at, ...logged }) => ({
        at,
        ...logged,
        texts: replies.read(at, logged),
      }));
      const judge = ([i, problem]: readonly [number, Problem]): Promise<Judgement> => {
        const { texts, finish } = read[i]!;
        return task.judge(problem, texts.at(-1)!, finish, { ...earlierOf(texts), ...cancelling });
      };
      const judgeEpisode = async (each: readonly [number, Problem]): Promise<Judgement> => {
        const [i, problem] = each;
        const [one, kind] = [read[i]!, outcomes[i]![2]];
        verdicts.unverified += await checkTurns({ model, task, start }, one.at, problem, one, kind);
        return judge(each);
      };
      for await (const [each, found] of callAhead(set.problems.entries(), atOnce, judgeEpisode)) {
        const [what, i] = [`record ${gseq}, dev problem ${each[0]}`, each[0]];
        const kind = outcomes[i]![2];
        const own = await verdicts.compare(what, kind, found, () => judge(each));
        sameFigures(what, { kind, ...figures?.[i] }, own.verdict);
        const said = why?.[i];
        if (
          said !== undefined &&
          kind !== 'none' &&
          own.verdict.kind !== 'none' &&
          said.join() !== whyOf(own.verdict).join()
        )
          fail(
            `${what}: the run logged that its reply breaks ${said.join(', ')}, but the verifier finds ${whyOf(own.verdict).join(', ')}`,
          );
        if (formed !== undefined && own.verdict.kind !== 'none' && formed[i] !== isWellFormed(own))
          fail(
            `${what}: the run logged that its reply was ${formed[i] === true ? '' : 'not '}well-formed, but the task disagrees`,
          );
      }
      given = [];
    }
  }
  return verdicts.settle('verdicts on dev problems');
}

/** Checks the trivial policies in the log again. @throws HardFail */
async function checkPolicies(
  { tiers, outcomes, figures }: NonNullable<CheckedFigures['policies']>,
  task: OpenTask,
  problems: readonly Problem[],
  atOnce: number,
  cancelling: Pick<JudgeOptions, 'signal'>,
): Promise<Verdicts> {
  if (canonicalJson(tiers as unknown as Json) !== canonicalJson(task.tiers as unknown as Json))
    fail("the tiers in the log are not the task's");
  if (Object.keys(outcomes).sort().join() !== [...task.policies].sort().join())
    fail("the trivial policies in the log are not the task's");
  const verdicts = new Verdicts();
  for (const policy of task.policies) {
    const apply = ([, problem]: readonly [number, Problem]) =>
      task.applyPolicy(policy, problem, cancelling);
    for await (const [each, found] of callAhead(problems.entries(), atOnce, apply)) {
      const [what, i] = [`the trivial policy ${policy} on test problem ${each[0]}`, each[0]];
      const logged = outcomes[policy]![i] ?? 'nothing';
      const own = await verdicts.compare(what, logged, found, () => apply(each));
      sameFigures(what, { kind: logged, ...(figures && ownValue(figures, policy)?.[i]) }, own);
    }
  }
  return verdicts.settle('verdicts on trivial policies');
}
