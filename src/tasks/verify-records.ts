import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { parseLine } from '../files.js';
import { frozenIndex, SET_NAMES } from './frozen-sets.js';
import {
  FINISH_REASONS,
  type Grades,
  type OpenTask,
  type Problem,
  type TraceFinding,
  type Verdict,
} from './task.js';
import { REFUSED, undecided } from './verdict.js';

export interface VerifyOptions {
  /** Also grade against the optimum; this may start the solver. */
  readonly grade?: boolean;
  /** Also report contradictions in the reasoning. */
  readonly trace?: boolean;
  readonly feedback?: boolean;
}

export type VerifiedRecord =
  | ({
      readonly line: number;
      readonly problemId: string;
      readonly tier: string;
      readonly form: string | null;
    } & Verdict & {
        readonly grades?: Grades;
        readonly trace?: readonly TraceFinding[];
        readonly feedback?: string;
      })
  | { readonly line: number; readonly error: { readonly code: string; readonly message: string } };

const record = z.object({
  problem: z.unknown().optional(),
  problemId: z.string().optional(),
  text: z.string(),
  finish: z.enum([...FINISH_REASONS, 'refused', 'failed']).default('stop'),
});

/**
 * Judges JSON lines `{problem | problemId, text, finish?}` in order; `problemId` names a problem of
 * the frozen or held-out sets. A line that cannot be judged yields an error in its place.
 */
export async function* verifyRecords(
  task: OpenTask,
  lines: AsyncIterable<string> | Iterable<string>,
  options: VerifyOptions = {},
): AsyncGenerator<VerifiedRecord> {
  let line = 0;
  for await (const text of lines) {
    line++;
    if (text.trim() === '') continue;
    try {
      yield await verifyOne(task, line, text, options);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      const { code, message } = error;
      yield {
        line,
        error: {
          code,
          message: message.startsWith(`line ${line}`) ? message : `line ${line}: ${message}`,
        },
      };
    }
  }
}

async function verifyOne(
  task: OpenTask,
  line: number,
  text: string,
  { grade, trace, feedback }: VerifyOptions,
): Promise<VerifiedRecord> {
  const given = parseLine(text, line);
  const result = record.safeParse(given);
  if (!result.success) {
    const wrong = result.error.issues
      .map((issue) => `${issue.path.join('.') || 'the line'}: ${issue.message}`)
      .join('; ');
    const has =
      typeof given === 'object' && given !== null
        ? `; it has ${Object.keys(given).join(', ') || 'no members'}`
        : '';
    throw new IsoproError('INVALID_ARGUMENT', `line ${line}: ${wrong}${has}`);
  }
  const { problem: asked, problemId, text: reply, finish } = result.data;
  if ((asked === undefined) === (problemId === undefined))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `line ${line} must have either problem or problemId, not both`,
    );
  const problem = asked === undefined ? heldOutProblem(task, problemId!) : task.readProblem(asked);
  const { verdict, form } =
    finish === 'refused' || finish === 'failed'
      ? { verdict: finish === 'refused' ? REFUSED : undecided('there is no reply'), form: null }
      : await task.judge(problem, reply, finish);
  const grades = grade === true ? await task.grade(problem, verdict) : null;
  const advice = feedback === true ? await task.feedback(problem, verdict) : null;
  return {
    line,
    problemId: problem.id,
    tier: problem.tier,
    form,
    ...verdict,
    ...(grades === null ? {} : { grades }),
    ...(trace === true ? { trace: await task.checkTrace(problem, reply) } : {}),
    ...(advice === null ? {} : { feedback: advice }),
  };
}

function heldOutProblem({ id: task, rows }: OpenTask, id: string): Problem {
  const found =
    rows === undefined
      ? frozenIndex(task).get(id)?.problem
      : SET_NAMES.flatMap((name) => rows.heldOut[name]).find((problem) => problem.id === id);
  if (found === undefined)
    throw new IsoproError(
      'PROBLEM_INVALID',
      `no ${rows === undefined ? 'frozen' : 'held-out'} problem of ${task} has the id ${id}`,
    );
  return found;
}
