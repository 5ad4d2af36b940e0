// `npm run measure:baselines`: `tasks baselines` of the tasks with a score on their frozen test
// problems, kept in results/baselines.json, and the tables of docs/tasks.md from it. Minutes.
// `-- --write`: nothing is run, only the page is written.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { betweenMarks } from './between-marks.mjs';
import { command, root, writeResult } from './experiment.mjs';
import { table } from './table.mjs';

export const PAGE = 'docs/tasks.md';
const RESULTS = path.join(root, 'results', 'baselines.json');

/** Tasks by the section whose table they stand in. */
const SECTIONS = {
  scenarios: ['grid_ctf', 'othello', 'irrigation', 'convoy'],
  games: ['resource_trader', 'othello-board'],
};

/**
 * One line a tier; policies as far as the tier's task has them, mean score and per cent that pass.
 */
function sectionText(results, tasks) {
  const of = results.filter(({ task }) => tasks.includes(task));
  const policies = [...new Set(of.flatMap((each) => Object.keys(each.policies)))];
  const cell = (policy, tier) => {
    const score = policy?.measures.score.byTier[tier];
    return score === undefined
      ? '–'
      : `${score.mean.toFixed(3)}, ${(100 * policy.byTier[tier].mean).toFixed(0)} %`;
  };
  return table(
    ['', ...policies.map((name) => `\`${name}\``)],
    of.flatMap((each) =>
      Object.keys(each.policies['random-valid'].byTier).map((tier) => [
        `\`${each.task}\`${tier === 'match' ? '' : `, ${tier}`}`,
        ...policies.map((name) => cell(each.policies[name], tier)),
      ]),
    ),
  );
}

/** By section. */
export const baselinesText = (results) =>
  Object.fromEntries(
    Object.entries(SECTIONS).map(([section, tasks]) => [section, sectionText(results, tasks)]),
  );
export const withBaselines = (page, texts) =>
  Object.entries(texts).reduce(
    (text, [section, content]) => betweenMarks(text, `baselines of ${section}`, content),
    page,
  );
export const readBaselines = () => JSON.parse(readFileSync(RESULTS, 'utf8'));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] !== '--write') {
    const results = [];
    for (const task of Object.values(SECTIONS).flat()) {
      console.error(`${task} …`);
      const { code, printed } = await command([
        'tasks',
        'baselines',
        '--task',
        task,
        '--set',
        'test',
      ]);
      if (printed === undefined) process.exit(code);
      results.push(printed);
    }
    await writeResult(RESULTS, results);
  }
  const page = path.join(root, PAGE);
  writeFileSync(page, withBaselines(readFileSync(page, 'utf8'), baselinesText(readBaselines())));
}
