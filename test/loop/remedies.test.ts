/**
 * Every remedy in the real loop: brought about, measured, in the log as the judge reads it, and in
 * force after a kill as without one.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { run } from '../../src/index.js';
import { replayStructure } from '../../src/judge/replay.js';
import { LogReader, type LogRecord } from '../../src/log/read.js';
import type { StepStatistics } from '../../src/engine/trainer.js';
import { OPERATIONS } from '../../src/trainees/lora/operations.js';
import { LORA, type LoraEffect as Effect } from '../../src/trainees/lora/trainee.js';
import type { RunResult } from '../../src/training/result.js';
import { judgeLog } from '../models/judge-log.js';
import {
  REMEDY_RUNS,
  remedyRun,
  SETTINGS,
  writeRemedyInputs,
  type RemedyRun,
} from '../models/remedy-runs.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const PROGRAM = fileURLToPath(new URL('../../dist/test/models/remedy-runs.js', import.meta.url));
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-remedies-'));
  process.env.ISOPRO_HOME = path.join(folder, 'home');
  writeRemedyInputs(folder);
});
afterAll(() => {
  delete process.env.ISOPRO_HOME;
  rmSync(folder, { recursive: true, force: true });
});

function recordsOf(out: string): LogRecord[] {
  const reader = new LogReader(path.join(folder, out, 'log.sqlite'), RUN_STREAMS);
  try {
    return [...reader.records()];
  } finally {
    reader.close();
  }
}
const payloads = <T>(records: readonly LogRecord[], kind: string): T[] =>
  records.filter(({ payload }) => payload.kind === kind).map(({ payload }) => payload as T);

/** What the loop does in its next iteration, by operation. */
interface Consequence {
  readonly effect: Effect;
  readonly next: readonly (StepStatistics & { modules: Record<string, unknown> })[];
  readonly states: readonly {
    iteration: number;
    digest: string;
    targets: Record<string, { rank: number; scale: number }>;
  }[];
  readonly result: RunResult;
}
const rateOf = ({ next }: Consequence): number => next[0]!.learningRate;
const lastTargets = ({ states }: Consequence): Consequence['states'][number]['targets'] =>
  states.at(-1)!.targets;

const CONSEQUENCES: Readonly<Record<string, (found: Consequence) => void>> = {
  'set_lr down': (found) => expect(rateOf(found)).toBeCloseTo(0.01 / 3, 8),
  'set_lr up': (found) => expect(rateOf(found)).toBeCloseTo(0.02, 8),
  set_batch: ({ effect }) => expect(effect.measured.sequencesPerStep).toBe(16),
  stop: ({ effect, result }) => {
    // the state that it names, which the gate would not have chosen, and no further iteration
    expect(effect.measured.restored).toBe((effect.operation as { restore: string }).restore);
    expect(result.adapter).toMatchObject({ sha256: effect.measured.restored, iteration: 1 });
    expect(result.iterations).toHaveLength(2);
    expect(result.stopped).toMatch(/R3/);
  },
  raise_rank: (found) =>
    expect([found.effect.measured.probeChange, lastTargets(found)['blk.2.attn_v']!.rank]).toEqual([
      expect.closeTo(0, 5),
      4,
    ]),
  add_target: (found) => {
    expect(Object.keys(found.next[0]!.modules)).toContain('blk.1.ffn_down');
    expect(lastTargets(found)['blk.1.ffn_down']).toEqual({ rank: 2, scale: 2 });
  },
  recycle: ({ effect }) =>
    expect((effect.operation as { directions: number[] }).directions.length).toBeGreaterThan(0),
  lr_mult: ({ effect }) => expect(effect.measured.rateFactor).toBe(8),
  raise_precision: ({ effect }) => expect(effect.measured.epsilon).toBe(1e-12),
  rebalance: ({ effect }) => expect(effect.measured.probeChange).toBeCloseTo(0, 5),
  rescale: (found) =>
    expect(Object.values(lastTargets(found)).map(({ scale }) => scale)).toContain(8),
  set_clip: ({ next }) => expect(next.every(({ clipped }) => clipped)).toBe(true),
  rollback: (found) => {
    const { effect, states } = found;
    // the adapter of the iteration before, by content, and with the rate that was decided
    expect(effect.measured.restored).toBe(
      states.filter(({ iteration }) => iteration === effect.iteration - 1).at(-1)!.digest,
    );
    expect(states.filter(({ iteration }) => iteration === effect.iteration).at(-1)!.digest).toBe(
      effect.measured.restored,
    );
    expect(rateOf(found)).toBeCloseTo(0.001, 8);
  },
  skip_step: ({ effect }) => expect(effect.measured.skipped).toBeGreaterThan(0),
  'rollback of what is not finite': ({ effect, states }) => {
    const [untrained] = states;
    // no iteration before was sound either
    expect(effect.measured.restored).toBe(untrained!.digest);
  },
};

/** Kills itself after the remedy's effects are logged, or after the iteration's checkpoint. */
function killed(
  out: string,
  name: string,
  place: 'effects' | 'checkpoint',
): Promise<NodeJS.Signals | null> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [PROGRAM, folder, out, name, place], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env },
    });
    child.on('close', (_, signal) => resolve(signal));
  });
}

/** Interrupted after the iteration's checkpoint, in this process. */
async function interrupted(out: string, remedy: RemedyRun): Promise<void> {
  const interruption = new AbortController();
  const onIteration = ({ iteration }: { iteration: number }): void =>
    void (iteration === remedy.at && interruption.abort());
  await expect(
    remedyRun(folder, out, remedy, { signal: interruption.signal, onIteration }),
  ).rejects.toMatchObject({ code: 'ABORTED' });
}

/**
 * Killed before its checkpoint the remedy is decided again. The short form kills two whose state is
 * not the present one.
 */
