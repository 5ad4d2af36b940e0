/**
 * A data file as a task: problems are its rows, drawn by the seed; a check of `--check` judges.
 * Made in the thread that judges.
 */
import { given } from '../../given.js';
import { writtenJson } from '../../json-text.js';
import { Random } from '../../random.js';
import type { GivenVerdict, TaskDefinition } from '../define-task.js';
import type { ChatMessage, Parsed, PromptStyle, VerifyContext } from '../task.js';
import { refused } from '../flat-object.js';
import { checkerOf, type AskModel } from './checkers.js';
import type { Check } from './check.js';
import type { DataContent, DataProblem } from './data-problem.js';
import type { DataProgram } from './program.js';

const POLICY_NOTES = {
  'commonest answer': 'the most common answer of the training rows',
  'the question': 'the question of the row, repeated',
};

/** Moves the first item of each kind to the front; both parts keep their order. */
function differentFirst<Item>(items: readonly Item[], kindOf: (item: Item) => string): Item[] {
  const seen = new Set<string>();
  const repeats = items.map((item) => seen.size === seen.add(kindOf(item)).size);
  return [false, true].flatMap((repeat) => items.filter((_, index) => repeats[index] === repeat));
}

/** Returns the text of a correct reply; null if the check has no single correct text. */
function replyOf({ kind }: Check, { answer, digits = {} }: DataContent): string | null {
  if (answer === null || ['regex', 'command', 'python', 'script', 'model'].includes(kind))
    return null;
  return typeof answer === 'string' && kind !== 'json'
    ? answer
    : writtenJson(answer, new Map(Object.entries(digits)));
}

const questionOf = ({ messages }: DataContent): string => messages.at(-1)!.content;

/** Adds the required form of the reply to the question. */
function asking(messages: readonly ChatMessage[], tag: string, style: PromptStyle): ChatMessage[] {
  const how =
    style === 'cot' ? 'Think step by step. Then give the answer' : 'Give only the answer,';
  const { content } = messages.at(-1)!;
  return [
    ...messages.slice(0, -1),
    { role: 'user', content: `${content}\n${how} between <${tag}> and </${tag}>.` },
  ];
}

/** Returns the content of the only tag of a reply; null if there is none or more than one. */
function tagged(text: string, tag: string): string | null {
  const [before, ...opened] = text.split(`<${tag}>`);
  const [answer, ...closed] = opened[0]?.split(`</${tag}>`) ?? [];
  return opened.length === 1 && closed.length === 1 && !before!.includes(`</${tag}>`)
    ? answer!
    : null;
}

function commonest(texts: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return [...counts].reduce((best, each) => (each[1] > best[1] ? each : best), ['', 0] as [
    string,
    number,
  ])[0];
}

/** @param ask for a check that is a model */
export function dataTask(
  program: DataProgram,
  ask?: AskModel,
): TaskDefinition<DataContent, unknown> {
  const { id, version, check, tiers, train, answerTag, verifySeconds } = program;
  const checker = checkerOf(check, ask);
  const byTier = new Map(tiers.map((tier) => [tier, train.filter((row) => row.tier === tier)]));
  const replies = train.flatMap((row) => replyOf(check, row) ?? []);
  const usual = commonest(replies);
  const inTag = (reply: string): string =>
    answerTag === undefined ? reply : `<${answerTag}>${reply}</${answerTag}>`;
  const solved = replies.length > 0;

  /** A policy's answer is a text that is read as a reply is. */
  const policy =
    (text: (problem: DataProblem) => string) =>
    (problem: DataProblem): unknown => ({ unread: text(problem) });
  const isUnread = (answer: unknown): answer is { readonly unread: string } =>
    typeof answer === 'object' && answer !== null && 'unread' in answer;
  const verify = (
    problem: DataProblem,
    answer: unknown,
    context: VerifyContext,
  ): GivenVerdict | Promise<GivenVerdict> => {
    if (!isUnread(answer)) return checker.verify(problem, answer, context);
    const parsed: Parsed<unknown> = checker.read(answer.unread, problem);
    return parsed.ok
      ? checker.verify(problem, parsed.answer, context)
      : { kind: 'fail', violations: [{ category: parsed.category, detail: parsed.detail }] };
  };

  return {
    id,
    version,
    tiers: tiers.map((tier) => ({ id: tier })),
    generate(tier, seed) {
      const rows = byTier.get(tier)!;
      return rows[new Random(seed).nextInteger(0, rows.length - 1)]!;
    },
    prompt: ({ messages }, style) =>
      answerTag === undefined ? [...messages] : asking(messages, answerTag, style),
    parse(text, problem) {
      const answer = answerTag === undefined ? text : tagged(text, answerTag);
      return answer === null
        ? refused(`There has to be one answer between <${answerTag}> and </${answerTag}>.`)
        : checker.read(answer, problem);
    },
    verify,
    feedback: (_problem, { violations }) =>
      `${violations.map(({ detail }) => detail).join(' ')} Try again.`,
    trivialPolicies: {
      'empty reply': policy(() => ''),
      'the question': policy(questionOf),
      ...(solved ? { 'commonest answer': policy(() => usual) } : {}),
    },
    policyNotes: POLICY_NOTES,
    limits: given({ verifySeconds }),
    ...(solved
      ? {
          referenceReply(problem) {
            const reply = replyOf(check, problem);
            return reply === null ? null : inTag(reply);
          },
          async fewShot(problem, style, count, seed) {
            const others = new Random(seed)
              .shuffle(byTier.get(problem.tier)!)
              .filter((row) => questionOf(row) !== questionOf(problem));
            return differentFirst(others, (row) => replyOf(check, row)!)
              .slice(0, count)
              .flatMap((row): ChatMessage[] => [
                ...(answerTag === undefined
                  ? row.messages
                  : asking(row.messages, answerTag, style)),
                { role: 'assistant', content: inTag(replyOf(check, row)!) },
              ]);
          },
        }
      : {}),
  };
}
