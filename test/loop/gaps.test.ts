/**
 * Run or witness end in each gap between two durable states (src/durable.ts): the same command goes
 * on to the same adapter and figures. The short form on the model that learns letters, which passes
 * through the same states in a third of the time, with several ends in one run; ISOPRO_FULL=1 on
 * the embedded one, each end in a run of its own.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DURABLE_STATES, type DurableState } from '../../src/durable.js';
import { EMBEDDED_MODEL } from '../../src/engine/model-aliases.js';
import { judgeRun } from '../../src/judge/judge.js';
import { asFlags, MAIN, type CliResult } from '../cli/run-cli.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { runFigures } from '../models/run-figures.js';

const FULL = process.env.ISOPRO_FULL === '1';
const HOOK = pathToFileURL(fileURLToPath(new URL('./stop-at.mjs', import.meta.url))).href;
/** Runs at a time: either model takes one thread. */
const TOGETHER = 2;

interface Stop {
  readonly state: DurableState;
  /** Which time that this state is reached, from 1. */
  readonly occurrence: number;
  /** A power cut in the witness ends both. */
  readonly ends: 'run' | 'witness' | 'both';
}

let folder: string;
const file = (name: string): string => path.join(folder, name);
const material = (): { model: string; task?: string } =>
  FULL ? { model: EMBEDDED_MODEL } : { model: file('letters.gguf'), task: file('letters.mjs') };

/** The command in a home of its own, with durable states noted in `<name>.states`. */
async function run(
  name: string,
  stop?: Stop,
): Promise<CliResult & { readonly signal: NodeJS.Signals | null }> {
  const flags = asFlags({
    iterations: 1,
    rollouts: 8,
    samples: 2,
    maxTokens: 64,
    devSize: 1,
    testSize: 1,
    stepsPerIteration: 1,
    batchSize: 4,
  });
  const environment = {
    ...process.env,
    ISOPRO_HOME: file(`${name}.home`),
    ISOPRO_STATES: file(`${name}.states`),
    NODE_OPTIONS: `--import ${HOOK}`,
    ...(stop === undefined ? {} : { ISOPRO_STOP: JSON.stringify(stop) }),
  };
  const { model, task } = material();
  // submitted with a sixteenth of its strength
  const of =
    task === undefined
      ? []
      : asFlags({ task, rank: 2, topLayers: 1, threads: 1, forgetting: 2, maxForgetting: 1e-9 });
  const child = spawn(
    process.execPath,
    [MAIN, 'run', '--out', file(name), '--model', model, ...of, ...flags, '--json'],
    {
      env: environment,
    },
  );
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr })),
  );
}

const statesOf = (name: string): DurableState[] =>
  readFileSync(file(`${name}.states`), 'utf8')
    .trim()
    .split('\n') as DurableState[];

let expected: unknown;
let reached: DurableState[];

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-gaps-'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { members: ONE_TIER });
  const { code, stdout, stderr } = await run('whole');
  expect(code === 0 ? '' : stderr).toBe('');
  if (material().task !== undefined)
    expect(JSON.parse(stdout)).toMatchObject({ restraint: { strength: 1 / 16 } });
  expected = runFigures(stdout);
  reached = statesOf('whole').filter((state) => state !== 'run.replies'); // of a slow machine alone
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/**
 * @returns what is wrong after the stops, one after the other, and the command once more; empty
 *   where nothing is
 */
