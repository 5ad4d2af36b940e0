import type { TraceFinding } from '../task.js';
import { findAnswerBlock, parseAnswer } from './answer.js';
import { indexOf, type SchedulingProblem } from './problem.js';

/** `Job A` or `A`; the letter I alone is the pronoun. */
const JOB = '(?:[Jj]ob ([A-Z])|\\b([A-HJ-Z]))\\b';
const AT = '(?:at )?(?:time )?(?:step )?';
const DURATION = [
  new RegExp(
    `${JOB}:? (?:takes|lasts|runs for|has (?:a )?duration(?: of)?|needs|requires) (\\d+)(?= (?:time )?steps?|[.,;)\\n]|$)`,
    'g',
  ),
  new RegExp(`${JOB} \\((?:duration:? )?(\\d+)(?: (?:time )?steps?)?\\)`, 'g'),
  new RegExp(`[Dd]uration of ${JOB} (?:is|=|:) ?(\\d+)`, 'g'),
];
const INTERVAL = [
  new RegExp(
    `${JOB}:? (?:runs |goes |is scheduled )?from ${AT}(\\d+) (?:to|until|till) ${AT}(\\d+)`,
    'g',
  ),
  new RegExp(
    `${JOB}:? (?:starts|begins|can start|will start|start) ${AT}(\\d+),? (?:and |so it |it )?(?:ends|finishes|is done|will ` +
      `end|end|finish) ${AT}(\\d+)`,
    'g',
  ),
  new RegExp(`${JOB}: ?\\[?(\\d+) ?(?:-|–|→|to) ?(\\d+)`, 'g'),
];
const START = [new RegExp(`${JOB}:? (?:starts|begins) ${AT}(\\d+)`, 'g')];
const END = [
  new RegExp(
    `${JOB}(?:,? which|:)? (?:ends|finishes|is done|is finished|completes|is complete) ${AT}(\\d+)`,
    'g',
  ),
];
const DEADLINE = [
  new RegExp(
    `${JOB} (?:must|has to) (?:end|finish|be (?:done|finished|complete|completed)) by ${AT}(\\d+)`,
    'g',
  ),
  new RegExp(`${JOB} (?:has|with) (?:a|the|its) deadline (?:of |at )?${AT}(\\d+)`, 'g'),
  new RegExp(`[Dd]eadline (?:of|for) ${JOB} (?:is|=|:) ?${AT}(\\d+)`, 'g'),
  new RegExp(`${JOB} starts at \\d+ and ends at \\d+, by its deadline (\\d+)`, 'g'),
];
const LIST = '((?:[Jj]obs? )?[A-Z](?:(?:,| and|, and) (?:[Jj]ob )?[A-Z])*)\\b';
/** [pattern, true where the first job named is the one that comes later] */
const PRECEDENCE: readonly (readonly [RegExp, boolean])[] = [
  [
    new RegExp(
      `${JOB} (?:depends on|must wait for|waits for|must (?:start|come|run) after|cannot start (?:before|until)|can only start after|can ` +
        `start only after) ${LIST}`,
      'g',
    ),
    true,
  ],
  [
    new RegExp(
      `${JOB} takes \\d+ (?:time )?steps?\\. It (?:depends on|must wait for|waits for) ${LIST}`,
      'g',
    ),
    true,
  ],
  [
    new RegExp(
      `${JOB} (?:must|has to) (?:end|finish|be (?:done|finished|complete|completed)|complete|come|run) before ${LIST}`,
      'g',
    ),
    false,
  ],
];

/**
 * Claims in the reasoning before the answer block that the problem contradicts (durations, ends
 * that are not start + duration, deadlines, precedences that do not exist), and the last start and
 * end claimed for a job where the answer itself contradicts them: reasoning may correct itself.
 * Only the wordings above are claims; what is said in other words, or of resources, is not judged.
 * An empty list means that no contradiction was found, not that there is none.
 */
