import type { SchedulingProblem } from '../scheduling/problem.js';
import { jobList, units } from '../scheduling/prompt.js';
import type { ChatMessage, PromptStyle } from '../task.js';

/**
 * The facts of the original's prompt, its defects among them (isopro.md §2.1): capacities are
 * worded as a number of jobs although units are enforced; the horizon, time 0 and the meaning of a
 * deadline are not said; the sample has three jobs.
 */
export function classicPrompt(problem: SchedulingProblem, style: PromptStyle): ChatMessage[] {
  const { jobs, resources } = problem;
  const available =
    resources.length === 0
      ? ''
      : ` You have ${resources.map((resource) => units(resource.capacity, resource.name)).join(' and ')}.`;
  const ordered = jobs.some((job) => job.after.length > 0);
  const due = jobs.some((job) => job.deadline !== null);
  const hints = [
    ...(ordered ? ['Follow the chain of dependencies.'] : []),
    ...(resources.length > 0 ? ['Respect the resource limits.'] : []),
    ...(due ? ['Check the deadlines (start + duration <= deadline).'] : []),
  ];
  const lines = [
    'You plan the schedule of a project.',
    `There are ${jobs.length} jobs to be scheduled.${available}`,
    '',
    ...jobs.map((job) => {
      const needs = resources.map((resource, index) => units(job.needs[index]!, resource.name));
      const clauses = [
        `Job ${job.label} takes ${units(job.duration, 'time steps')}`,
        ...(needs.length > 0 ? [`requires ${needs.join(' and ')}`] : []),
        ...(job.after.length > 0
          ? [
              `cannot start until ${jobList(job.after)} ${job.after.length === 1 ? 'is' : 'are'} complete`,
            ]
          : []),
        ...(job.deadline !== null ? [`must complete by time step ${job.deadline}`] : []),
      ];
      return `${clauses.join(', ')}.`;
    }),
    ...(resources.length > 0
      ? [
          '',
          ...resources.map(
            (resource) =>
              `At most ${units(resource.capacity, 'jobs')} can use ${resource.name} in any one time step.`,
          ),
        ]
      : []),
    ...(style === 'cot' && hints.length > 0
      ? ['', 'Think step by step:', ...hints.map((hint, index) => `${index + 1}. ${hint}`)]
      : []),
    '',
    'End with the start time of each job as `Job: start_time`, for example: A: 0, B: 3, C: 5',
  ];
  return [{ role: 'user', content: lines.join('\n') }];
}
