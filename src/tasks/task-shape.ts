import { z } from 'zod';
import { dictionaryOf } from '../dictionary-schema.js';
import { given as stated } from '../given.js';
import {
  FINISH_REASONS,
  type OpenTask,
  type Problem,
  type Task,
  type TaskLimits,
  type Tier,
} from './task.js';

/** Runtime checks of what a user's task has and returns; the types are in `task.ts`. */
export const tierShape = z.object({
  id: z.string().min(1),
  title: z.string().optional(),
  trains: z.boolean().optional(),
  group: z.string().optional(),
});

/** Refuses equal names of tiers and groups, which would share their figures. */
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
        message: `${name} is also the id of another tier`,
      });
    if (groups.has(id))
      addIssue({
        code: 'custom',
        path: [at, 'id'],
        message: `${name} is also the name of a group`,
      });
  }
}

/** Fills in the defaults of tiers. */
export const wholeTiers = (tiers: readonly z.output<typeof tierShape>[]): Tier[] =>
  tiers.map(({ id, title, trains, group }) => ({
    id,
    title: title ?? id,
    trains: trains ?? true,
    ...stated({ group }),
  }));

const callable = z.custom<(...given: never[]) => unknown>(
  (value) => typeof value === 'function',
  'must be a function',
);

/** Name that appears in logs, reports and file names. */
const name = z
  .string()
  .min(1)
  .max(1000)
  .refine(
    (text) => text.isWellFormed() && !/\p{Cc}/u.test(text),
    'contains a control character or half a character (a lone surrogate)',
  );

export const verdictKind = z.enum(['pass', 'fail', 'none']);

export const fraction = z.number().min(0).max(1);
const forecast = z.object({ probability: fraction, outcome: z.boolean() });

/** Refuses figures of a verdict that is undecided. */
function figuresOfDecided(
  verdict: { kind: string; score?: number | undefined; forecast?: object | undefined },
  { addIssue }: z.RefinementCtx,
): void {
  for (const name of ['score', 'forecast'] as const)
    if (verdict.kind === 'none' && verdict[name] !== undefined)
      addIssue({
        code: 'custom',
        path: [name],
        message: `only a verdict of kind pass or fail can have a ${name}`,
      });
}

/**
 * Text of a task, in whole characters: a reply that is cut inside a character leaves half of it,
 * which a log cannot hold.
 */
export const wording = z.string().transform((text) => text.toWellFormed());

const messages = z
  .array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: wording }))
  .min(1);

interface MemberRow {
  readonly returns: z.ZodType;
  readonly called: string;
  readonly without?: null | readonly [];
  readonly python?: string;
}

/**
 * The functions of a task: the form of what each returns, what a complaint calls that, and for one
 * that a task need not have, what stands for its result. `python` is its name in a Python module,
 * where that differs.
 */
export const MEMBERS = {
  generate: { returns: dictionaryOf(z.unknown()), called: 'problem', python: 'problem' },
  prompt: { returns: messages, called: 'messages' },
  parse: {
    returns: z.discriminatedUnion('ok', [
      z.object({ ok: z.literal(true), answer: z.unknown(), form: wording.default('answer') }),
      z.object({
        ok: z.literal(false),
        category: wording.default('format'),
        detail: wording.default('The answer could not be read.'),
      }),
    ]),
    called: 'parsed',
  },
  verify: {
    returns: z
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
    called: 'verdict',
  },
  readLeniently: { returns: z.array(z.unknown()), called: 'answers', without: null },
  grade: { returns: dictionaryOf(verdictKind), called: 'grades', without: null },
  feedback: { returns: wording, called: 'feedback', without: null },
  step: { returns: wording.nullable(), called: 'said', without: null },
  referenceReply: {
    returns: z.string().min(1).pipe(wording).nullable(),
    called: 'reply',
    without: null,
    python: 'solution',
  },
  checkTrace: {
    returns: z.array(
      z.object({
        category: wording,
        jobs: z.array(wording).default([]),
        claimed: wording,
        actual: wording,
        excerpt: wording,
      }),
    ),
    called: 'findings',
    without: [],
  },
  fewShot: { returns: messages, called: 'messages', without: null },
} as const satisfies Record<string, MemberRow>;
type Members = typeof MEMBERS;
const rows: Readonly<Record<string, MemberRow | undefined>> = MEMBERS;
/** The row of a function by its name; undefined for another name. */
export const memberRow = (name: string): MemberRow | undefined => rows[name];
/** What a function of a task returns, checked. */
export type Returned<Name extends keyof Members> = z.output<Members[Name]['returns']>;
/** Functions that a task need not have. */
export type OptionalMember = {
  [Name in keyof Members]: Members[Name] extends { without: unknown } ? Name : never;
}[keyof Members];
/** Functions whose result is handed to whoever opened the task, as it is. */
export type CalledMember = 'generate' | 'prompt' | Exclude<OptionalMember, 'readLeniently'>;

const isOptional = (member: string): member is OptionalMember =>
  rows[member]?.without !== undefined;

/** What is known of a task without a call of its functions. */
export interface TaskDescription
  extends Pick<
    OpenTask,
    'id' | 'version' | 'tiers' | 'policies' | 'policyNotes' | 'exploits' | 'answerGrammar'
  > {
  readonly limits: TaskLimits;
  readonly optional: Readonly<Record<OptionalMember, boolean>>;
}

/** Which of the functions that a task need not have it has. */
export const optionalMembers = (
  has: (member: OptionalMember) => boolean,
): TaskDescription['optional'] =>
  Object.fromEntries(
    Object.keys(MEMBERS)
      .filter(isOptional)
      .map((member) => [member, has(member)]),
  ) as Record<OptionalMember, boolean>;

/** Describes a task, except for its exploits, which may take long to make. */
export const describeTask = (
  task: Task<Problem, unknown, unknown>,
): Omit<TaskDescription, 'exploits'> => ({
  id: task.id,
  version: task.version,
  tiers: wholeTiers(task.tiers),
  policies: Object.keys(task.trivialPolicies ?? {}),
  policyNotes: task.policyNotes ?? {},
  limits: task.limits ?? {},
  answerGrammar: task.answerGrammar ?? null,
  optional: optionalMembers((member) => typeof task[member] === 'function'),
});

/** What a user's task must have. */
export const memberShapes = {
  id: name,
  version: name,
  tiers: z.array(tierShape).min(1).superRefine(distinctTiers),
  ...(Object.fromEntries(
    Object.keys(MEMBERS).map((member) => [
      member,
      (isOptional(member) ? callable.optional() : callable) as z.ZodType,
    ]),
  ) as Record<keyof Members, z.ZodType>),
  oracle: callable.optional(),
  reference: callable.optional(),
  answerGrammar: z.string().min(1).optional(),
  limits: z
    .strictObject({
      verifySeconds: z.number().positive().max(3600).optional(),
      turns: z.int().min(1).max(64).optional(),
    })
    .optional(),
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

/** Thrown for a member of a task that is missing, throws, or returns a wrong result. */
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

/**
 * What a member returned, checked.
 * @param named as the member is called in a complaint
 * @throws MemberError
 */
export const checkResult = <Name extends keyof Members>(
  member: Name,
  value: unknown,
  named: string = member,
): Returned<Name> =>
  checkMember(named, rows[member]!.returns, value, rows[member]!.called) as Returned<Name>;

/** Returns the first complaint of a failed check with its place: `verdict.kind: Invalid option`. */
export function firstComplaint(error: z.ZodError, root: string): string {
  const issue = error.issues[0]!;
  return `${[root, ...issue.path.map(String)].join('.')}: ${issue.message}`;
}
