import { z } from 'zod';
import { dictionaryOf } from '../dictionary-schema.js';
import { given as stated } from '../given.js';
import { FINISH_REASONS, type Tier } from './task.js';

/**
 * What a user's task must have and return; the types of `task.ts` as they are checked at run time.
 */
export const tierShape = z.object({
  id: z.string().min(1),
  title: z.string().optional(),
  trains: z.boolean().optional(),
  group: z.string().optional(),
});

/** Figures are kept by tier and by group: two of one name would be one. */
function distinctTiers(
  tiers: readonly z.output<typeof tierShape>[],
  { addIssue }: z.RefinementCtx,
): void {
  const groups = new Set(tiers.map(({ group }) => group));
  for (const [at, { id }] of tiers.entries()) {
    const name = JSON.stringify(id);
    if (tiers.findIndex((other) => other.id === id) < at)
      addIssue({
        code: 'custom',
        path: [at, 'id'],
        message: `${name} is the id of another tier too`,
      });
    if (groups.has(id))
      addIssue({ code: 'custom', path: [at, 'id'], message: `${name} is the name of a group too` });
  }
}

/** Tiers with what they leave out. */
export const wholeTiers = (tiers: readonly z.output<typeof tierShape>[]): Tier[] =>
  tiers.map(({ id, title, trains, group }) => ({
    id,
    title: title ?? id,
    trains: trains ?? true,
    ...stated({ group }),
  }));

const callable = z.custom<(...given: never[]) => unknown>(
  (value) => typeof value === 'function',
  'needs a function',
);

/** It stands in logs, reports and names of files. */
const name = z
  .string()
  .min(1)
  .max(1000)
  .refine(
    (text) => text.isWellFormed() && !/\p{Cc}/u.test(text),
    'holds a control character or half a character',
  );

export const memberShapes = {
  id: name,
  version: name,
  tiers: z.array(tierShape).min(1).superRefine(distinctTiers),
  generate: callable,
  prompt: callable,
  parse: callable,
  verify: callable,
  readLeniently: callable.optional(),
  answerGrammar: z.string().min(1).optional(),
  limits: z
    .strictObject({
      verifySeconds: z.number().positive().max(3600).optional(),
      turns: z.int().min(1).max(64).optional(),
    })
    .optional(),
  grade: callable.optional(),
  feedback: callable.optional(),
  step: callable.optional(),
  oracle: callable.optional(),
  reference: callable.optional(),
  referenceReply: callable.optional(),
  checkTrace: callable.optional(),
  fewShot: callable.optional(),
  trivialPolicies: dictionaryOf(callable).optional(),
  policyNotes: dictionaryOf(z.string()).optional(),
  exploits: z
    .array(
      z.object({
        name: z.string(),
        source: z.string().optional(),
        problem: z.looseObject({}),
        text: z.string(),
        finish: z.enum(FINISH_REASONS).optional(),
      }),
    )
    .optional(),
} as const;

export const verdictKind = z.enum(['pass', 'fail', 'none']);

export const fraction = z.number().min(0).max(1);
const forecast = z.object({ probability: fraction, outcome: z.boolean() });

/** Where nothing was decided there is nothing to count. */
function figuresOfDecided(
  verdict: { kind: string; score?: number | undefined; forecast?: object | undefined },
  { addIssue }: z.RefinementCtx,
): void {
  for (const name of ['score', 'forecast'] as const)
    if (verdict.kind === 'none' && verdict[name] !== undefined)
      addIssue({ code: 'custom', path: [name], message: 'a verdict of kind none has no figure' });
}

/**
 * What a task says, in whole characters: a reply cut within one leaves half of it, which no log
 * keeps.
 */
export const wording = z.string().transform((text) => text.toWellFormed());

/** What the members return, by member. */
export const resultShapes = {
  generate: dictionaryOf(z.unknown()),
  prompt: z
    .array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: wording }))
    .min(1),
  parse: z.discriminatedUnion('ok', [
    z.object({ ok: z.literal(true), answer: z.unknown(), form: wording.default('answer') }),
    z.object({
      ok: z.literal(false),
      category: wording.default('format'),
      detail: wording.default('The answer could not be read.'),
    }),
  ]),
  readLeniently: z.array(z.unknown()),
  verify: z
    .object({
      kind: verdictKind,
      violations: z
        .array(
          z.object({
            category: wording,
            jobs: z.array(wording).default([]),
            amount: z.number().default(1),
            detail: wording,
          }),
        )
        .default([]),
      metrics: dictionaryOf(z.number()).default({}),
      reason: wording.optional(),
      results: z.object({ found: wording, expected: wording }).optional(),
      score: fraction.optional(),
      forecast: forecast.optional(),
    })
    .superRefine(figuresOfDecided),
  grade: dictionaryOf(verdictKind),
  feedback: wording,
  step: wording.nullable(),
  referenceReply: z.string().min(1).pipe(wording).nullable(),
  checkTrace: z.array(
    z.object({
      category: wording,
      jobs: z.array(wording).default([]),
      claimed: wording,
      actual: wording,
      excerpt: wording,
    }),
  ),
} as const;

/**
 * A member of a task that is missing, throws where it must not, or returns something else than it
 * should.
 */
export class MemberError extends Error {
  readonly member: string;
  constructor(member: string, message: string) {
    super(message);
    this.member = member;
  }
}

/** @throws MemberError */
export function checkMember<S extends z.ZodType>(
  member: string,
  shape: S,
  value: unknown,
  root: string,
): z.output<S> {
  const result = shape.safeParse(value);
  if (!result.success) throw new MemberError(member, firstComplaint(result.error, root));
  return result.data;
}

/** The first complaint of a failed check, with its place, e.g. `verdict.kind: Invalid option`. */
export function firstComplaint(error: z.ZodError, root: string): string {
  const issue = error.issues[0]!;
  return `${[root, ...issue.path.map(String)].join('.')}: ${issue.message}`;
}
