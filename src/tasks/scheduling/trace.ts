import type { TraceFinding } from '../task.js';
import { findAnswerBlock, parseAnswer } from './answer.js';
import { indexOf, type SchedulingProblem } from './problem.js';

/** `Job A` or `A`; the letter I alone is the pronoun. */
const JOB = '(?:[Jj]ob ([A-Z])|\\b([A-HJ-Z]))\\b';
const AT = '(?:at )?(?:time )?(?:step )?';
const DURATION = [
  new RegExp(`${JOB}:? (?:takes|lasts|runs for|has (?:a )?duration(?: of)?|needs|requires) (\\d+)(?= (?:time )?steps?|[.,;)\\n]|$)`, 'g'),
  new RegExp(`${JOB} \\((?:duration:? )?(\\d+)(?: (?:time )?steps?)?\\)`, 'g'),
  new RegExp(`[Dd]uration of ${JOB} (?:is|=|:) ?(\\d+)`, 'g'),
];
const INTERVAL = [
  new RegExp(`${JOB}:? (?:runs |goes |is scheduled )?from ${AT}(\\d+) (?:to|until|till) ${AT}(\\d+)`, 'g'),
  new RegExp(`${JOB}:? (?:starts|begins|can start|will start|start) ${AT}(\\d+),? (?:and |so it |it )?(?:ends|finishes|is done|will end|end|finish) ${AT}(\\d+)`, 'g'),
  new RegExp(`${JOB}: ?\\[?(\\d+) ?(?:-|–|→|to) ?(\\d+)`, 'g'),
];
const END = [new RegExp(`${JOB}:? (?:ends|finishes|is done|is finished|completes|is complete) ${AT}(\\d+)`, 'g')];
const LIST = '((?:[Jj]obs? )?[A-Z](?:(?:,| and|, and) (?:[Jj]ob )?[A-Z])*)\\b';
/** [pattern, true where the first job named is the one that comes later] */
const PRECEDENCE: readonly (readonly [RegExp, boolean])[] = [
  [new RegExp(`${JOB} (?:depends on|must wait for|waits for|must (?:start|come|run) after|cannot start (?:before|until)|can only start after|can start only after) ${LIST}`, 'g'), true],
  [new RegExp(`${JOB} (?:must|has to) (?:end|finish|be (?:done|finished|complete|completed)|complete|come|run) before ${LIST}`, 'g'), false],
];

/**
 * Claims in the reasoning before the answer block that the problem contradicts (durations, ends that are not start +
 * duration, precedences that do not exist), and last-claimed ends that the answer itself contradicts. What is not
 * recognised as a claim is not judged: an empty list means that no contradiction was found.
 */
export function checkSchedulingTrace(problem: SchedulingProblem, text: string): TraceFinding[] {
  const block = findAnswerBlock(text);
  if (typeof block === 'string') return [];
  const reasoning = block.reasoning.replace(/[*_`]+/g, '');
  const findings: TraceFinding[] = [];
  const jobOf = (match: RegExpMatchArray) => {
    const label = match[1] ?? match[2]!;
    return problem.jobs[indexOf(label)];
  };
  for (const pattern of DURATION) {
    for (const match of reasoning.matchAll(pattern)) {
      const job = jobOf(match);
      if (job !== undefined && Number(match[3]) !== job.duration) findings.push({ category: 'duration', jobs: [job.label], claimed: match[3]!, actual: String(job.duration), excerpt: match[0] });
    }
  }
  const lastEnd = new Map<string, { at: number; end: number; excerpt: string }>();
  const noteEnd = (label: string, match: RegExpMatchArray, end: number): void => {
    if ((lastEnd.get(label)?.at ?? -1) < match.index!) lastEnd.set(label, { at: match.index!, end, excerpt: match[0] });
  };
  for (const pattern of INTERVAL) {
    for (const match of reasoning.matchAll(pattern)) {
      const job = jobOf(match);
      if (job === undefined) continue;
      const [start, end] = [Number(match[3]), Number(match[4])];
      noteEnd(job.label, match, end);
      if (end - start !== job.duration) findings.push({ category: 'end', jobs: [job.label], claimed: String(end), actual: String(start + job.duration), excerpt: match[0] });
    }
  }
  for (const pattern of END) {
    for (const match of reasoning.matchAll(pattern)) {
      const job = jobOf(match);
      if (job !== undefined) noteEnd(job.label, match, Number(match[3]));
    }
  }
  const parsed = parseAnswer(text);
  if (parsed.ok) {
    for (const [label, { end, excerpt }] of lastEnd) {
      const start = parsed.answer[label];
      const duration = problem.jobs[indexOf(label)]!.duration;
      if (start !== undefined && start + duration !== end && !findings.some((finding) => finding.category === 'end' && finding.excerpt === excerpt)) {
        findings.push({ category: 'end', jobs: [label], claimed: String(end), actual: String(start + duration), excerpt });
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
        if (indexOf(other) >= problem.jobs.length || ancestors[indexOf(after)]!.has(before)) continue;
        findings.push({ category: 'precedence', jobs: [before, after], claimed: `${before} before ${after}`, actual: 'no such rule', excerpt: match[0] });
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
