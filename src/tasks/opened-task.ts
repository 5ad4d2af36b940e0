/**
 * The one face of tasks that are open, whether their code runs here, in threads or in processes.
 */
import { given as stated } from '../given.js';
import { isPythonSpecifier } from './python-module.js';
import type { ChatMessage, Judgement, OpenTask, Problem, PromptStyle } from './task.js';
import { memberRow, type CalledMember, type TaskDescription } from './task-shape.js';
import { invalidMember } from './task-thread.js';
import { findTier } from './tier.js';
import { nextAttempt, turnsOf } from './turns.js';
import { seedOf } from './seed.js';

/** What runs the code of a task. */
export interface TaskHost
  extends Pick<OpenTask, 'readProblem' | 'judge' | 'readAnswer' | 'applyPolicy' | 'dispose'> {
  /** Calls a member that the task has. */
  call(member: CalledMember, args: readonly unknown[]): Promise<unknown>;
  /** Judges by the most lenient reading, of a task that has one. */
  judgeLeniently(...args: Parameters<OpenTask['judgeLeniently']>): Promise<Judgement>;
}

/** Returns the name of a member as the task's own file has it. */
export const memberNamed = (specifier: string, member: string): string =>
  (isPythonSpecifier(specifier) ? memberRow(member)?.python : undefined) ?? member;

/** Draws beyond the examples wanted, of which some ask the same or have no reference. */
const EXAMPLE_DRAWS = 100;

/** Other problems of the tier with the replies that the task itself calls right. */
async function solved(
  task: OpenTask,
  specifier: string,
  problem: Problem,
  style: PromptStyle,
  count: number,
  seed: bigint,
): Promise<ChatMessage[]> {
  const { tier } = problem;
  const own = await task.prompt(problem, style);
  const asked = new Set([own.at(-1)!.content]);
  const examples: ChatMessage[] = [];
  for (let sample = 0, found = 0; found < count && sample < count + EXAMPLE_DRAWS; sample++) {
    const other = await task.generate(tier, seedOf(seed, 'example', tier, sample));
    const messages = await task.prompt(other, style);
    // such as a solved example in each prompt
    const shared = messages.findIndex(({ content }, at) => content !== own[at]?.content);
    const content = await task.referenceReply(other, style);
    if (content === null || shared < 0 || asked.has(messages.at(-1)!.content)) continue;
    asked.add(messages.at(-1)!.content);
    examples.push(...messages.slice(shared).filter(({ role }) => role !== 'system'), {
      role: 'assistant',
      content,
    });
    found++;
  }
  if (examples.length === 0) {
    const drawn = count + EXAMPLE_DRAWS;
    const detail = `is ${isPythonSpecifier(specifier) ? 'None' : 'null'}, or the question repeats, for ${drawn} problems in a row`;
    throw invalidMember(specifier, memberNamed(specifier, 'referenceReply'), detail);
  }
  return examples;
}

/** @throws IsoproError INVALID_ARGUMENT where the task cannot have so many turns */
export function openedTask(
  host: TaskHost,
  description: TaskDescription,
  {
    source,
    rows,
    turns: asked,
  }: Pick<OpenTask, 'source' | 'rows'> & { readonly turns?: number | undefined },
): OpenTask {
  const { limits, optional, ...described } = description;
  const { id, tiers } = described;
  const own = optional.step ? (limits.turns ?? 1) : null;
  const turns = turnsOf({ id, own, feedback: optional.feedback }, asked);
  /** A member that is called as it is; where the task has none, what stands for its result. */
  const member = <Name extends CalledMember & keyof OpenTask>(name: Name): OpenTask[Name] => {
    const missing = name in optional && !optional[name as keyof typeof optional];
    return (async (...args: readonly unknown[]) =>
      missing ? memberRow(name)!.without : host.call(name, args)) as OpenTask[Name];
  };
  const [fewShot, step] = [member('fewShot'), member('step')];
  const hasReferences = optional.referenceReply && !optional.step;
  const solves = !optional.fewShot && hasReferences && source.kind === 'file';
  const { readProblem, judge, readAnswer, applyPolicy, dispose } = host;
  const open: OpenTask = {
    ...described,
    get exploits() {
      return description.exploits;
    },
    source,
    ...stated({ rows }),
    generate: async (tier, seed) => {
      findTier(id, tiers, tier);
      return (await host.call('generate', [tier, BigInt.asUintN(64, seed)])) as Problem;
    },
    readProblem,
    prompt: member('prompt'),
    judge,
    readsLeniently: optional.readLeniently,
    judgeLeniently: async (...args) =>
      optional.readLeniently ? host.judgeLeniently(...args) : null,
    readAnswer,
    applyPolicy,
    grade: member('grade'),
    feedback: member('feedback'),
    turns,
    step: async (problem, replies) => {
      if (replies.length >= turns) return null;
      return optional.step ? step(problem, replies) : nextAttempt(open, problem, replies);
    },
    checkTrace: member('checkTrace'),
    fewShot: solves ? (...args) => solved(open, source.path, ...args) : fewShot,
    hasReferences,
    referenceReply: member('referenceReply'),
    dispose,
    [Symbol.asyncDispose]: dispose,
  };
  return open;
}