const isKilled = (name: string): boolean =>
  process.env.ISOPRO_FULL === '1' || name === 'rollback' || name === 'raise_rank';

describe('a remedy in a real run', () => {
  test('there is a run for each operation', () => {
    const operations = Object.keys(REMEDY_RUNS).map((name) => name.split(' ')[0]);
    expect(new Set(operations)).toEqual(new Set(Object.keys(OPERATIONS)));
    expect(Object.keys(CONSEQUENCES)).toEqual(expect.arrayContaining(Object.keys(REMEDY_RUNS)));
  });

  /**
   * The short form: of each kind of what is changed (a setting, a state gone back to, the adapter's
   * form, its rows, a step) one.
   */
  const SHORT = [
    'set_lr down',
    'set_batch',
    'stop',
    'raise_rank',
    'add_target',
    'rescale',
    'rollback',
    'skip_step',
  ];
  const tried = Object.entries(REMEDY_RUNS).filter(
    ([name]) => process.env.ISOPRO_FULL === '1' || SHORT.includes(name),
  );
  test.each(tried)(
    '%s: does what its effect says, and a run that ends right after it and goes on comes to the same adapter',
    async (name, remedy: RemedyRun) => {
      const out = name.replaceAll(' ', '-');
      const whole = await remedyRun(folder, out, remedy);
      const records = recordsOf(out);
      const effect = payloads<Effect>(records, 'effect')
        .filter(({ rule, iteration }) => rule === remedy.rule && iteration === remedy.at)
        .at(-1)!;
      expect(effect).toMatchObject({ executed: true });
      const steps = payloads<
        StepStatistics & { iteration: number; modules: Record<string, unknown> }
      >(records, 'step');
      CONSEQUENCES[name]!({
        effect,
        next: steps.filter(({ iteration }) => iteration === remedy.at + 1),
        states: payloads(records, 'adapter_state'),
        result: whole,
      });
      // what the judge recomputes: rules, the decision's obligations, the adapter's structure
      const { audit } = await judgeLog(path.join(folder, out), { home: process.env.ISOPRO_HOME! });
      expect(audit.violations.filter(({ kind }) => kind === 'not_executed')).toEqual([]);
      expect(replayStructure(records, LORA.trainee)).toEqual(
        payloads<Consequence['states'][number]>(records, 'submission').at(-1)!.targets,
      );

      const ended = `${out}-ended`;
      if (isKilled(name))
        for (const place of ['effects', 'checkpoint'] as const)
          expect(await killed(ended, name, place)).toBe('SIGKILL');
      else await interrupted(ended, remedy);
      const resumed = await remedyRun(folder, ended, remedy);
      expect(resumed.adapter.sha256).toBe(whole.adapter.sha256);
      expect(resumed.adapter.iteration).toBe(whole.adapter.iteration);
    },
    300_000,
  );

  test('set_batch doubles what a step is made of, and rules or a policy of another name are another run', async () => {
    const tokens = (out: string, iteration: number): number[] =>
      payloads<StepStatistics & { iteration: number }>(recordsOf(out), 'step')
        .filter((step) => step.iteration === iteration)
        .map((step) => step.tokens);
    expect(Math.max(...tokens('set_batch', 3))).toBeGreaterThan(
      Math.max(...tokens('set_batch', 2)),
    );
    const refused = expect.objectContaining({ code: 'RUN_DIFFERS' }) as never;
    await expect(
      remedyRun(folder, 'set_batch', REMEDY_RUNS.set_batch!, { rules: { persistence: 2 } }),
    ).rejects.toThrow(refused);
    const policy = { name: 'another', decide: () => Promise.reject(new Error('never asked')) };
    await expect(
      remedyRun(folder, 'set_batch', REMEDY_RUNS.set_batch!, { policy }),
    ).rejects.toThrow(refused);
    await expect(
      remedyRun(folder, 'never', REMEDY_RUNS.set_batch!, { rules: { persistence: 0 } }),
    ).rejects.toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never);
  });
});

describe('where no step is finite', () => {
  const broken = (
    out: string,
    policy: 'scripted' | 'observe',
    iterations: number,
  ): Promise<RunResult> =>
    run(
      {
        ...SETTINGS,
        model: { ...SETTINGS.model, name: path.join(folder, 'fragile.gguf') },
        task: path.join(folder, 'letters.mjs'),
        iterations,
        sampling: { ...SETTINGS.sampling, rollouts: 16 },
        monitor: { policy, patience: 9 },
      },
      { out: path.join(folder, out) },
    );
  const failure = (text: RegExp): never =>
    expect.objectContaining({
      code: 'NUMERIC_FAILURE',
      message: expect.stringMatching(text) as never,
    }) as never;

  test('an iteration without a remedy is an error', async () => {
    await expect(broken('observed', 'observe', 2)).rejects.toThrow(
      failure(/none of the \d+ steps of iteration 1 was finite \(blk\.2\..*no remedy/),
    );
  });

  test('with its remedy the run goes on, and what it did not cure is an error', async () => {
    await expect(broken('uncured', 'scripted', 3)).rejects.toThrow(
      failure(/steps of iteration 2 was finite/),
    );
    const effects = payloads<Effect>(recordsOf('uncured'), 'effect');
    expect(
      effects.map(({ iteration, rule, executed, operation }) => [
        iteration,
        rule,
        executed,
        operation.op,
      ]),
    ).toEqual([[1, 'R7', true, 'rollback']]);
  });

  test('nothing that was never trained is submitted; the same command says so again', async () => {
    for (let again = 0; again < 2; again++)
      await expect(broken('untrained', 'scripted', 1)).rejects.toThrow(
        failure(/training steps had a finite loss and gradient/),
      );
  });
});