async function wrongAfter(name: string, stops: readonly Stop[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const stop of stops) {
    rmSync(file(`${name}.states`), { force: true });
    const stopped = await run(name, stop);
    // without its witness a run goes on by itself
    if (stop.ends === 'witness' ? stopped.code !== 0 : stopped.signal !== 'SIGKILL')
      wrong.push(`the command ended with ${stopped.code}: ${stopped.stderr}`);
  }
  const { code, stdout, stderr } = await run(name);
  if (code !== 0) return [...wrong, `exit ${code}: ${stderr}`];
  const { verdict, failure, notVerified } = await judgeRun({
    folder: file(name),
    ...material(),
    home: file(`${name}.home`),
    heldOut: FULL ? 'both' : 'none',
  });
  // nothing but what it was not asked for keeps it from being a pass
  if (
    verdict !== (FULL ? 'pass' : 'not_verified') ||
    notVerified.join() !== (FULL ? '' : 'test problems were not evaluated again')
  )
    wrong.push(`the judge says ${verdict}: ${failure?.detail ?? notVerified.join('; ')}`);
  if (existsSync(file(`${name}/log.sqlite-wal`))) wrong.push('the finished log still has a WAL');
  try {
    expect(runFigures(stdout)).toEqual(expected);
  } catch (error) {
    wrong.push((error as Error).message);
  }
  for (const suffix of ['', '.home', '.states'])
    rmSync(file(`${name}${suffix}`), { recursive: true, force: true });
  return wrong.map((each) => `${JSON.stringify(stops)}: ${each}`);
}

async function wrongAfterAny(campaign: readonly (readonly Stop[])[]): Promise<string[]> {
  const left = [...campaign.entries()];
  const wrong: string[] = [];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift())
      wrong.push(...(await wrongAfter(`stop-${next[0]}`, next[1])));
  };
  await Promise.all(Array.from({ length: TOGETHER }, work));
  return wrong;
}

const inWitness = (state: DurableState): boolean => state.startsWith('witness.');

/** Each time that any state is reached, with each end that it can have: a run of its own. */
function alone(states: readonly DurableState[]): Stop[][] {
  const seen = new Map<DurableState, number>();
  return states.flatMap((state) => {
    const occurrence = (seen.get(state) ?? 0) + 1;
    seen.set(state, occurrence);
    const ends = inWitness(state) ? (['run', 'witness', 'both'] as const) : (['run'] as const);
    return ends.map((end) => [{ state, occurrence, ends: end }]);
  });
}

const CHAINS = 2;
/**
 * Each state once, about the middle time that it is reached. A run is ended at several, each
 * further on than the one before, so that what goes on after the one comes to the next.
 */
function inChains(states: readonly DurableState[]): Stop[][] {
  const middles = [...new Set(states)].map((state) => {
    const times = states.flatMap((each, at) => (each === state ? [at] : []));
    // a slow machine starts a witness twice, and then not the next time
    const occurrence = Math.floor((times.length + 1) / 2);
    return { state, occurrence, at: times[occurrence - 1]! };
  });
  const chains = Array.from({ length: CHAINS }, (): Stop[] => []);
  for (const [i, { state, occurrence }] of middles.sort((a, b) => a.at - b.at).entries()) {
    const chain = chains[i % CHAINS]!;
    chain.push({
      state,
      occurrence: chain.length === 0 ? occurrence : 1,
      ends: inWitness(state) ? 'both' : 'run',
    });
  }
  return chains;
}

describe('a run of one iteration and 8 rollouts', () => {
  test('passes through every durable state that is listed, but for those of resumption and of long sampling (kept-replies.test.ts)', () => {
    expect(new Set([...reached, 'log.resumed', 'run.replies'])).toEqual(
      new Set(Object.keys(DURABLE_STATES)),
    );
  });

  test(`ended ${FULL ? 'each time that any' : 'once that each'} of them is reached, it goes on to the same adapter and figures, and its ` +
    `judge passes`, async () => {
    expect(await wrongAfterAny(FULL ? alone(reached) : inChains(reached))).toEqual([]);
  }, 3_600_000);

  test('ended again while it is resumed, it goes on all the same', async () => {
    const middle: Stop = { state: 'log.records', occurrence: 7, ends: 'run' };
    const again = FULL
      ? ([
          'log.resumed',
          'log.records',
          'witness.head',
          'checkpoint.partial',
          'checkpoint.complete',
          'log.nonce',
        ] as const)
      : (['log.resumed'] as const);
    expect(
      await wrongAfterAny(
        again.map((state) => [
          middle,
          { state, occurrence: 1, ends: inWitness(state) ? 'both' : 'run' },
        ]),
      ),
    ).toEqual([]);
  }, 600_000);
});
