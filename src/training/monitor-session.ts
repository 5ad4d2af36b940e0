import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import type { LogValue } from '../log/payload.js';
import type { LogRecord } from '../log/read.js';
import type { AnswerLimits } from '../monitor/answer.js';
import type { DecisionContext } from '../monitor/context.js';
import type { Decision, LoggedDecision } from '../monitor/decision.js';
import { evaluateHistory, type Evaluation } from '../monitor/evaluate-rules.js';
import type { Iteration, Measurement } from '../monitor/measurements.js';
import { menuOf, type MenuOption } from '../monitor/menu.js';
import { decide, DEFAULT_POLICY_TIMEOUT, type Policy, type Refusal } from '../monitor/policy.js';
import {
  poseQuestion,
  type AskedQuestion,
  type Decider,
  type PosingOptions,
  type RecordedAnswer,
} from '../monitor/question.js';
import {
  executeDecision,
  executedRules,
  type Effect,
  type RemedyExecutor,
} from '../monitor/remedies.js';
import type { Watched } from '../monitor/rule-set.js';
import type { RuleConfig } from '../monitor/rules.js';
import type { TraineeTypes } from '../monitor/trainee.js';
import {
  decisionRecord,
  effectRecord,
  evaluationRecord,
  iterationRecords,
  readDecisions,
  questionRecord,
  readHistory,
  refusedRecord,
} from '../run-folder/monitor-records.js';
import type { LoraTypes } from '../trainees/lora/trainee.js';
import type { NewRunRecord } from '../run-folder/streams.js';

/** Conclusions and actions of the monitor, deeply frozen, so that hooks can only read them. */
export interface MonitorReport<T extends TraineeTypes = TraineeTypes> {
  readonly iteration: number;
  readonly evaluation: Evaluation;
  readonly decisions: readonly Decision<T['operation']>[];
  readonly effects: readonly Effect<T['operation']>[];
  /**
   * Why a fired rule was left without an answer: the policy threw, was late, or answered what does
   * not hold.
   */
  readonly refused: Refusal | null;
  /** Questions to a decider in this iteration; absent if none was asked. */
  readonly questions?: readonly AskedQuestion<T>[];
}

/** Report of a run that trains LoRA weights. */
export type LoraReport = MonitorReport<LoraTypes>;
export type LoraSession = MonitorSession<LoraTypes>;

export interface MonitorSessionOptions<T extends TraineeTypes> {
  readonly watched: Watched<T>;
  readonly rules: RuleConfig;
  readonly policy: Policy<T> | Decider<T>;
  /** How questions are answered and kept; needed where the policy is a decider. */
  readonly questions?: Questions<T>;
  /** Milliseconds that a decision may take. */
  readonly policyTimeout?: number;
  readonly log: { append(records: readonly NewRunRecord[]): unknown };
  /** Live records of the log so far, where a run is resumed. */
  readonly records?: Iterable<LogRecord>;
}

/** What a session needs for a decider. */
export interface Questions<T extends TraineeTypes> extends Pick<PosingOptions<T>, 'fallback'> {
  /** Answers of earlier processes by their keys. Only those under a signed head may be here. */
  readonly recorded?: ReadonlyMap<string, RecordedAnswer>;
  /** Has the log signed, so that a recorded answer can be used again. */
  readonly sign?: () => Promise<unknown>;
}

export interface IterationOptions<T extends TraineeTypes> {
  readonly settings: T['settings'];
  /** Null before there is a trainer: remedies then fail, as the effect records. */
  readonly executor: RemedyExecutor<T['operation']> | null;
  readonly signal?: AbortSignal;
  /** Kept apart from what was measured, and never read back as such. */
  readonly notes?: { readonly [key: string]: LogValue };
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) freeze(member);
  }
  return value;
}

const NO_TRAINER: RemedyExecutor = {
  execute: () => Promise.reject(new IsoproError('INVALID_ARGUMENT', 'there is no trainer yet')),
};

/**
 * A run's monitor, called once an iteration: evaluates the rules over the whole history, has the
 * policy decide, executes, and logs each before the next.
 */
