/**
 * Terms of a gate: what a version must show before it replaces another. They are chosen before the
 * evidence exists and never change.
 */
import { z } from 'zod';
import { IsoproError, type ErrorCode } from '../errors.js';
import { geometricAlpha, inverseSquareAlpha, minimumBlocks, MOST_BLOCKS } from './spending.js';

/** Most problems that any list of trials is planned with. */
const MOST_PROBLEMS = 1_000_000;

const level = z.number().gt(0).lte(0.5);
const count = z.number().int().min(1).max(MOST_PROBLEMS);
const name = z.string().min(1).max(200);

/**
 * A guard: a figure that must not get worse. With a `ceiling`, a trial's score is a cost (seconds,
 * tokens; less is better), capped at the ceiling, and the margin has the unit of the cost.
 * Otherwise it is a score in [0, 1], and the margin is a part of it.
 */
const guard = z.discriminatedUnion('kind', [
  /**
   * No problem may get worse than the incumbent's by more than the margin, on at least `least`
   * problems.
   */
  z.strictObject({
    kind: z.literal('safety'),
    name,
    margin: z.number().min(0).default(0),
    ceiling: z.number().gt(0).optional(),
    least: count.default(1),
  }),
  /** Refutes, by an e-process of its own, that the mean is worse by the margin or more. */
  z.strictObject({
    kind: z.literal('non-inferiority'),
    name,
    margin: z.number().min(0),
    ceiling: z.number().gt(0).optional(),
    most: count.default(1000),
  }),
]);
const guards = z
  .array(guard)
  .max(100)
  .refine(
    (given) => new Set(given.map((each) => each.name)).size === given.length,
    'two guards have the same name',
  )
  .refine(
    (given) => given.every(({ margin, ceiling }) => margin < (ceiling ?? 1)),
    'a margin must be less than the ceiling (default 1)',
  )
  .default([]);

const eProcess = z
  .strictObject({
    kind: z.literal('e-process'),
    /**
     * `verdict`: scores are 0 or 1, one sample a problem; `score`: anything in [0, 1], the samples
     * of a problem count by their mean.
     */
    measure: z.enum(['verdict', 'score']).default('verdict'),
    alpha: level.default(0.05),
    /**
     * `inverse-square`: alpha × 6 / (pi² k²) for the k-th attempt; `once`: alpha, and there is one
     * attempt only.
     */
    spending: z.enum(['inverse-square', 'once']).default('inverse-square'),
    /** The mean difference must exceed it; for `score` only. */
    minimumEffect: z.number().min(0).lt(1).default(0),
    /** Bet this part of the wealth on every difference, instead of the mixture over all parts. */
    fraction: z.number().gt(0).max(1).optional(),
    /** Problems after which a gate without a decision ends. */
    most: count.default(1000),
    guards,
  })
  .refine(
    ({ measure, minimumEffect }) => measure === 'score' || minimumEffect === 0,
    'minimumEffect requires measure score',
  );

const sign = z
  .strictObject({
    kind: z.literal('sign'),
    alpha: level.default(0.05),
    /** Attempts that share alpha in equal parts; no attempt after them is accepted. */
    proposals: z.number().int().min(1).max(10_000).default(10),
    /** Problems, no more and no fewer, of which the challenger has to win every one. */
    blocks: z
      .number()
      .int()
      .min(2)
      .max(MOST_BLOCKS, 'must be at most 1074: the e-value of more blocks does not fit a double')
      .default(8),
    /**
     * A win is a score of the incumbent's and this more; above 0, because equal versions would win
     * every tie.
     */
    margin: z.number().gt(0).lte(1),
    guards,
  })
  .refine(
    ({ alpha, proposals, blocks }) => blocks >= minimumBlocks(alpha / proposals),
    'too few blocks: winning all of them would not reach alpha / proposals',
  );

const pairedT = z
  .strictObject({
    kind: z.literal('paired-t'),
    alpha: level.default(0.05),
    /** The k-th attempt gets alpha (1 - ratio) ratio^(k - 1). */
    ratio: z.number().gt(0).lt(1).default(0.5),
    minimumEffect: z.number().min(0).lt(1).default(0.01),
    screen: z.number().int().min(2).max(1000).default(2),
    least: z.number().int().min(2).max(1000).default(4),
    most: z.number().int().min(2).max(1000).default(12),
    heldOut: z.number().int().min(1).max(1000).default(4),
    guards,
  })
  .refine(({ least, most }) => least <= most, 'least is above most');

export const gateTerms = z.discriminatedUnion('kind', [eProcess, sign, pairedT]);
export type GateTermsInput = z.input<typeof gateTerms>;
export type GateTerms = z.output<typeof gateTerms>;
export type Guard = z.output<typeof guard>;
export type GuardInput = z.input<typeof guard>;
export type EProcessTerms = z.output<typeof eProcess>;
export type SignTerms = z.output<typeof sign>;
export type PairedTTerms = z.output<typeof pairedT>;

/**
 * Parses a value of the caller.
 * @throws IsoproError with the code given, naming the member
 */
export function parsed<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
  code: ErrorCode,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues
    .slice(0, 5)
    .map((issue) => `${[what, ...issue.path].join('.')}: ${issue.message}`);
  throw new IsoproError(code, problems.join('; '), { cause: result.error });
}

/**
 * Alpha of an attempt, which is spent when the attempt starts and never returned; 0 if nothing is
 * left.
 */
export function alphaOf(terms: GateTerms, attempt: number): number {
  switch (terms.kind) {
    case 'e-process':
      if (terms.spending === 'inverse-square') return inverseSquareAlpha(terms.alpha, attempt);
      return attempt === 1 ? terms.alpha : 0;
    case 'sign':
      return attempt <= terms.proposals ? terms.alpha / terms.proposals : 0;
    case 'paired-t':
      return geometricAlpha(terms.alpha, terms.ratio, attempt);
  }
}
