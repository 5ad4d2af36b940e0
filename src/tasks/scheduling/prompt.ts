import type { ChatMessage, PromptStyle } from '../task.js';
import { MAX_REPLY_CHARACTERS } from './answer.js';
import { indexOf, type Job, type Schedule, type SchedulingProblem } from './problem.js';

/** `1 machine`, `2 machines`; resource names are stored in the plural. */
export const units = (amount: number, plural: string): string =>
  `${amount} ${amount === 1 ? plural.replace(/s$/, '') : plural}`;
export const steps = (amount: number): string => units(amount, 'steps');

/** `Job A`, `Jobs A and B`, `Jobs A, B and C`. */
export function jobList(labels: readonly string[]): string {
  if (labels.length === 1) return `Job ${labels[0]}`;
  return `Jobs ${labels.slice(0, -1).join(', ')} and ${labels.at(-1)}`;
}

function describeJob(problem: SchedulingProblem, job: Job): string {
  const clauses = [`takes ${steps(job.duration)}`];
  const needs = problem.resources.flatMap((resource, index) =>
    job.needs[index]! > 0 ? [units(job.needs[index]!, resource.name)] : [],
  );
  if (needs.length > 0) clauses.push(`uses ${needs.join(' and ')} while it runs`);
  if (job.after.length > 0)
    clauses.push(
      `cannot start before ${jobList(job.after)} ${job.after.length === 1 ? 'has' : 'have'} ended`,
    );
  if (job.deadline !== null) clauses.push(`must end by time ${job.deadline}`);
  return `Job ${job.label} ${clauses.join('; ')}.`;
}

/** Every rule that `parse` and `verify` enforce, and nothing else. */
export function schedulingPrompt(problem: SchedulingProblem, style: PromptStyle): ChatMessage[] {
  const ordered = problem.jobs.some((job) => job.after.length > 0);
  const due = problem.jobs.some((job) => job.deadline !== null);
  const rules = [
    'Time is counted in whole steps from 0. Give every job one start time, a whole number that is 0 or more.',
    'A job that starts at time s and takes d steps runs without a break and ends at time s + d.',
    `Every job must end by time ${problem.horizon}.`,
    ...(due ? ['"Must end by time D" means that s + d is at most D.'] : []),
    ...(ordered
      ? [
          '"Cannot start before Job X has ended" means that its start time is at least the end time of Job X; equal is allowed.',
        ]
      : []),
    ...(problem.resources.length > 0
      ? [
          'A job holds what it uses from its start until its end; at its end it is free for another job.',
        ]
      : []),
    ...problem.resources.map(
      (resource) =>
        `There ${resource.capacity === 1 ? 'is' : 'are'} ${units(resource.capacity, resource.name)}: at no time may the running jobs ` +
        `together use more than ${units(resource.capacity, resource.name)}.`,
    ),
    ...(problem.jobs.length > 1 ? ['Jobs may run at the same time unless a rule forbids it.'] : []),
  ];
  const form = `<answer>${problem.jobs.map((job) => `${job.label}: ?`).join(', ')}</answer>`;
  const ask =
    style === 'cot'
      ? 'Work it out step by step. Then end your reply with exactly one answer block of this form, with a start time in place of each ' +
        'question mark:'
      : 'Reply with exactly one answer block of this form and nothing else, with a start time in place of each question mark:';
  const content = [
    `Find a schedule for ${problem.jobs.length} jobs.`,
    '',
    ...problem.jobs.map((job) => describeJob(problem, job)),
    '',
    'Rules:',
    ...rules.map((rule) => `- ${rule}`),
    '',
    ask,
    form,
    `List each job once. Write nothing after the block. The reply may have at most ${MAX_REPLY_CHARACTERS} characters.`,
  ].join('\n');
  return [{ role: 'user', content }];
}

/**
 * Reasoning that leads to a schedule, job by job in the order of the starts; every claim in it
 * holds.
 */
export function explainSchedule(problem: SchedulingProblem, schedule: Schedule): string {
  return problem.jobs
    .map((job) => ({ job, start: schedule[job.label]! }))
    .sort((a, b) => a.start - b.start || indexOf(a.job.label) - indexOf(b.job.label))
    .map(({ job, start }) => {
      const earlier = job.after.map(
        (label) =>
          `Job ${label}, which ends at ${schedule[label]! + problem.jobs[indexOf(label)]!.duration}`,
      );
      const waits = earlier.length === 0 ? '' : ` It waits for ${earlier.join(', and for ')}.`;
      const due = job.deadline === null ? '' : `, by its deadline ${job.deadline}`;
      return (
        `Job ${job.label} takes ${steps(job.duration)}.${waits} Job ${job.label} starts at ${start} and ends at ` +
        `${start + job.duration}${due}.`
      );
    })
    .join('\n');
}
