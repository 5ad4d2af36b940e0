import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { deriveSeed, Random } from '../../src/random.js';
import {
  frozenIndex,
  frozenSet,
  readFrozenSet,
  SET_NAMES,
  SET_SIZE,
} from '../../src/tasks/frozen-sets.js';
import { problemId } from '../../src/tasks/problem-id.js';
import { drawProblem, TIERS } from '../../src/tasks/scheduling/generate.js';
import type { GroundTruth } from '../../src/tasks/scheduling/grade.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import { BUILT_IN_IDS, builtInTasks } from '../../src/tasks/registry.js';
import { schedulingClassic } from '../../src/tasks/scheduling-classic/scheduling-classic.js';
import type { Problem } from '../../src/tasks/task.js';

test('each task that ships is known by its own id', async () => {
  expect((await builtInTasks()).map(({ task }) => task.id)).toEqual(BUILT_IN_IDS);
});

describe.each(
  (await builtInTasks()).map(({ task, readProblem }) => ({ id: task.id, task, readProblem })),
)('the frozen sets of $id', ({ task, readProblem }) => {
  const set = (name: 'test' | 'dev') => frozenSet<Problem, unknown>(task.id, name);

  test.each(SET_NAMES)(
    '%s: the committed file has its checksum, its size and its content hashes',
    (name) => {
      const folder = new URL('../../assets/evaluation/', import.meta.url);
      const bytes = readFileSync(new URL(`${task.id}/${name}.json`, folder));
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      expect(readFileSync(new URL('SHA256SUMS', folder), 'utf8')).toContain(
        `${sha256}  ${task.id}/${name}.json\n`,
      );
      expect(set(name).sha256).toBe(sha256);
      for (const { id } of task.tiers)
        expect(set(name).problems.filter(({ problem }) => problem.tier === id)).toHaveLength(
          SET_SIZE[name],
        );
      for (const { problem } of set(name).problems) {
        expect(problemId(problem)).toBe(problem.id);
        expect(readProblem(problem)).toEqual(problem);
      }
    },
  );

  test('test and dev share no problem, and no problem is there twice', () => {
    const all = SET_NAMES.flatMap((name) => set(name).problems.map(({ problem }) => problem.id));
    expect(new Set(all).size).toBe(all.length);
    expect(frozenIndex(task.id).size).toBe(task.tiers.length * (SET_SIZE.test + SET_SIZE.dev));
  });
});

describe.each([scheduling, schedulingClassic])('the frozen sets of $id', (task) => {
  test('every reference is a schedule that passes, proven optimal', () => {
    for (const name of SET_NAMES) {
      for (const { problem, reference } of frozenSet<SchedulingProblem, GroundTruth>(task.id, name)
        .problems) {
        expect(reference).toMatchObject({ status: 'optimal', lowerBound: reference.makespan });
        expect(task.verify(problem, reference.schedule!)).toMatchObject({
          kind: 'pass',
          metrics: { makespan: reference.makespan },
        });
      }
    }
  });
});

test('a damaged, incomplete or unknown set is a typed error', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isopro-sets-'));
  const url = pathToFileURL(`${folder}/`);
  cpSync(new URL('../../assets/evaluation/', import.meta.url), folder, { recursive: true });
  expect(readFrozenSet(url, 'scheduling', 'dev').problems).toHaveLength(160);
  const file = join(folder, 'scheduling/dev.json');
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace('"duration":2', '"duration":1'));
  expect(() => readFrozenSet(url, 'scheduling', 'dev')).toThrow(
    expect.objectContaining({ code: 'EVALUATION_SET_CORRUPT' }),
  );
  const forged = text.replace('"duration":2', '"duration":1');
  writeFileSync(
    join(folder, 'SHA256SUMS'),
    `${createHash('sha256').update(forged).digest('hex')}  scheduling/dev.json\n`,
  );
  expect(() => readFrozenSet(url, 'scheduling', 'dev')).toThrow(
    expect.objectContaining({
      code: 'EVALUATION_SET_CORRUPT',
      message: expect.stringContaining('its id'),
    }),
  );
  rmSync(file);
  expect(() => readFrozenSet(url, 'scheduling', 'dev')).toThrow(
    expect.objectContaining({ code: 'EVALUATION_SET_CORRUPT' }),
  );
  expect(() => frozenSet('addition', 'test')).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
  );
  rmSync(folder, { recursive: true });
});

test('the set is what its seeds give: the first test problem of each tier', () => {
  for (const tier of TIERS) {
    const seed = deriveSeed({
      runSeed: 0n,
      purpose: 'frozen test',
      iteration: 0,
      problemId: `scheduling/${tier.id}`,
      sample: 0,
    });
    const first = frozenSet<SchedulingProblem, GroundTruth>('scheduling', 'test').problems.find(
      ({ problem }) => problem.tier === tier.id,
    )!;
    expect(drawProblem('scheduling', tier, new Random(seed))).toEqual(first.problem);
  }
});

const DRAWS = process.env.ISOPRO_FULL === '1' ? 100_000 : 25_000;
test(`${DRAWS} training draws contain no frozen problem, although unfiltered draws do`, () => {
  const frozen = frozenIndex('scheduling');
  const tiers = TIERS.filter(({ trains }) => trains);
  let [drawn, met, unfiltered] = [0, 0, 0];
  for (let seed = 0n; drawn < DRAWS; seed++) {
    for (const tier of tiers) {
      if (frozen.has((scheduling.generate(tier.id, seed) as SchedulingProblem).id)) met++;
      drawn++;
    }
    if (frozen.has(drawProblem('scheduling', TIERS[0]!, new Random(seed)).id)) unfiltered++;
  }
  expect(drawn).toBeGreaterThanOrEqual(DRAWS);
  expect(met).toBe(0);
  expect(unfiltered).toBeGreaterThan(0);
});
