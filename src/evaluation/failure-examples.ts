/** Adds questions and correct replies to the examples in a table of failures. */
import { IsoproError } from '../errors.js';
import {
  shortenedReply,
  type Failure,
  type FailureExample,
  type Failures,
} from '../tasks/failures.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';

/** Rows whose example is looked up: as many as a table shows. */
const MOST = 8;

/** Lines of the last message. @throws as OpenTask.prompt */
async function linesOf(task: OpenTask, problem: Problem, style: PromptStyle): Promise<string[]> {
  const messages = await (task.question?.(problem, style) ?? task.prompt(problem, style));
  return (messages.at(-1)?.content ?? '').split('\n').filter((line) => line.trim() !== '');
}

/**
 * The last line that the prompt of another problem has not: what is said of every problem, as of
 * its answer's form, asks nothing.
 */
async function lastLine(
  task: OpenTask,
  problem: Problem,
  problems: readonly Problem[],
  style: PromptStyle,
): Promise<string> {
  const other = problems.find(({ id, tier }) => id !== problem.id && tier === problem.tier);
  const [own, others] = [
    await linesOf(task, problem, style),
    other === undefined ? [] : await linesOf(task, other, style),
  ];
  return own.findLast((line) => !others.includes(line)) ?? own.at(-1) ?? '';
}

/**
 * Of a user's task alone: the right replies of the built-in ones are found by a solver, or are one
 * of many. Null where it knows none, or its code does not say it.
 */
async function rightReply(
  task: OpenTask,
  problem: Problem,
  style: PromptStyle,
  kind: Failure['kind'],
): Promise<string | null> {
  if (
    task.source.kind !== 'file' ||
    !task.hasReferences ||
    kind === 'undecided' ||
    kind === 'aborted'
  )
    return null;
  try {
    return await task.referenceReply(problem, style);
  } catch (error) {
    // it is the table's example, and no part of the evaluation
    if (error instanceof IsoproError) return null;
    throw error;
  }
}

/** @param problems problems of the evaluation @throws as OpenTask.prompt */
export async function withQuestions(
  { rows, ...counted }: Failures,
  task: OpenTask,
  problems: readonly Problem[],
  style: PromptStyle,
): Promise<Failures> {
  const told: Failure[] = [];
  for (const [i, row] of rows.entries()) {
    const problem = problems.find(({ id }) => id === row.example?.problemId);
    if (i >= MOST || row.example === null || problem === undefined) {
      told.push(row);
      continue;
    }
    const right = await rightReply(task, problem, style, row.kind);
    const example: FailureExample = {
      ...row.example,
      asked: shortenedReply(await lastLine(task, problem, problems, style)),
      ...(right === null ? {} : { right: shortenedReply(right) }),
    };
    told.push({ ...row, example });
  }
  return { ...counted, rows: told };
}
