import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { solvedReply } from '../../src/tasks/scheduling/few-shot.js';
import type { GroundTruth } from '../../src/tasks/scheduling/grade.js';
import type { Schedule, SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import { schedulingClassic } from '../../src/tasks/scheduling-classic/scheduling-classic.js';
import type { FinishReason, SynchronousTask } from '../../src/tasks/task.js';
import { judgeReply } from '../../src/tasks/verdict.js';
import { ownCost } from '../models/own-cost.js';

const TEXTS = process.env.ISOPRO_FULL === '1' ? 1_000_000 : 100_000;
const LIMIT_MS = 5;

/**
 * Would a careful person accept this reply? Written anew and by other means than the verifier: the
 * block is cut out by position, everything that may surround a pair is erased, what remains must be
 * one pair per job and nothing else, and time is walked step by step.
 */
function acceptable(problem: SchedulingProblem, text: string, finish: FinishReason): boolean {
  if (finish !== 'stop' || text.length > 20_000) return false;
  const lower = text.toLowerCase();
  const [open, close] = [lower.lastIndexOf('<answer>'), lower.lastIndexOf('</answer>')];
  if (open < 0 || close < open) return false;
  // a tag that the reasoning names stands in quotes, and what stands between two of them is no
  // answer
  const pieces = lower.slice(0, open).split(/(<\/?answer>)/);
  for (let tag = 1; tag < pieces.length; tag += 2) {
    const [before, after] = [pieces[tag - 1]!.at(-1), pieces[tag + 1]![0]];
    const hollow = (piece: string | undefined): boolean => piece !== undefined && !/\d/.test(piece);
    const opened =
      '"\'`“‘'.includes(before ?? ' ') ||
      (tag > 1 &&
        pieces[tag] === '</answer>' &&
        pieces[tag - 2] === '<answer>' &&
        hollow(pieces[tag - 1]));
    const closed =
      '"\'`”’'.includes(after ?? ' ') ||
      (pieces[tag] === '<answer>' && pieces[tag + 2] === '</answer>' && hollow(pieces[tag + 1]));
    if (!opened || !closed) return false;
    if (pieces[tag] === '<answer>' && pieces[tag + 2] === '</answer>' && !hollow(pieces[tag + 1]))
      return false;
  }
  if (/[A-Za-z0-9]/.test(text.slice(close + 9))) return false;
  let content = text.slice(open + 8, close);
  // numbered lines count from 1, and then all of them are numbered
  const numbers = [...content.matchAll(/^[\s*_`]*(\d+)[\s*_`]*[.)]/gm)].map(([, digits]) =>
    Number(digits),
  );
  if (numbers.length > 0) {
    if (
      numbers.length !== problem.jobs.length ||
      numbers.some((number, line) => number !== line + 1)
    )
      return false;
    content = content.replace(/^[\s*_`]*\d+[\s*_`]*[.)]/gm, '\n');
  }
  if (/[^A-Za-z0-9\s:,;.|{}"'*_`-]/.test(content)) return false;
  if (
    /[0-9][*_`]+[0-9]|-\s*[0-9]|[0-9]\s+[0-9]|[0-9][\s*_`"']*[.,][\s*_`"']*[0-9]|[.,]{2}/.test(
      content,
    )
  )
    return false;
  const words = content
    .replace(/[^A-Za-z0-9]+/g, ' ')
    .trim()
    .split(' ')
    .filter(
      (word) =>
        !/^(job|jobs|start|starting|time|times|step|steps|at|json|text|txt|plaintext|markdown|md)$/i.test(
          word,
        ),
    );
  if (words.length !== 2 * problem.jobs.length) return false;
  const starts = new Map<string, number>();
  for (let i = 0; i < words.length; i += 2) {
    if (
      !/^[A-Z]$/.test(words[i]!) ||
      !/^(0|[1-9][0-9]*)$/.test(words[i + 1]!) ||
      starts.has(words[i]!)
    )
      return false;
    starts.set(words[i]!, Number(words[i + 1]));
  }
  const running = (label: string, time: number): boolean => {
    const job = problem.jobs.find((candidate) => candidate.label === label)!;
    return starts.get(label)! <= time && time < starts.get(label)! + job.duration;
  };
  for (const job of problem.jobs) {
    const start = starts.get(job.label);
    if (
      start === undefined ||
      start + job.duration > Math.min(problem.horizon, job.deadline ?? problem.horizon)
    )
      return false;
    for (const before of job.after) {
      const other = problem.jobs.find(({ label }) => label === before)!;
      if (starts.get(before)! + other.duration > start) return false;
    }
  }
  for (let time = 0; time < problem.horizon; time++) {
    for (const [index, resource] of problem.resources.entries()) {
      if (
        problem.jobs.reduce(
          (sum, job) => sum + (running(job.label, time) ? job.needs[index]! : 0),
          0,
        ) > resource.capacity
      )
        return false;
    }
  }
  return true;
}

const PIECES = [
  '<answer>',
  '</answer>',
  '<ANSWER>',
  '<answer',
  'answer>',
  '<',
  '>',
  '```',
  '```json',
  '**',
  '*',
  '_',
  '`',
  '~~',
  '|',
  '|---|---|',
  '| Job | Start |',
  '\n',
  '\r\n',
  ' ',
  '\t',
  ',',
  ';',
  ':',
  '：',
  '-',
  '−',
  '+',
  '.',
  '=',
  '{',
  '}',
  '[',
  ']',
  '"',
  "'",
  'Job ',
  'job',
  'Time: 4',
  'A',
  'B',
  'E',
  'J',
  'Z',
  'a',
  'А',
  '0',
  '1',
  '3',
  '12',
  '007',
  '999999999',
  '9'.repeat(400),
  '0.5',
  '1e3',
  '0x3',
  '-3',
  '½',
  '３',
  '\u200b',
  '\u202e',
  '\0',
  '\ud800',
  '💥',
  'A: 0',
  'B: 3',
  '"A": 0',
  '| A | 0 |',
  'A starts at 3',
  'A = 0',
  '1. A: 0',
  'ends at 7',
  'takes 3 steps',
  '\n1. ',
  '\n2) ',
  '\u00a0',
  '\u202f',
  '"<answer>"',
  '`</answer>`',
  '`<answer>...</answer>`',
  '.</answer>.',
  ',\n',
  '"3"',
  'depends on B',
  'null',
  'NaN',
  '__proto__',
  'constructor',
  'toString',
  '$&',
  '$1',
  '\\',
  '%s',
  '<|im_end|>',
  'pass',
];

/**
 * Replies that are close to right: a good or bad schedule in some form, then edited a few times.
 */
function mutate(random: Random, text: string): string {
  let result = text;
  for (let edit = random.nextInteger(0, 4); edit > 0; edit--) {
    const at = random.nextInteger(0, result.length);
    const piece = PIECES[random.nextInteger(0, PIECES.length - 1)]!;
    switch (random.nextInteger(0, 5)) {
      case 0:
        result = result.slice(0, at) + piece + result.slice(at);
        break;
      case 1:
        result = result.slice(0, at) + result.slice(at + random.nextInteger(1, 4));
        break;
      case 2:
        result =
          result.slice(0, at) +
          String.fromCharCode(
            random.nextInteger(0, random.nextInteger(0, 3) === 0 ? 0xffff : 127),
          ) +
          result.slice(at + 1);
        break;
      case 3:
        result += result.slice(at, at + random.nextInteger(1, 60));
        break;
      case 4:
        result = result.replace(/\d+/, () => String(random.nextInteger(0, 30)));
        break;
      default:
        result =
          result.slice(0, at) +
          result.slice(at).replace(/[A-J]: \d+/, (pair) => `${pair}, ${pair}`);
    }
  }
  return result;
}

function soup(random: Random): string {
  const parts: string[] = [];
  for (let piece = random.nextInteger(0, 40); piece > 0; piece--)
    parts.push(PIECES[random.nextInteger(0, PIECES.length - 1)]!);
  return parts.join('');
}

/** Inputs made to be slow for one pattern or another. */
function monstrous(random: Random): string {
  const unit = [
    ...PIECES,
    ' ',
    '\n',
    'job ',
    'A ',
    'A: ',
    '1',
    '1.',
    'A takes 3, ',
    'Job A depends on B and ',
    '```\n',
    '{"A": ',
    '|-',
    '<answer>A: 0, ',
    'A, B, ',
  ][random.nextInteger(0, PIECES.length + 13)]!;
  const body = unit.repeat(Math.floor(random.nextInteger(1, 19_000) / unit.length) + 1);
  return [
    body,
    `<answer>${body}</answer>`,
    `<answer>${body}`,
    `${body}<answer>A: 0</answer>`,
    `<answer>A: 0</answer>${body}`,
  ][random.nextInteger(0, 4)]!;
}

const problems = frozenSet<SchedulingProblem, GroundTruth>('scheduling', 'test').problems;
const FORMS: ((schedule: Schedule, problem: SchedulingProblem) => string)[] = [
  (schedule, problem) => solvedReply(problem, schedule, 'cot'),
  (schedule, problem) => solvedReply(problem, schedule, 'plain'),
  (schedule) =>
    `<answer>\n${Object.entries(schedule)
      .map(([label, start]) => `- **Job ${label}:** ${start}`)
      .join('\n')}\n</answer>`,
  (schedule) => `<answer>\n\`\`\`json\n${JSON.stringify(schedule, null, 1)}\n\`\`\`\n</answer>`,
  (schedule) =>
    `\`<answer>\` comes last.\n<answer>\n${Object.entries(schedule)
      .map(([label, start], at) => `${at + 1}. ${label}: ${start}`)
      .join('\n')}\n</answer>.`,
  (schedule) =>
    `<answer>${Object.entries(schedule)
      .map(([label, start]) => `"${label}":\u00a0"${start}"`)
      .join(', ')}.</answer>`,
  (schedule) =>
    `<answer>\n| Job | Start |\n|---|---|\n${Object.entries(schedule)
      .map(([label, start]) => `| ${label} | ${start} |`)
      .join('\n')}\n</answer>`,
];

describe.each([scheduling, schedulingClassic] as SynchronousTask<
  SchedulingProblem,
  Schedule,
  GroundTruth
>[])('fuzz of $id', (task) => {
  test(`${TEXTS} texts: no exception, each under ${LIMIT_MS} ms, no false pass`, () => {
    const random = new Random(41n);
    let passed = 0;
    const slow: string[] = [];
    const falsePasses: string[] = [];
    const mine = task === scheduling;
    for (let trial = 0; trial < TEXTS; trial++) {
      const { problem, reference } = problems[random.nextInteger(0, problems.length - 1)]!;
      const kind = random.nextInteger(0, 99);
      const schedule: Record<string, number> = { ...reference.schedule };
      if (random.nextInteger(0, 2) === 0)
        schedule[problem.jobs[0]!.label] = random.nextInteger(0, 2 * problem.horizon);
      const text =
        kind < 70
          ? mutate(random, FORMS[random.nextInteger(0, FORMS.length - 1)]!(schedule, problem))
          : kind < 97
            ? soup(random)
            : monstrous(random);
      const finish: FinishReason = random.nextInteger(0, 19) === 0 ? 'length' : 'stop';
      const judge = (): string => {
        const { verdict } = judgeReply(task, problem, text, finish);
        if (verdict.kind === 'fail') task.feedback!(problem, verdict);
        task.checkTrace?.(problem, text);
        return verdict.kind;
      };
      const { result: verdict, elapsed } = ownCost(judge, LIMIT_MS);
      if (elapsed >= LIMIT_MS)
        slow.push(`${elapsed.toFixed(1)} ms, ${text.length} characters: ${text.slice(0, 80)}`);
      if (verdict !== 'pass') continue;
      passed++;
      if (mine && !acceptable(problem, text, finish)) falsePasses.push(text);
    }
    expect(slow).toEqual([]);
    expect(falsePasses).toEqual([]);
    // the campaign reaches the part of the grammar that accepts
    expect(passed).toBeGreaterThan(TEXTS / 50);
  });
});

test('the independent evaluator accepts honest replies and refuses broken ones', () => {
  for (const { problem, reference } of problems)
    for (const form of FORMS)
      expect(acceptable(problem, form(reference.schedule!, problem), 'stop')).toBe(true);
  for (const { problem, reference } of problems) {
    const late = Object.fromEntries(
      Object.entries(reference.schedule!).map(([label, start]) => [label, start + problem.horizon]),
    );
    for (const form of FORMS) {
      expect(acceptable(problem, form(late, problem), 'stop')).toBe(false);
      expect(acceptable(problem, `${form(reference.schedule!, problem)}\nA: 0`, 'stop')).toBe(
        false,
      );
    }
  }
});
