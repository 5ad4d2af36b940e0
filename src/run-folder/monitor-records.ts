import { z } from 'zod';
import { dictionaryOf } from '../dictionary-schema.js';
import { IsoproError } from '../errors.js';
import type { LogPayload, LogValue } from '../log/payload.js';
import type { LogRecord } from '../log/read.js';
import {
  decisionSchema,
  operationForm,
  type Decision,
  type LoggedDecision,
} from '../monitor/decision.js';
import type { Evaluation } from '../monitor/evaluate-rules.js';
import type { Iteration } from '../monitor/measurements.js';
import { SOURCES, type AskedQuestion } from '../monitor/question.js';
import type { Refusal } from '../monitor/policy.js';
import type { Effect } from '../monitor/remedies.js';
import type { Watched } from '../monitor/rule-set.js';
import { RULES, type RuleId } from '../monitor/rules.js';
import type { SignalForm, Trainee, TraineeTypes } from '../monitor/trainee.js';
import { iteration as iterationNumber, number, readRecord, sha256 } from './record.js';
import type { NewRunRecord, RunStream } from './streams.js';

/**
 * Writes the monitor's findings to the log and reads them back. Measurements are spread into a
 * record first and the monitor's own members last, so that a measurement cannot set another
 * iteration or kind.
 */

/**
 * A step's members are the trainer's; `notes` of a hook stay apart and are never read back as
 * measurements.
 */
export function iterationRecords(
  iteration: Iteration,
  notes: { readonly [key: string]: LogValue } = {},
): NewRunRecord[] {
  const { steps, executed: _, ...rest } = iteration;
  const own = { iteration: iteration.iteration };
  return [
    ...steps.map((step) => record('metrics', { ...step, kind: 'step', ...own })),
    record('metrics', { ...rest, notes, kind: 'iteration', ...own, stepCount: steps.length }),
  ];
}

const record = (stream: RunStream, payload: object): NewRunRecord => ({
  stream,
  payload: payload as LogPayload,
});

export const evaluationRecord = (evaluation: Evaluation): NewRunRecord =>
  record('rule_evals', { ...evaluation, kind: 'rule_eval' });

/** Returns the record of a checked decision in the monitor's own iteration. */
export const decisionRecord = (decision: Decision, iteration: number): NewRunRecord =>
  record('decisions', { ...decision, kind: 'decision', iteration });

/**
 * Returns the record of a rule that the policy left without a valid answer, and why; it answers
 * nothing.
 */
export const refusedRecord = (refusal: Refusal, iteration: number): NewRunRecord =>
  record('decisions', { ...refusal, kind: 'refused', iteration });

/** Returns the record of a question to a decider; its decision follows. */
export const questionRecord = (question: AskedQuestion): NewRunRecord =>
  record('decisions', { ...question, kind: 'question' });

export const effectRecord = (effect: Effect): NewRunRecord => record('effects', effect);

function signalForm({ form, absent }: SignalForm): z.ZodType {
  if (form === 'indices') return z.array(z.number().int());
  return absent === undefined ? number : number.default(absent);
}
const signalForms = (signals: Readonly<Record<string, SignalForm>>): Record<string, z.ZodType> =>
  Object.fromEntries(Object.entries(signals).map(([name, form]) => [name, signalForm(form)]));

type StepRecord<T extends TraineeTypes> = T['step'] & {
  readonly kind: 'step';
  readonly iteration: number;
};

const step = z.object({
  kind: z.literal('step'),
  iteration: z.number().int(),
  step: number,
  learningRate: number,
  loss: number,
  gradNorm: number,
  clipped: z.boolean(),
  applied: z.boolean(),
  nonFinite: z.array(z.string()),
  microBatchNorms: z.array(number),
  microBatchTokens: z.array(number),
});

/** Metrics: one optimiser step, with the signals that the trainee measures. */
export const stepForm = <T extends TraineeTypes>({
  signals,
}: Trainee<T>): z.ZodType<StepRecord<T>> =>
  step.extend({
    ...signalForms(signals.step),
    modules: dictionaryOf(z.object(signalForms(signals.module))),
  }) as unknown as z.ZodType<StepRecord<T>>;

/** Members of a step that every trainee has; `tokens` weigh its loss. */
export const anyStep = step
  .pick({ iteration: true, loss: true })
  .extend({ tokens: number.default(1) });

/** Rule evaluations: the members that are read without knowing the rules. */
export const anyEvaluation = z.object({
  iteration: iterationNumber,
  rules: dictionaryOf(
    z.object({
      fired: z.boolean(),
      side: z.string(),
      value: number.nullable(),
      threshold: number.nullable(),
    }),
  ),
  fired: z.array(z.string()),
});

const verdicts = z.array(z.object({ weight: number, verdicts: z.string().regex(/^[pfn]*$/) }));
export const iterationForm = z.object({
  kind: z.literal('iteration'),
  iteration: z.number().int(),
  stepCount: z.number().int().min(0),
  informativeGroupFraction: number,
  objective: z.object({ value: number, standardError: number }).nullable(),
  heldOut: z
    .union([
      z.object({ passRate: number, n: number, verdicts, best: verdicts }),
      z.object({ loss: number }),
    ])
    .nullable(),
  kl: number.nullable(),
  parameters: dictionaryOf(number),
});
type DecisionRecord<T extends TraineeTypes> = Decision<T['operation']> & {
  readonly kind: 'decision';
  readonly iteration: number;
};

