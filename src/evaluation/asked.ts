/** What the examples in a table of failures were asked, and what would have been right. */
import { IsoproError } from '../errors.js';
import { shortenedReply, type Failure, type FailureExample, type Failures } from '../tasks/failures.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';

/** Rows whose example is looked up: as many as a table shows. */
const MOST = 8;

/**
 * The last line of the last message, without what an answer tag adds to it. @throws as OpenTask.prompt
 */
async function lastLine(task: OpenTask, problem: Problem, style: PromptStyle): Promise<string> {
  const messages = await (task.question?.(problem, style) ?? task.prompt(problem, style));
  const lines = (messages.at(-1)?.content ?? '').split('\n').filter((line) => line.trim() !== '');
  const tagged = task.source.kind === 'file' && task.source.options.answerTag !== undefined;
  return (tagged && lines.length > 1 ? lines.at(-2) : lines.at(-1)) ?? '';
}

/**
 * Of a user's task alone: the right replies of the built-in ones are found by a solver, or are one of many. Null where it knows none, or
 * its code does not say it.
 */
async function rightReply(task: OpenTask, problem: Problem, style: PromptStyle, kind: Failure['kind']): Promise<string | null> {
  if (task.source.kind !== 'file' || !task.hasReferences || kind === 'undecided' || kind === 'aborted') return null;
  try {
    return await task.referenceReply(problem, style);
  } catch (error) {
    if (error instanceof IsoproError) return null; // it is the table's example, and no part of the evaluation
    throw error;
  }
}

/** @param problems those that were asked @throws as OpenTask.prompt */
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
      asked: shortenedReply(await lastLine(task, problem, style)),
      ...(right === null ? {} : { right: shortenedReply(right) }),
    };
    told.push({ ...row, example });
  }
  return { ...counted, rows: told };
}