export class MonitorSession<T extends TraineeTypes> {
  readonly #options: MonitorSessionOptions<T>;
  readonly #history: Iteration<T['step']>[];
  readonly #decisions: LoggedDecision<T['operation']>[];
  readonly #playbook: string;
  readonly #recorded: Map<string, RecordedAnswer>;
  /** Questions of the present iteration. */
  readonly #asked: AskedQuestion<T>[] = [];

  /** @throws IsoproError LOG_UNREADABLE where the records are not a monitor's */
  constructor(options: MonitorSessionOptions<T>) {
    this.#options = options;
    const records = [...(options.records ?? [])];
    this.#history = freeze(readHistory(records, options.watched.trainee)).slice();
    this.#decisions = freeze(readDecisions(records, options.watched)).slice();
    this.#recorded = new Map(freeze([...(options.questions?.recorded ?? [])]));
    this.#playbook = options.watched.ruleSet.playbook(options.rules);
  }

  readonly #pose = (
    decider: Decider<T>,
    context: DecisionContext<T>,
    limits: AnswerLimits,
  ): Promise<MenuOption<T>> => {
    const { watched, questions, log } = this.#options;
    if (questions === undefined)
      throw new IsoproError('INVALID_ARGUMENT', `${decider.name} needs a session with questions`);
    return poseQuestion(decider, context, {
      ...limits,
      menu: (of) => menuOf(watched, of),
      fallback: questions.fallback,
      recorded: this.#recorded,
      record: async (question) => {
        log.append([questionRecord(question)]);
        await questions.sign?.();
        // an iteration that is repeated in this process asks nothing twice
        this.#asked.push(question);
        this.#recorded.set(question.key, freeze(structuredClone(question)));
      },
    });
  };

  /** Iterations so far, each with the rules whose remedy was executed after it. */
  get history(): readonly Iteration<T['step']>[] {
    return this.#history;
  }

  /**
   * Records an iteration. Measurements and evaluation are durable before the policy is asked,
   * decisions before they are executed, effects before this returns. Neither a policy that gives no
   * answer that holds nor a remedy that fails ends the run; both are logged and reported.
   * @throws IsoproError INVALID_ARGUMENT where the iteration does not follow the last one, ABORTED,
   *   and what the log throws
   */
  async iteration(
    measurement: Measurement<T['step']>,
    { settings, executor, signal, notes = {} }: IterationOptions<T>,
  ): Promise<MonitorReport<T>> {
    const {
      watched,
      rules,
      policy,
      policyTimeout: timeout = DEFAULT_POLICY_TIMEOUT,
      log,
    } = this.#options;
    const { iteration } = measurement;
    // a copy, since a policy sees it: nothing that it is given is anybody else's, and nothing can
    // be written
    const measurements = freeze(structuredClone(measurement));
    const measured: Iteration<T['step']> = { ...measurements, executed: [] };
    const evaluations = evaluateHistory([...this.#history, measured], rules, watched.ruleSet);
    const evaluation = evaluations.at(-1) as Evaluation;
    log.append([...iterationRecords(measured, notes), evaluationRecord(evaluation)]);

    const { decisions, refused } = await decide(
      policy,
      freeze({
        evaluations,
        settings: structuredClone(settings),
        measurements,
        history: [...this.#history],
        decisions: [...this.#decisions],
        playbook: this.#playbook,
      }),
      { watched, timeout, pose: this.#pose, ...stated({ signal }) },
    );
    const answers = decisions.map((decision) => decisionRecord(decision, iteration));
    if (refused !== null) answers.push(refusedRecord(refused, iteration));
    if (answers.length > 0) log.append(answers);
    const effects: Effect<T['operation']>[] = [];
    for (const decision of decisions)
      effects.push(...(await executeDecision(decision, iteration, executor ?? NO_TRAINER)));
    if (effects.length > 0) log.append(effects.map(effectRecord));

    this.#history.push(freeze({ ...measured, executed: executedRules(decisions, effects) }));
    this.#decisions.push(...decisions.map((decision) => freeze({ iteration, decision })));
    const questions = this.#asked.splice(0);
    return freeze(
      structuredClone({
        ...{ iteration, evaluation, decisions, effects, refused },
        ...(questions.length > 0 && { questions }),
      }),
    );
  }
}