/** Decisions: a checked decision with the iteration that the monitor assigned. */
export const decisionForm = <T extends TraineeTypes>(
  watched: Watched<T>,
): z.ZodType<DecisionRecord<T>> =>
  decisionSchema(watched, {
    kind: z.literal('decision'),
    iteration: z.number().int().min(0),
  }) as unknown as z.ZodType<DecisionRecord<T>>;

/** Members of a decision that every trainee has. */
export const anyDecision = z.object({
  iteration: iterationNumber,
  event_type: z.string(),
  cites: z.array(z.string()),
  justification: z.string(),
  remedy_direction: z.string(),
});

const count = z.number().int().min(0);

/** Decisions: a question to a decider and its answer, before the decision that it led to. */
const question = z.strictObject({
  kind: z.literal('question'),
  iteration: iterationNumber,
  rule: z.enum(RULES),
  situation: z.strictObject({ settings: z.record(z.string(), z.unknown()) }),
  menu: z.array(z.string().max(100)).min(1).max(26),
  prompt: sha256,
  key: sha256,
  reply: z.json(),
  choice: z.string().max(100),
  source: z.enum(SOURCES),
  cached: z.boolean(),
  margin: z.number().nullable(),
  agreement: z.number().nullable(),
  failure: z.strictObject({ code: z.string().max(100), reason: z.string().max(2000) }).nullable(),
  tokens: z.strictObject({ prompt: count, sampled: count }),
  seconds: z.number().min(0),
  cost: z.number().min(0).nullable(),
});

/**
 * Reads a record of the decisions stream as a question.
 * @throws IsoproError LOG_UNREADABLE by default
 */
export const readQuestion = (
  record: Pick<LogRecord, 'gseq' | 'payload'>,
  refuse?: (what: string) => never,
): AskedQuestion => readRecord(question as unknown as z.ZodType<AskedQuestion>, record, refuse);

/** True for the record of a question. */
export const isQuestion = ({ stream, payload }: Pick<LogRecord, 'stream' | 'payload'>): boolean =>
  stream === 'decisions' && payload.kind === 'question';

const effect = z.object({
  kind: z.literal('effect'),
  iteration: z.number().int(),
  rule: z.enum(RULES),
  executed: z.boolean(),
  measured: dictionaryOf(z.union([z.number(), z.string()])),
  failure: z.string().optional(),
});

/** Effects: the measured effect of an operation. */
export const effectForm = <T extends TraineeTypes>(
  trainee: Trainee<T>,
): z.ZodType<Effect<T['operation']>> =>
  effect.extend({ operation: operationForm(trainee) }) as unknown as z.ZodType<
    Effect<T['operation']>
  >;

/** Members of an effect that every trainee has. */
export const anyEffect = effect
  .pick({ iteration: true, executed: true, failure: true })
  .extend({ rule: z.string(), operation: dictionaryOf(z.unknown()) });
const executedForm = effect.pick({ iteration: true, rule: true, executed: true });

/**
 * Reads the rules' history from live records of the metrics and effects streams, in log order.
 * @throws IsoproError LOG_UNREADABLE if a record of the monitor does not have its form or an
 *   iteration lacks steps
 */
export function readHistory<T extends TraineeTypes>(
  records: Iterable<LogRecord>,
  trainee: Trainee<T>,
): Iteration<T['step']>[] {
  const stepRecord = stepForm(trainee);
  const history: Iteration<T['step']>[] = [];
  const effects = new Map<number, Map<RuleId, boolean>>();
  let steps: StepRecord<T>[] = [];
  for (const record of records) {
    if (record.stream === 'metrics' && record.payload.kind === 'step')
      steps.push(readRecord(stepRecord, record));
    else if (record.stream === 'metrics' && record.payload.kind === 'iteration') {
      const { kind: _, stepCount, ...iteration } = readRecord(iterationForm, record);
      if (
        steps.length !== stepCount ||
        steps.some((step) => step.iteration !== iteration.iteration)
      ) {
        throw new IsoproError(
          'LOG_UNREADABLE',
          `record ${record.gseq} counts ${stepCount} steps of iteration ${iteration.iteration}, but ${steps.length} precede it`,
        );
      }
      history.push({
        ...iteration,
        steps: steps.map(({ kind: __, iteration: ___, ...step }) => step as unknown as T['step']),
        executed: [],
      });
      steps = [];
    } else if (record.stream === 'effects' && record.payload.kind === 'effect') {
      const { iteration, rule, executed } = readRecord(executedForm, record);
      const ofIteration = effects.get(iteration) ?? new Map<RuleId, boolean>();
      effects.set(iteration, ofIteration.set(rule, (ofIteration.get(rule) ?? true) && executed));
    }
  }
  if (steps.length > 0)
    throw new IsoproError(
      'LOG_UNREADABLE',
      `${steps.length} steps at the end do not belong to an iteration`,
    );
  return history.map((iteration) => ({
    ...iteration,
    executed: [...(effects.get(iteration.iteration) ?? [])]
      .filter(([, executed]) => executed)
      .map(([rule]) => rule),
  }));
}

/**
 * Reads the decisions of live records in log order.
 * @param refuse throws for a record without its form
 * @throws IsoproError LOG_UNREADABLE by default
 */
export function readDecisions<T extends TraineeTypes>(
  records: Iterable<LogRecord>,
  watched: Watched<T>,
  refuse?: (what: string) => never,
): LoggedDecision<T['operation']>[] {
  const form = decisionForm(watched);
  const decisions: LoggedDecision<T['operation']>[] = [];
  for (const record of records) {
    if (record.stream !== 'decisions' || record.payload.kind !== 'decision') continue;
    const { kind: _, iteration, ...decision } = readRecord(form, record, refuse);
    decisions.push({ iteration, decision });
  }
  return decisions;
}
