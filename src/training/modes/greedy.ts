/**
 * Methods that take one greedy path: plain, with solved examples, in a dialogue, in chained calls.
 */
import { IsoproError } from '../../errors.js';
import { promptsOf } from '../../evaluation/few-shot.js';
import { summarise, SUMMARY_SEED } from '../../statistics/index.js';
import type { ChatMessage, Problem } from '../../tasks/task.js';
import {
  failuresOf,
  type Method,
  type MethodResult,
  type ModeContext,
  type ModeReply,
} from './mode.js';
import { sampleReplies } from './replies.js';

/** Solved examples of few-shot. */
const EXAMPLES = 3;
/** Attempts of multi-turn, calls of isozero. */
const TURNS = 3;

interface Answers {
  /** Replies in the order of the problems. */
  readonly replies: readonly ModeReply[];
  readonly tokens: number;
}

async function answer(
  context: ModeContext,
  method: Method,
  problems: readonly Problem[],
  prompt: (problem: Problem) => Promise<readonly ChatMessage[]>,
): Promise<Answers> {
  const { onProgress } = context;
  const { groups, tokens } = await sampleReplies(context, {
    prompt,
    plan: problems.map((problem) => ({ problem, seeds: [0n] })),
    temperature: 0,
    ...(onProgress && { onProgress: (progress) => onProgress(method, progress) }),
  });
  return { replies: groups.map(({ replies }) => replies[0]!), tokens };
}

/** @param replies in the order of the problems */
const judgedBy = (
  { task, problems }: ModeContext,
  replies: readonly ModeReply[],
): Pick<MethodResult, 'test' | 'failures'> => ({
  test: summarise(
    problems.map(({ tier }, i) => ({ tier, kind: replies[i]!.verdict.kind })),
    task.tiers,
    { seed: SUMMARY_SEED },
  ),
  failures: failuresOf(problems.map((problem, i) => [problem, replies[i]!])),
});

/** Result of a method without its time. */
type Measured = Omit<MethodResult, 'method' | 'seconds'>;

/** The dialogue of each problem by its id, which begins with its prompt. */
async function dialoguesOf({
  problems,
  task,
  settings,
}: ModeContext): Promise<ReadonlyMap<string, ChatMessage[]>> {
  const dialogues = new Map<string, ChatMessage[]>();
  for (const problem of problems)
    dialogues.set(problem.id, await task.prompt(problem, settings.sampling.style));
  return dialogues;
}

export async function zeroShot(context: ModeContext): Promise<Measured> {
  const { problems, task, settings } = context;
  const { replies, tokens } = await answer(context, 'zero-shot', problems, (problem) =>
    task.prompt(problem, settings.sampling.style),
  );
  return { ...judgedBy(context, replies), k: 1, tokens, note: 'the base model, greedy' };
}

/** @throws IsoproError INVALID_ARGUMENT where the task has no solved examples */
export async function fewShot(context: ModeContext): Promise<Measured> {
  const { problems, task, settings } = context;
  const prompt = promptsOf(task, settings.sampling.style, {
    count: EXAMPLES,
    seed: BigInt(settings.seed),
  });
  const { replies, tokens } = await answer(context, 'few-shot', problems, prompt);
  return {
    ...judgedBy(context, replies),
    k: EXAMPLES,
    tokens,
    note: `${EXAMPLES} solved problems of the same tier before the question`,
  };
}

/**
 * Asks again with feedback; a dialogue ends early if the context has no room for another attempt.
 * @throws IsoproError INVALID_ARGUMENT where the task gives no feedback
 */
export async function multiTurn(context: ModeContext): Promise<Measured> {
  const { problems, task } = context;
  const dialogues = await dialoguesOf(context);
  const latest = new Map<string, ModeReply>();
  let open = [...problems];
  let tokens = 0;
  for (let turn = 1; turn <= TURNS && open.length > 0; turn++) {
    const answers = await answer(context, 'multi-turn', open, async ({ id }) => dialogues.get(id)!);
    tokens += answers.tokens;
    const failed: Problem[] = [];
    for (const [i, problem] of open.entries()) {
      const reply = answers.replies[i]!;
      latest.set(problem.id, reply);
      if (reply.verdict.kind === 'pass') continue;
      const advice = await task.feedback(problem, reply.verdict);
      if (advice === null)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `${task.id} gives no feedback, so multi-turn cannot be measured`,
        );
      const dialogue = dialogues.get(problem.id)!;
      dialogue.push({ role: 'assistant', content: reply.text }, { role: 'user', content: advice });
      if (turn < TURNS && context.hasRoom(dialogue)) failed.push(problem);
    }
    open = failed;
  }
  return {
    ...judgedBy(
      context,
      problems.map(({ id }) => latest.get(id)!),
    ),
    k: TURNS,
    tokens,
    note: `up to ${TURNS} attempts; the verifier's feedback comes between them, so this method has more information than the others`,
  };
}

const CHAIN = [
  'This is step 1 of 3. Do not answer yet: list the rules that matter here and what they imply, in a few lines.',
  'This is step 2 of 3. Work out a tentative answer from that, check it against every rule and correct it. Do not give the final answer ' +
    'block yet.',
  'This is step 3 of 3. Now give the final answer in exactly the form that was asked for.',
] as const;

/**
 * Plain prompt chaining after the original's "simulation" baseline (isopro.md §2.4): only the last
 * reply is judged. A chain without room for its next call ends, and is judged as one that was cut
 * off.
 */
export async function isozero(context: ModeContext): Promise<Measured> {
  const { problems, task } = context;
  const dialogues = await dialoguesOf(context);
  const latest = new Map<string, ModeReply>();
  let open: readonly Problem[] = problems;
  let tokens = 0;
  for (const instruction of CHAIN) {
    const going: Problem[] = [];
    for (const problem of open) {
      const dialogue = dialogues.get(problem.id)!;
      const said = latest.get(problem.id);
      if (said === undefined) {
        // one user turn: many templates refuse two in a row
        const question = dialogue.pop()!;
        dialogue.push({ ...question, content: `${question.content}\n\n${instruction}` });
      } else
        dialogue.push(
          { role: 'assistant', content: said.text },
          { role: 'user', content: instruction },
        );
      if (said === undefined || context.hasRoom(dialogue)) going.push(problem);
      else
        latest.set(problem.id, {
          ...said,
          ...(await task.judge(problem, said.text, 'context')),
          finish: 'context',
        });
    }
    open = going;
    if (open.length === 0) break;
    const answers = await answer(context, 'isozero', open, async ({ id }) => dialogues.get(id)!);
    tokens += answers.tokens;
    for (const [i, { id }] of open.entries()) latest.set(id, answers.replies[i]!);
  }
  const replies = problems.map(({ id }) => latest.get(id)!);
  return {
    ...judgedBy(context, replies),
    k: TURNS,
    tokens,
    note: 'three chained calls, the last one judged',
  };
}
