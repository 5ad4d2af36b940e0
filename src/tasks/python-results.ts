/**
 * Checks what the functions of a task in Python return and converts it to the results of members.
 */
import { z } from 'zod';
import { canonicalJson, type Json } from '../canonical-json.js';
import { given as stated } from '../given.js';
import { asProblem } from './problem-id.js';
import type { FinishReason, Judgement, Verdict } from './task.js';
import {
  checkMember,
  checkResult,
  firstComplaint,
  fraction,
  MemberError,
  MEMBERS,
  memberShapes,
  optionalMembers,
  wholeTiers,
  wording,
  type TaskDescription,
} from './task-shape.js';
import type { WorkerMethod } from './thread-messages.js';
import { failed, judgedCut, undecided } from './verdict.js';

/** Most characters of a reason. */
const MOST_SAID = 2000;
const MOST_CATEGORY = 100;
const cutAt = (most: number) => (text: string) =>
  text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text;

const given = z
  .looseObject({
    outcome: z.enum(['pass', 'fail', 'none']),
    score: fraction.optional(),
    reason: wording.transform(cutAt(MOST_SAID)).optional(),
    /** `format`: no answer could be read. */
    category: z.string().min(1).pipe(wording).transform(cutAt(MOST_CATEGORY)).default('wrong'),
    /** Answer as it was read, so that equal answers can be counted. */
    answer: z.unknown().optional(),
  })
  .refine(({ outcome, score: figure }) => outcome !== 'none' || figure === undefined, {
    path: ['score'],
    message: 'only a verdict of outcome pass or fail can have a score',
  });

type Given = z.output<typeof given>;

function asVerdict({ outcome, score: figure, reason, category }: Given): Verdict {
  if (outcome === 'none') return undecided(reason ?? 'verify returned none without a reason');
  const scored = stated({ score: figure });
  if (outcome === 'pass') return { kind: 'pass', violations: [], metrics: {}, ...scored };
  return { ...failed(category, reason ?? 'The answer is not accepted.'), ...scored };
}

/**
 * Reads the verdict of a check outside this process: true, false, or an object with an outcome.
 * @throws MemberError
 */
export const readGivenVerdict = (value: unknown): Verdict =>
  asVerdict(
    checkMember(
      'verify',
      given,
      typeof value === 'boolean' ? { outcome: value ? 'pass' : 'fail' } : value,
      'verdict',
    ),
  );

const readable = ({ outcome, category }: Given): boolean =>
  outcome === 'pass' || (outcome === 'fail' && category !== 'format');

export interface PythonDescription extends TaskDescription {
  /** SHA-256 of the code that judges. */
  readonly sha256: string;
}

const description = z.object({
  id: memberShapes.id,
  version: memberShapes.version,
  tiers: memberShapes.tiers,
  policies: z.array(z.string()),
  verifySeconds: z.number().positive().max(3600).nullable(),
  solution: z.boolean(),
  sha256: z.string(),
});

function asDescription(value: unknown): PythonDescription {
  // what the module names by a constant is called as there
  const member = (at: PropertyKey | undefined): string =>
    ({ id: 'ID', version: 'VERSION', verifySeconds: 'VERIFY_SECONDS', policies: 'POLICIES' })[
      String(at)
    ] ?? 'tiers';
  const result = description.safeParse(value);
  if (!result.success)
    throw new MemberError(
      member(result.error.issues[0]!.path[0]),
      firstComplaint(result.error, 'module'),
    );
  const { tiers, verifySeconds, solution, ...named } = result.data;
  return {
    ...named,
    tiers: wholeTiers(tiers),
    policyNotes: {},
    exploits: [],
    limits: verifySeconds === null ? {} : { verifySeconds },
    answerGrammar: null,
    optional: optionalMembers((name) => name === 'referenceReply' && solution),
  };
}

/**
 * Converts the answer of Python to the result of a call.
 * @throws MemberError naming the function of the module
 */
export function readResult(
  method: WorkerMethod,
  args: readonly unknown[],
  value: unknown,
): unknown {
  switch (method) {
    case 'load':
      return asDescription(value);
    case 'generate': {
      const { python } = MEMBERS.generate;
      const content = checkResult('generate', value, python);
      try {
        return asProblem(content, args[0] as string);
      } catch (error) {
        throw new MemberError(
          python,
          `cannot be written to a log: ${(error as TypeError).message}`,
        );
      }
    }
    case 'prompt':
      return checkResult('prompt', value);
    case 'referenceReply':
      return checkResult('referenceReply', value, MEMBERS.referenceReply.python);
    case 'policy':
      return asVerdict(checkMember('verify', given, value, 'verdict'));
    case 'judge': {
      if ((args[2] as FinishReason) !== 'stop') {
        const cut = given.safeParse(value);
        return judgedCut(cut.success ? { verdict: asVerdict(cut.data), form: null } : null);
      }
      const found = checkMember('verify', given, value, 'verdict');
      return {
        verdict: asVerdict(found),
        form: readable(found) ? 'answer' : null,
      } satisfies Judgement;
    }
    case 'answer': {
      const found = checkMember('verify', given, value, 'verdict');
      if (!readable(found)) return null;
      try {
        return canonicalJson((found.answer ?? (args[1] as string).trim()) as Json);
      } catch {
        return null; // half a character has no JSON form
      }
    }
    default:
      throw new MemberError(method, 'is missing');
  }
}
