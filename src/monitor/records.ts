import { z } from 'zod';
import { dictionaryOf } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import type { NewRecord } from '../log/event-log.js';
import type { LogPayload, LogValue } from '../log/payload.js';
import type { LogRecord } from '../log/read.js';
import type { Decision } from './decision.js';
import type { Evaluation } from './evaluate-rules.js';
import type { Iteration } from './measurements.js';
import type { Effect } from './remedies.js';
import { RULES, type RuleId } from './rules.js';

/**
 * How the monitor's findings stand in the log, and how a judge reads them back. What was measured is spread into a record first and the
 * monitor's own members last, so that nothing that comes with a measurement can name another iteration or kind.
 */

/** A step's members are the trainer's; `notes` of a hook stay apart and are never read back as measurements. */
export function iterationRecords(iteration: Iteration, notes: { readonly [key: string]: LogValue } = {}): NewRecord[] {
  const { steps, executed: _, ...rest } = iteration;
  return [
    ...steps.map(
      (step): NewRecord => ({
        stream: 'metrics',
        payload: { ...(step as unknown as { readonly [key: string]: LogValue }), kind: 'step', iteration: iteration.iteration },
      }),
    ),
    {
      stream: 'metrics',
      payload: {
        ...(rest as unknown as { readonly [key: string]: LogValue }),
        notes,
        kind: 'iteration',
        iteration: iteration.iteration,
        stepCount: steps.length,
      },
    },
  ];
}

export function evaluationRecord(evaluation: Evaluation): NewRecord {
  return { stream: 'rule_evals', payload: { ...(evaluation as unknown as { readonly [key: string]: LogValue }), kind: 'rule_eval' } };
}

/** A checked decision, stamped with the monitor's own iteration. */
export function decisionRecord(decision: Decision, iteration: number): NewRecord {
  return {
    stream: 'decisions',
    payload: { ...(decision as unknown as { readonly [key: string]: LogValue }), kind: 'decision', iteration },
  };
}

export function effectRecord(effect: Effect): NewRecord {
  return { stream: 'effects', payload: effect as unknown as LogPayload };
}

const number = z.number().or(z.nan()).or(z.literal(Infinity)).or(z.literal(-Infinity));
const stepRecord = z.object({
  kind: z.literal('step'),
  iteration: z.number().int(),
  step: number,
  learningRate: number,
  tokens: number,
  loss: number,
  gradNorm: number,
  clipped: z.boolean(),
  applied: z.boolean(),
  nonFinite: z.array(z.string()),
  microBatchNorms: z.array(number),
  microBatchTokens: z.array(number),
  clipFraction: number,
  klToReference: number,
  oldPolicyGap: number.default(0), // logs of before named it otherwise; no rule reads it
  modules: dictionaryOf(
    z.object({
      pairGradNorm: number,
      updateRatio: number,
      dormantFraction: number,
      dormantDirections: z.array(z.number().int()),
      rankUse: number,
    }),
  ),
});
const verdicts = z.array(z.object({ weight: number, verdicts: z.string().regex(/^[pfn]*$/) }));
const iterationRecord = z.object({
  kind: z.literal('iteration'),
  iteration: z.number().int(),
  stepCount: z.number().int().min(0),
  informativeGroupFraction: number,
  objective: z.object({ value: number, standardError: number }).nullable(),
  heldOut: z.union([z.object({ passRate: number, n: number, verdicts, best: verdicts }), z.object({ loss: number })]).nullable(),
  kl: number.nullable(),
  parameters: dictionaryOf(number),
});
const effectPayload = z.object({ kind: z.literal('effect'), iteration: z.number().int(), rule: z.enum(RULES), executed: z.boolean() });

/**
 * The rules' history from live records of the metrics and effects streams, in log order.
 * @throws IsoproError LOG_UNREADABLE where a record of the monitor does not have its form, or an iteration lacks steps
 */
export function readHistory(records: Iterable<LogRecord>): Iteration[] {
  const history: Iteration[] = [];
  const effects = new Map<number, Map<RuleId, boolean>>();
  let steps: z.infer<typeof stepRecord>[] = [];
  const read = <T>(schema: z.ZodType<T>, { gseq, payload }: LogRecord): T => {
    const parsed = schema.safeParse(payload);
    if (!parsed.success)
      throw new IsoproError('LOG_UNREADABLE', `record ${gseq} is no ${payload.kind} record: ${z.prettifyError(parsed.error)}`);
    return parsed.data;
  };
  for (const record of records) {
    if (record.stream === 'metrics' && record.payload.kind === 'step') steps.push(read(stepRecord, record));
    else if (record.stream === 'metrics' && record.payload.kind === 'iteration') {
      const { kind: _, stepCount, ...iteration } = read(iterationRecord, record);
      if (steps.length !== stepCount || steps.some((step) => step.iteration !== iteration.iteration)) {
        throw new IsoproError(
          'LOG_UNREADABLE',
          `record ${record.gseq} counts ${stepCount} steps of iteration ${iteration.iteration}, and ${steps.length} precede it`,
        );
      }
      history.push({ ...iteration, steps: steps.map(({ kind: __, iteration: ___, ...step }) => step), executed: [] });
      steps = [];
    } else if (record.stream === 'effects' && record.payload.kind === 'effect') {
      const { iteration, rule, executed } = read(effectPayload, record);
      const ofIteration = effects.get(iteration) ?? new Map<RuleId, boolean>();
      effects.set(iteration, ofIteration.set(rule, (ofIteration.get(rule) ?? true) && executed));
    }
  }
  if (steps.length > 0) throw new IsoproError('LOG_UNREADABLE', `${steps.length} steps at the end belong to no iteration`);
  return history.map((iteration) => ({
    ...iteration,
    executed: [...(effects.get(iteration.iteration) ?? [])].filter(([, executed]) => executed).map(([rule]) => rule),
  }));
}
