/**
 * A task of your own, trained on from the problem to the report: schedules that lose no time, every
 * job as early as its predecessors allow. Problems, verdict and policies are its own; prompt and
 * parser it borrows from `scheduling`, since the embedded model can read nothing else.
 * `custom-verifier.ts` borrows nothing and is for a model that knows language.
 *   npx isopro-native run --task examples/own-task.ts
 */
import {
  defineTask,
  Random,
  scheduling,
  type Schedule,
  type SchedulingProblem,
} from 'isopro-native';

type Jobs = SchedulingProblem['jobs'];
type Content = Omit<SchedulingProblem, 'id' | 'tier'>;

/**
 * Each job at the end of its last predecessor (Kelley 1961); predecessors may be listed anywhere.
 */
function earliest(jobs: Jobs): Schedule {
  const byLabel = new Map(jobs.map((job) => [job.label, job]));
  const start = (label: string): number =>
    Math.max(
      0,
      ...byLabel.get(label)!.after.map((before) => start(before) + byLabel.get(before)!.duration),
    );
  return Object.fromEntries(jobs.map(({ label }) => [label, start(label)]));
}

const lastEnd = (jobs: Jobs, schedule: Schedule): number =>
  Math.max(...jobs.map(({ label, duration }) => schedule[label]! + duration));

/** Who follows whom, as places in a shuffled row of the jobs. */
const ORDERS: Readonly<Record<string, readonly (readonly [number, number])[]>> = {
  pairs: [
    [0, 1],
    [2, 3],
  ],
  fork: [
    [0, 1],
    [0, 2],
  ],
  chain: [
    [0, 1],
    [1, 2],
  ],
};

export default defineTask<Content, Schedule>({
  id: 'no-delay',
  version: '1',
  tiers: [
    { id: 'pairs', title: 'two pairs' },
    { id: 'fork', title: 'two jobs after one' },
    { id: 'chain', title: 'three in a row', trains: false },
  ],

  generate(tier, seed) {
    const random = new Random(seed);
    const labels = random.shuffle(['A', 'B', 'C', 'D']);
    const pairs = ORDERS[tier]!.map(
      ([before, after]) => [labels[before]!, labels[after]!] as const,
    );
    const jobs = [...labels].sort().map((label) => ({
      label,
      duration: random.nextInteger(1, 3),
      needs: [],
      after: pairs.flatMap(([before, after]) => (after === label ? [before] : [])),
      deadline: null,
    }));
    return { task: 'no-delay', jobs, resources: [], horizon: lastEnd(jobs, earliest(jobs)) };
  },

  prompt: (problem, style) => scheduling.prompt(problem, style),

  parse: (text, problem) => scheduling.parse(text, problem),

  verify({ jobs, horizon }, schedule) {
    const missing = jobs
      .filter(({ label }) => schedule[label] === undefined)
      .map(({ label }) => label);
    if (missing.length > 0)
      return {
        kind: 'fail',
        violations: [{ category: 'missing', detail: `${missing.join(', ')}: no start time.` }],
      };
    const violations: { category: string; detail: string }[] = [];
    for (const { label, duration, after } of jobs) {
      const start = schedule[label]!;
      if (start + duration > horizon)
        violations.push({
          category: 'horizon',
          detail: `Job ${label} ends at ${start + duration}, after ${horizon}.`,
        });
      for (const before of after) {
        const end = schedule[before]! + jobs.find((job) => job.label === before)!.duration;
        if (start < end)
          violations.push({
            category: 'order',
            detail: `Job ${label} starts at ${start}, before Job ${before} has ended at ${end}.`,
          });
      }
    }
    return {
      kind: violations.length === 0 ? 'pass' : 'fail',
      violations,
      metrics: { lastEnd: lastEnd(jobs, schedule) },
    };
  },

  feedback: (_problem, { violations }) =>
    `${violations.map(({ detail }) => detail).join(' ')} Try again, and end with one answer block.`,

  trivialPolicies: {
    'all at once': ({ jobs }) => Object.fromEntries(jobs.map(({ label }) => [label, 0])),
    'earliest start': ({ jobs }) => earliest(jobs),
  },
  policyNotes: { 'earliest start': 'no shortcut: this is the exact solver' },

  exploits: [
    { name: 'everything at 0', problem: twoJobs(), text: '<answer>A: 0, B: 0</answer>' },
    {
      name: 'one after another, too late',
      problem: twoJobs(),
      text: '<answer>A: 1, B: 3</answer>',
    },
    { name: 'the second job left out', problem: twoJobs(), text: '<answer>A: 0</answer>' },
  ],
});

/** B follows A; the only right answer is A at 0 and B at 1. */
function twoJobs(): Content {
  const [a, b] = [
    { label: 'A', duration: 1, needs: [], after: [], deadline: null },
    { label: 'B', duration: 2, needs: [], after: ['A'], deadline: null },
  ];
  return { task: 'no-delay', jobs: [a, b], resources: [], horizon: 3 };
}
