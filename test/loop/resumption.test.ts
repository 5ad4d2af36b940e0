/**
 * What a run goes on with, beside whom, and without whom: checkpoints, other processes on its
 * folder, a witness that does not answer.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { canonicalJson } from '../../src/canonical-json.js';
import type { DurableState } from '../../src/durable.js';
import { hasEnded } from '../../src/files.js';
import { EventLog } from '../../src/log/event-log.js';
import { judgeRun } from '../../src/judge/judge.js';
import { verifyRun } from '../../src/log/local-trust.js';
import { LogReader } from '../../src/log/read.js';
import { WitnessClient } from '../../src/log/witness-client.js';
import { witnessProcess } from '../../src/log/witness-protocol.js';
import type { Measurement } from '../../src/monitor/measurements.js';
import { checkpointRecord } from '../../src/run-folder/course-records.js';
import type { RunResult } from '../../src/training/result.js';
import { asFlags, MAIN, type CliResult } from '../cli/run-cli.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { logRecords, payloadsOf, rolloutsOf } from '../models/log-records.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const HOOK = pathToFileURL(fileURLToPath(new URL('./stop-at.mjs', import.meta.url))).href;
const windows = process.platform === 'win32'; // it stops no process

let folder: string;
let expected: string;
const file = (...names: string[]): string => path.join(folder, ...names);
const adapterOf = (stdout: string): string => (JSON.parse(stdout) as RunResult).adapter.sha256;

interface Running {
  readonly child: ChildProcess;
  readonly said: () => string;
  readonly result: Promise<CliResult>;
}

interface Conditions {
  readonly seed?: number;
  readonly home?: string;
  readonly iterations?: number;
  readonly rollouts?: number;
  /** File of the task. */
  readonly task?: string;
  /** Ends the run once the state has been reached so many times. */
  readonly stop?: readonly [DurableState, number];
}

function start(
  out: string,
  {
    seed = 5,
    home = 'home',
    iterations = 2,
    rollouts = 32,
    task = 'letters.mjs',
    stop,
  }: Conditions = {},
): Running {
  const flags = [
    '--seed',
    String(seed),
    ...asFlags({
      iterations,
      rollouts,
      samples: 4,
      maxTokens: 4,
      stepsPerIteration: 4,
      batchSize: 8,
      learningRate: 0.005,
      profile: 'downloaded',
      rank: 4,
      topLayers: 1,
      devSize: 4,
      testSize: 8,
      threads: 1,
      patience: 9,
    }),
    '--json',
  ];
  const child = spawn(
    process.execPath,
    [
      MAIN,
      'run',
      '--model',
      file('letters.gguf'),
      '--task',
      file(task),
      '--out',
      file(out),
      ...flags,
    ],
    {
      env: {
        ...process.env,
        ISOPRO_HOME: file(home),
        ISOPRO_STATES: file(`${out}.states`),
        NODE_OPTIONS: `--import ${HOOK}`,
        ...(stop === undefined
          ? {}
          : { ISOPRO_STOP: JSON.stringify({ state: stop[0], occurrence: stop[1], ends: 'run' }) }),
      },
    },
  );
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  spawned.push(child);
  return {
    child,
    said: () => stderr,
    result: new Promise((resolve) =>
      child.on('close', (code) => resolve({ code, stdout, stderr })),
    ),
  };
}

const run = (out: string, conditions?: Conditions): Promise<CliResult> =>
  start(out, conditions).result;

/** @param said what is told where it did not come about */
async function until(condition: () => boolean, said = (): string => ''): Promise<void> {
  for (const deadline = Date.now() + 60_000; !condition(); ) {
    if (Date.now() > deadline) throw new Error(`it did not come about within a minute: ${said()}`);
    await delay(10);
  }
}

