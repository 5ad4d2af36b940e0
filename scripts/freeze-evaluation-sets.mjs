/**
 * Writes assets/evaluation: for each task the frozen test and dev sets and SHA256SUMS. Run once per
 * task version, after `npm run build:ts`; a set that is already there is left alone, because
 * results that were published refer to it.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { Random, deriveSeed } from '../dist/src/random.js';
import { SET_NAMES, SET_SIZE } from '../dist/src/tasks/frozen-sets.js';
import { TIERS, drawProblem } from '../dist/src/tasks/scheduling/generate.js';
import { GroundTruthSolver } from '../dist/src/tasks/scheduling/ground-truth.js';
import {
  TIERS as SQL_TIERS,
  drawProblem as drawSqlProblem,
} from '../dist/src/tasks/sql/generate.js';
import { FROZEN_THEMES } from '../dist/src/tasks/sql/frozen-themes.js';
import {
  CLASSIC_TIERS,
  drawClassicProblem,
} from '../dist/src/tasks/scheduling-classic/generate.js';
import * as extract from '../dist/src/tasks/extract/generate.js';
import * as ladder from '../dist/src/tasks/ladder/generate.js';
import {
  TIERS as OTHELLO_TIERS,
  drawOthelloProblem,
} from '../dist/src/tasks/games/othello-board.js';
import { drawTraderProblem } from '../dist/src/tasks/games/trader.js';
import { drawScenarioProblem } from '../dist/src/tasks/games/scenario-task.js';
import { SHIPPED, shippedScenario } from '../dist/src/tasks/games/shipped.js';
import { solve } from '../dist/src/tasks/ladder/solve.js';

const folder = new URL('../assets/evaluation/', import.meta.url);
const solver = new GroundTruthSolver();
async function optimum(problem) {
  const reference = await solver.solve(problem, { timeLimitSeconds: 120 });
  if (reference.status !== 'optimal')
    throw new Error(
      `${problem.tier} ${problem.id}: the optimum was not proven (${reference.status})`,
    );
  return reference;
}

const makers = {
  scheduling: {
    tiers: TIERS,
    draw: (tier, random) => drawProblem('scheduling', tier, random),
    refer: optimum,
  },
  'scheduling-classic': {
    tiers: CLASSIC_TIERS,
    draw: (tier, random) => drawClassicProblem(tier, random),
    refer: optimum,
  },
  extract: {
    tiers: extract.TIERS,
    draw: (tier, random) => extract.drawProblem('extract', tier, random, 'frozen'),
    refer: ({ expected }) => expected,
  },
  ladder: {
    tiers: ladder.TIERS,
    draw: (tier, random) => ladder.drawProblem('ladder', tier, random, 'frozen'),
    refer: solve,
  },
  sql: {
    tiers: SQL_TIERS,
    draw: (tier, random, name) => drawSqlProblem(tier, FROZEN_THEMES[name], random),
    refer: () => null,
  },
  resource_trader: {
    tiers: [{ id: 'market' }],
    draw: (_tier, random) => drawTraderProblem(random),
    refer: () => null,
  },
  'othello-board': { tiers: OTHELLO_TIERS, draw: drawOthelloProblem, refer: () => null },
  ...Object.fromEntries(
    SHIPPED.map(shippedScenario).map((scenario) => [
      scenario.document.id,
      {
        tiers: [{ id: 'match' }],
        draw: (_tier, random) => drawScenarioProblem(scenario, random),
        refer: () => null,
      },
    ]),
  ),
};

for (const [task, { tiers, draw, refer }] of Object.entries(makers)) {
  mkdirSync(new URL(`${task}/`, folder), { recursive: true });
  const taken = new Set();
  for (const name of SET_NAMES) {
    const file = new URL(`${task}/${name}.json`, folder);
    if (existsSync(file)) {
      for (const { problem } of JSON.parse(readFileSync(file, 'utf8'))) taken.add(problem.id);
      console.log(`${task}/${name}.json is there; left alone`);
      continue;
    }
    const rows = [];
    for (const tier of tiers) {
      for (let index = 0, draws = 0; index < SET_SIZE[name]; draws++) {
        const problem = draw(
          tier,
          new Random(
            deriveSeed({
              runSeed: 0n,
              purpose: `frozen ${name}`,
              iteration: 0,
              problemId: `${task}/${tier.id}`,
              sample: draws,
            }),
          ),
          name,
        );
        if (taken.has(problem.id)) continue;
        const reference = await refer(problem);
        taken.add(problem.id);
        rows.push(JSON.stringify({ problem, reference }));
        index++;
      }
      console.log(`${task}/${name}.json ${tier.id}`);
    }
    writeFileSync(file, `[\n${rows.join(',\n')}\n]\n`);
  }
}
await solver.dispose();

const sums = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.json'))
  .sort()
  .map(
    (path) =>
      `${createHash('sha256')
        .update(readFileSync(new URL(path, folder)))
        .digest('hex')}  ${path}\n`,
  );
writeFileSync(new URL('SHA256SUMS', folder), sums.join(''));
