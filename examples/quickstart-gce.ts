/**
 * Ground-truth checking in a second, without a model: one scheduling problem that CP-SAT has
 * solved, and four answers through the verifier.
 *   npm run build:ts && node dist/examples/quickstart-gce.js
 */
import {
  frozenSet,
  scheduling,
  type GroundTruth,
  type Schedule,
  type SchedulingProblem,
} from 'isopro-native';

const { problem, reference } = frozenSet<SchedulingProblem, GroundTruth>(
  'scheduling',
  'dev',
).problems.at(-1)!;
console.log(scheduling.prompt(problem, 'cot')[0]!.content);

const optimal = reference.schedule!;
console.log(`\nCP-SAT: ${reference.status}, makespan ${reference.makespan}`);
const block = (schedule: Schedule): string =>
  `<answer>${Object.entries(schedule)
    .map(([label, start]) => `${label}: ${start}`)
    .join(', ')}</answer>`;
const answers = {
  'the oracle': block(optimal),
  'everything at once': block(Object.fromEntries(problem.jobs.map((job) => [job.label, 0]))),
  'a hallucinated job': block({ ...optimal, Z: 3 }),
  'an answer that only talks': `Job A takes ${problem.jobs[0]!.duration} time steps, so the schedule is fine.`,
};

for (const [who, text] of Object.entries(answers)) {
  const parsed = scheduling.parse(text, problem);
  const verdict = parsed.ok ? scheduling.verify(problem, parsed.answer) : null;
  console.log(`\n${who}: ${verdict?.kind ?? 'fail'}`);
  if (verdict === null) console.log(`  ${parsed.ok ? '' : parsed.detail}`);
  for (const violation of verdict?.violations.slice(0, 4) ?? [])
    console.log(`  ${violation.category}: ${violation.detail}`);
}