export function checkSchedulingTrace(problem: SchedulingProblem, text: string): TraceFinding[] {
  const block = findAnswerBlock(text);
  if (typeof block === 'string') return [];
  const reasoning = block.reasoning.replace(/[*_`]+/g, '');
  const findings: TraceFinding[] = [];
  const find = (
    category: string,
    jobs: readonly string[],
    claimed: string | number,
    actual: string | number,
    excerpt: string,
  ): void =>
    void findings.push({
      category,
      jobs,
      claimed: String(claimed),
      actual: String(actual),
      excerpt,
    });
  const jobOf = (match: RegExpMatchArray) => {
    const label = match[1] ?? match[2]!;
    return problem.jobs[indexOf(label)];
  };
  for (const pattern of DURATION) {
    for (const match of reasoning.matchAll(pattern)) {
      const job = jobOf(match);
      if (job !== undefined && Number(match[3]) !== job.duration)
        find('duration', [job.label], match[3]!, job.duration, match[0]);
    }
  }
  for (const pattern of DEADLINE) {
    for (const match of reasoning.matchAll(pattern)) {
      const job = jobOf(match);
      const [claimed, deadline] = [Number(match[3]), job?.deadline ?? problem.horizon];
      // of a job with a deadline the horizon may be said too: it must end by that as well
      if (job !== undefined && claimed !== deadline && claimed !== problem.horizon)
        find('deadline', [job.label], match[3]!, deadline, match[0]);
    }
  }
  type Last = Map<string, { readonly at: number; readonly time: number; readonly excerpt: string }>;
  const [lastStart, lastEnd]: [Last, Last] = [new Map(), new Map()];
  const note = (last: Last, label: string, match: RegExpMatchArray, time: number): void => {
    if ((last.get(label)?.at ?? -1) < match.index!)
      last.set(label, { at: match.index!, time, excerpt: match[0] });
  };
  for (const pattern of INTERVAL) {
    for (const match of reasoning.matchAll(pattern)) {
      const job = jobOf(match);
      if (job === undefined) continue;
      const [start, end] = [Number(match[3]), Number(match[4])];
      note(lastStart, job.label, match, start);
      note(lastEnd, job.label, match, end);
      if (end - start !== job.duration)
        find('end', [job.label], end, start + job.duration, match[0]);
    }
  }
  for (const [patterns, last] of [
    [START, lastStart],
    [END, lastEnd],
  ] as const) {
    for (const pattern of patterns) {
      for (const match of reasoning.matchAll(pattern)) {
        const job = jobOf(match);
        if (job !== undefined) note(last, job.label, match, Number(match[3]));
      }
    }
  }
  const parsed = parseAnswer(text);
  if (parsed.ok) {
    for (const [category, last] of [
      ['start', lastStart],
      ['end', lastEnd],
    ] as const) {
      for (const [label, { time, excerpt }] of last) {
        const start = parsed.answer[label];
        if (start === undefined) continue;
        const actual =
          category === 'start' ? start : start + problem.jobs[indexOf(label)]!.duration;
        if (
          actual === time ||
          findings.some((finding) => finding.category === category && finding.excerpt === excerpt)
        )
          continue;
        find(category, [label], time, actual, excerpt);
      }
    }
  }
  const ancestors = ancestorsOf(problem);
  for (const [pattern, firstIsLater] of PRECEDENCE) {
    for (const match of reasoning.matchAll(pattern)) {
      const subject = jobOf(match);
      if (subject === undefined) continue;
      for (const [other] of match[3]!.matchAll(/\b[A-Z]\b/g)) {
        const [before, after] = firstIsLater ? [other, subject.label] : [subject.label, other];
        if (indexOf(other) >= problem.jobs.length || ancestors[indexOf(after)]!.has(before))
          continue;
        find('precedence', [before, after], `${before} before ${after}`, 'no such rule', match[0]);
      }
    }
  }
  return findings;
}

/** Labels of all direct and indirect predecessors, by job index. */
function ancestorsOf(problem: SchedulingProblem): Set<string>[] {
  const sets = problem.jobs.map((job) => new Set(job.after));
  for (let changed = true; changed; ) {
    changed = false;
    for (const set of sets) {
      const before = set.size;
      for (const label of [...set]) for (const further of sets[indexOf(label)]!) set.add(further);
      changed ||= set.size > before;
    }
  }
  return sets;
}