const statesOf = (out: string): string =>
  existsSync(file(`${out}.states`)) ? readFileSync(file(`${out}.states`), 'utf8') : '';

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-resumption-'));
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'), { members: ONE_TIER });
  writeLetterTask(file('tiers.mjs'));
  const { code, stdout, stderr } = await run('whole');
  expect(code === 0 ? '' : stderr).toBe('');
  expected = adapterOf(stdout);
}, 120_000);
const spawned: ChildProcess[] = [];
afterAll(() => {
  for (const child of spawned) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

describe('checkpoints', () => {
  const NEWEST = '0001-iteration';
  const sha256 = (bytes: Buffer | string): string =>
    createHash('sha256').update(bytes).digest('hex');
  type Content = { state: { logSize: number }; files: { trainer: string } };
  const contentOf = (out: string): Content =>
    JSON.parse(readFileSync(file(out, 'checkpoints', NEWEST, 'state.json'), 'utf8')) as Content;
  /** The stopped run with a witness that knows no other continuation of it. */
  const copyStopped = (out: string): void => {
    for (const suffix of ['', '.home'])
      cpSync(file(`stopped${suffix}`), file(`${out}${suffix}`), {
        recursive: true,
        filter: (from) => path.basename(from) !== 'socket',
      });
  };
  const writeContent = (out: string, content: Content): void =>
    writeFileSync(file(out, 'checkpoints', NEWEST, 'state.json'), JSON.stringify(content));

  beforeAll(async () => {
    for (const [out, seed] of [
      ['stopped', 5],
      ['foreign', 6],
    ] as const) {
      const home = `${out}.home`;
      await run(out, { seed, home, stop: ['checkpoint.complete', 2] });
      await until(() => hasEnded(witnessProcess(file(home))!));
      expect(readdirSync(file(out, 'checkpoints'))).toEqual(['0000-prepared', NEWEST]);
    }
  }, 120_000);

  const CHANGES: [what: string, change: (out: string) => void | Promise<void>, reason: string][] = [
    [
      'weights of another run under a mended hash',
      (out) => {
        cpSync(
          file('foreign', 'checkpoints', NEWEST, 'trainer'),
          file(out, 'checkpoints', NEWEST, 'trainer'),
        );
        const content = contentOf(out);
        writeContent(out, {
          ...content,
          files: {
            ...content.files,
            trainer: sha256(readFileSync(file(out, 'checkpoints', NEWEST, 'trainer'))),
          },
        });
      },
      'the one that the log names',
    ],
    [
      'the whole checkpoint of another run',
      (out) => {
        cpSync(file('foreign', 'checkpoints', NEWEST), file(out, 'checkpoints', NEWEST), {
          recursive: true,
        });
        writeContent(out, {
          ...contentOf(out),
          state: { ...contentOf(out).state, logSize: contentOf('stopped').state.logSize },
        });
      },
      'the one that the log names',
    ],
    [
      'another learning rate',
      (out) =>
        writeContent(out, {
          ...contentOf(out),
          state: { ...contentOf(out).state, learningRate: 0.1 } as Content['state'],
        }),
      'the one that the log names',
    ],
    [
      'half of its weights',
      (out) => {
        const trainer = file(out, 'checkpoints', NEWEST, 'trainer');
        writeFileSync(trainer, readFileSync(trainer).subarray(0, 1000));
      },
      'trainer is not the one that the log names',
    ],
    [
      'no JSON',
      (out) => writeFileSync(file(out, 'checkpoints', NEWEST, 'state.json'), '{'),
      'it is damaged',
    ],
    [
      'weights of another run that a record without a signed head names',
      async (out) => {
        // whoever can write the file can append what links and hashes well; only the witness's head
        // makes it the run's
        const signer = await WitnessClient.open(file(`${out}.home`));
        const log = await EventLog.resume({
          streams: RUN_STREAMS,
          path: file(out, 'log.sqlite'),
          signer,
          fromIteration: 2,
          abandonedFrom: contentOf(out).state.logSize,
        });
        cpSync(file('foreign', 'checkpoints', NEWEST), file(out, 'checkpoints', NEWEST), {
          recursive: true,
        });
        const content = {
          ...contentOf(out),
          state: { ...contentOf(out).state, logSize: log.size + 1 },
        };
        writeContent(out, content);
        log.append([
          checkpointRecord({
            stage: 'iteration',
            iteration: 1,
            digest: sha256(canonicalJson(content as never)),
          }),
        ]);
        log.close();
        await signer.close();
      },
      'the one that the log names',
    ],
  ];
  /**
   * One that the digest finds, one that the trainer's file shows, one that the witness alone knows
   * of.
   */
  const SHORT = [
    'weights of another run under a mended hash',
    'half of its weights',
    CHANGES.at(-1)![0],
  ];
  test.each(
    process.env.ISOPRO_FULL === '1' ? CHANGES : CHANGES.filter(([what]) => SHORT.includes(what)),
  )(
    'with %s are named and refused, and an older one is gone on with',
    async (what, change, reason) => {
      const out = `changed by ${what}`;
      copyStopped(out);
      await change(out);
      const { code, stdout, stderr } = await run(out, { home: `${out}.home` });
      expect(code === 0 ? '' : stderr).toBe('');
      expect(stderr).toMatch(new RegExp(`checkpoint ${NEWEST} was rejected: .*${reason}`));
      expect(stderr).toContain('iteration 1 of 2');
      expect(adapterOf(stdout)).toBe(expected);
      const reader = new LogReader(file(out, 'log.sqlite'), RUN_STREAMS);
      const refused = [...reader.records({ stream: 'metrics', abandoned: true })].filter(
        ({ payload }) => payload.kind === 'refused_checkpoint',
      );
      reader.close();
      expect(refused.map(({ payload }) => payload.name)).toEqual([NEWEST]);
    },
    120_000,
  );

  test('all damaged: the run begins anew in its log and says so', async () => {
    copyStopped('all damaged');
    for (const name of ['0000-prepared', NEWEST])
      rmSync(file('all damaged', 'checkpoints', name, 'state.json'));
    const { stdout, stderr } = await run('all damaged', { home: 'all damaged.home' });
    expect(stderr.match(/was rejected: it is damaged/g)).toHaveLength(2);
    expect(adapterOf(stdout)).toBe(expected);
  }, 120_000);

  test('iterations that leave out a tier: the objective has its last counts, also of before a kill', async () => {
    // one problem an iteration, of two tiers
    const conditions = { home: 'few.home', iterations: 6, rollouts: 4, task: 'tiers.mjs' };
    const whole = await run('few', conditions);
    expect(whole.code === 0 ? '' : whole.stderr).toBe('');
    await run('few killed', { ...conditions, stop: ['checkpoint.complete', 4] });
    const resumed = await run('few killed', conditions);
    expect(resumed.stderr).toContain('continues');
    expect(adapterOf(resumed.stdout)).toBe(adapterOf(whole.stdout));

    const last = new Map<string, number>();
    const logged = [];
    const derived = [];
    let leftOut = 0;
    const records = logRecords(file('few killed'));
    const rollouts = rolloutsOf(records);
    for (const { iteration, objective } of payloadsOf<Measurement>(records, 'iteration')) {
      const own = rollouts.filter((rollout) => rollout.iteration === iteration);
      const [tier, ...others] = new Set(own.map((rollout) => rollout.tier));
      expect([own.length, others]).toEqual([4, []]);
      if ([...last.keys()].some((earlier) => earlier !== tier)) leftOut++;
      last.set(tier!, own.filter(({ verdict }) => verdict.kind === 'pass').length / 4);
      derived.push([...last.values()].reduce((sum, rate) => sum + rate, 0) / last.size);
      logged.push(objective?.value);
    }
    expect(leftOut).toBeGreaterThan(2);
    expect(logged).toEqual(derived);
    expect(
      payloadsOf<Measurement>(logRecords(file('few')), 'iteration').map(
        ({ objective }) => objective?.value,
      ),
    ).toEqual(derived);
    const judged = {
      folder: file('few killed'),
      home: file('few.home'),
      model: file('letters.gguf'),
      task: file('tiers.mjs'),
    };
    expect(await judgeRun({ ...judged, heldOut: 'none' })).toMatchObject({
      verdict: 'not_verified', // nothing else keeps it from being a pass
      notVerified: ['test problems were not evaluated again'],
    });
  }, 120_000);

  test('an exported adapter that was exchanged is not the one that the run ends with', async () => {
    await run('exchanged', { stop: ['log.nonce', 1] });
    const [adapter] = readdirSync(file('exchanged', 'adapters'));
    writeFileSync(file('exchanged', 'adapters', adapter!), 'no adapter');
    const { code, stdout, stderr } = await run('exchanged');
    expect(code === 0 ? '' : stderr).toBe('');
    expect(stderr).toContain(
      '0002-submitted was rejected: the adapter that it submitted is missing or changed',
    );
    expect(adapterOf(stdout)).toBe(expected);
    expect(sha256(readFileSync(file('exchanged', 'adapters', `${expected}.gguf`)))).toBe(expected);
    expect(
      (await verifyRun(file('exchanged'), { streams: RUN_STREAMS, home: file('home') })).outcome,
    ).toBe('ok');
  }, 120_000);
});

describe('two processes on one folder', () => {
  const busy = /LOG_BUSY.*another process is using the run in .*same command again.*--out/s;

  test('started at once end in one run and clean refusals', async () => {
    const all = await Promise.all(Array.from({ length: 3 }, () => run('at once')));
    const [ended, refused] = [
      all.filter(({ code }) => code === 0),
      all.filter(({ code }) => code !== 0),
    ];
    expect(ended.length).toBeGreaterThan(0); // one that comes when all is over reads the result
    for (const { stdout } of ended) expect(adapterOf(stdout)).toBe(expected);
    for (const { code, stderr } of refused)
      expect([code, stderr]).toEqual([1, expect.stringMatching(busy)]);
    expect(
      await verifyRun(file('at once'), { streams: RUN_STREAMS, home: file('home') }),
    ).toMatchObject({ outcome: 'ok', resumes: 0 });
  }, 120_000);

  (windows ? test.skip : test)(
    'a living owner keeps it, also one that is stopped; a dead owner does not',
    async () => {
      const first = start('owned');
      await until(() => first.said().includes('iteration 1 of 2'), first.said);
      first.child.kill('SIGSTOP');
      const { code, stderr } = await run('owned');
      expect([code, stderr]).toEqual([1, expect.stringMatching(busy)]);
      first.child.kill('SIGCONT');
      await until(() => first.said().includes('iteration 2 of 2'), first.said);
      first.child.kill('SIGKILL');
      await first.result;
      const next = await run('owned');
      expect(next.code === 0 ? '' : next.stderr).toBe('');
      expect(adapterOf(next.stdout)).toBe(expected);
      expect(
        await verifyRun(file('owned'), { streams: RUN_STREAMS, home: file('home') }),
      ).toMatchObject({ outcome: 'ok', resumes: 1 });
    },
    120_000,
  );
});

(windows ? describe.skip : describe)('a witness', () => {
  test('that was stopped: Ctrl-C ends the run at once, and the same command goes on when it answers again', async () => {
    const witness = spawn(process.execPath, [MAIN, 'witness', '--idle', '60'], {
      env: { ...process.env, ISOPRO_HOME: file('silent.home') },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    spawned.push(witness);
    await new Promise((resolve) => witness.stderr.once('data', resolve));
    witness.kill('SIGSTOP');
    const waiting = start('unanswered', { home: 'silent.home' });
    await until(() => statesOf('unanswered').includes('run.manifest')); // the ticket is next
    await delay(200);
    const begin = performance.now();
    waiting.child.kill('SIGINT');
    const { code, stderr } = await waiting.result;
    expect([code, stderr]).toEqual([
      130,
      expect.stringMatching(/ABORTED.*the run was interrupted.*same command/s),
    ]);
    expect(performance.now() - begin).toBeLessThan(5000);
    witness.kill('SIGCONT');
    expect(adapterOf((await run('unanswered', { home: 'silent.home' })).stdout)).toBe(expected);
    await new Promise((resolve) =>
      witness.exitCode === null ? witness.on('exit', resolve) : resolve(null),
    );
  }, 120_000);

  test.each<DurableState>(
    process.env.ISOPRO_FULL === '1'
      ? ['witness.key', 'witness.ticket', 'witness.head']
      : ['witness.ticket'],
  )(
    'goes when its run is killed at %s',
    async (state) => {
      const home = `killed.${state}`;
      const running = start(home, { home, stop: [state, 1] });
      let pid: number | null = null;
      await until(
        () => (pid = witnessProcess(file(home))) !== null || running.child.signalCode !== null,
      );
      await running.result;
      await until(() => (pid = witnessProcess(file(home))) !== null && hasEnded(pid));
    },
    90_000,
  );

  (process.env.ISOPRO_FULL === '1' ? test : test.skip)(
    "of the run's own that was stopped is replaced, with a word, and the run ends as it would have",
    async () => {
      const running = start('replaced', { home: 'replaced.home' });
      await until(() => running.said().includes('iteration 1 of 2'), running.said);
      const pid = witnessProcess(file('replaced.home'))!;
      process.kill(pid, 'SIGSTOP');
      const { code, stdout, stderr } = await running.result;
      expect(code === 0 ? '' : stderr).toBe('');
      expect(stderr).toContain(
        `the witness (process ${pid}) has not answered for 10 s; asking again (attempt 2 of 3)`,
      );
      expect(adapterOf(stdout)).toBe(expected);
      expect(hasEnded(pid)).toBe(true);
      expect(
        (await verifyRun(file('replaced'), { streams: RUN_STREAMS, home: file('replaced.home') }))
          .outcome,
      ).toBe('ok');
    },
    120_000,
  );
});
