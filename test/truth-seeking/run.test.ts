/** Runs on scripted policies: begun, killed, gone on with, measured again, judged. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { DURABLE_CHANNEL } from '../../src/durable.js';
import { encodePayload } from '../../src/log/payload.js';
import { LogReader } from '../../src/log/read.js';
import type { Reasoner } from '../../src/truth-seeking/reasoner.js';
import { binaryProblem } from '../../src/truth-seeking/problem.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import type { TruthConfigInput } from '../../src/truth-seeking/run/config.js';
import { readTruthRun, truthPaths } from '../../src/truth-seeking/run/folder.js';
import { judgeTruthRun } from '../../src/truth-seeking/run/judge.js';
import {
  TRUTH_STREAMS,
  type TruthRecord,
  type TruthStream,
} from '../../src/truth-seeking/run/records.js';
import {
  measureAgain,
  runTruth,
  type NamedReasoner,
  type RunTruthOptions,
} from '../../src/truth-seeking/run/evaluation-run.js';
import { TruthSession } from '../../src/truth-seeking/run/session.js';
import { digestOfRecord } from '../../src/truth-seeking/run/state.js';
import { verifyTruthRun } from '../../src/truth-seeking/run/verify.js';
import { LOCAL_WORLDS } from '../../src/truth-seeking/run/worlds.js';
import { trajectory } from '../../src/truth-seeking/trajectory.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (name: string): string => path.join(root, name);
const home = at('home');

const named = (policy: Reasoner, name: string): NamedReasoner => ({
  ...policy,
  identity: { kind: 'scripted', name },
});
/** Believes the more in the first option the more steps it has read. */
const script = (name: string, onReply?: () => void): NamedReasoner =>
  named(
    scriptedReasoner({
      name,
      reply: (messages, seed) => {
        onReply?.();
        return `${name} thinks of ${messages.at(-1)!.content.length}.\n\nThen of ${seed % 97n}.`;
      },
      answers: (text) => {
        const p = 0.3 + 0.1 * ((text.match(/\n\n/g)?.length ?? 0) % 5) + 0.05 * (text.length % 3);
        return { True: p, False: 1 - p, Yes: p, No: 1 - p, Disagree: 1 - p, Agree: p };
      },
    }),
    name,
  );

const CONFIG: TruthConfigInput = { problems: 20, seed: '7', signer: 'single-process' };
const options = (out: string, given: Partial<RunTruthOptions> = {}): RunTruthOptions => ({
  out: at(out),
  home,
  policies: { evaluated: script('one'), predictor: null },
  ...given,
});

const records = (folder: string, stream?: TruthStream): string[] => {
  const reader = new LogReader(truthPaths(folder).log, TRUTH_STREAMS);
  try {
    return [...reader.records(stream === undefined ? {} : { stream })].map(({ payload }) =>
      encodePayload(payload),
    );
  } finally {
    reader.close();
  }
};
const trajectories = (folder: string): string[] =>
  records(folder, 'trajectories').filter((text) => text.includes('"kind":"trajectory"'));

test('T26: ended after 7 of 20 trajectories, the same command makes 13 more and leaves the first 7 as they are', async () => {
  let replies = 0;
  const dying = script('one', () => {
    if (++replies === 8) throw new Error('killed');
  });
  await expect(
    runTruth(CONFIG, options('t26', { policies: { evaluated: dying, predictor: null } })),
  ).rejects.toThrow('killed');
  const first = trajectories(at('t26'));
  expect(first).toHaveLength(7);
  expect((await judgeTruthRun({ folder: at('t26'), home })).verdict).toBe('not_ended');
  expect((await verifyTruthRun(at('t26'), { home })).outcome).toBe('unterminated');

  let more = 0;
  const { state, runId } = await runTruth(
    CONFIG,
    options('t26', { policies: { evaluated: script('one', () => more++), predictor: null } }),
  );
  const all = trajectories(at('t26'));
  expect([more, all.length, all.slice(0, 7)]).toEqual([13, 20, first]);
  expect(state.results.map(({ strategy, n }) => [strategy.split(':')[0], n])).toEqual([
    ...Array.from({ length: 3 }, () => ['accuracy', 20]),
    ['martingale', 20],
  ]);
  expect(await judgeTruthRun({ folder: at('t26'), home })).toMatchObject({
    verdict: 'pass',
    runId,
    trajectories: 20,
    readouts: 20,
    results: 4,
  });

  // a run that has ended is only read: no reply, no record
  const before = records(at('t26'));
  await runTruth(
    CONFIG,
    options('t26', { policies: { evaluated: script('one', () => more++), predictor: null } }),
  );
  expect([more, records(at('t26'))]).toEqual([13, before]);

  // beliefs of another reader are a set of their own, each with its scores; the trajectories stay
  // what they are
  const digest = readTruthRun(at('t26')).state.complete!.trajectoriesSha256;
  const again = await measureAgain({
    folder: at('t26'),
    home,
    policies: { evaluated: script('one'), predictor: null },
    recompute: { beliefs: 'always' },
    beliefs: { beliefSystem: 'drop' },
  });
  expect([more, trajectories(at('t26'))]).toEqual([13, all]);
  const readOf = (kind: string): string[] =>
    records(at('t26'), 'beliefs').filter((text) => text.includes(`"kind":"${kind}"`));
  expect([readOf('beliefs').length, readOf('reader').length, again.state.readouts]).toEqual([
    40, 2, 40,
  ]);
  expect(
    again.state.results.map(({ reader }) => [
      reader!.source,
      reader!.beliefSystem,
      reader!.policy.identity,
    ]),
  ).toEqual(
    ['keep', 'drop'].flatMap((system) =>
      Array.from({ length: 4 }, () => ['logprob', system, { kind: 'scripted', name: 'one' }]),
    ),
  );
  const [keep, drop] = again.state.readers;
  const { id } = again.state.trajectories[0]!.trajectory;
  expect(again.state.beliefs(id, keep)!.readout.beliefSystem).toBe('keep');
  expect(again.state.beliefs(id, drop)!.readout.beliefSystem).toBe('drop');
  expect(again.state.beliefs(id)).toBe(again.state.beliefs(id, keep));
  expect(again.state.complete!.trajectoriesSha256).toBe(digest);
  expect((await judgeTruthRun({ folder: at('t26'), home })).verdict).toBe('pass');
});

test('T26: a run that is cut off in any gap between two durable states ends as one that never was', async () => {
  const config: TruthConfigInput = {
    ...CONFIG,
    problems: 1,
    eval: ['accuracy', 'world-in-the-loop'],
  };
  for (const folder of ['whole', 'home-cut']) mkdirSync(at(folder));
  let cuts = 0;
  const listener = (): void => {
    // what a killed process leaves: the folder, write-ahead log included, and what the signer keeps
    cpSync(at('whole'), at(`cut-${cuts}`), { recursive: true });
    cpSync(at('home-cut'), at(`home-cut-${cuts}`), { recursive: true });
    cuts++;
  };
  subscribe(DURABLE_CHANNEL, listener);
  try {
    await runTruth(config, options('whole', { home: at('home-cut') }));
  } finally {
    unsubscribe(DURABLE_CHANNEL, listener);
  }
  const figures = (folder: string): unknown => {
    const { state } = readTruthRun(folder);
    return [state.trajectories, state.results, state.complete];
  };
  const whole = figures(at('whole'));
  expect(cuts).toBeGreaterThan(12);
  for (let i = 0; i < cuts; i++) {
    await runTruth(config, options(`cut-${i}`, { home: at(`home-cut-${i}`) }));
    expect(figures(at(`cut-${i}`))).toEqual(whole);
    expect(
      await judgeTruthRun({ folder: at(`cut-${i}`), home: at(`home-cut-${i}`) }),
    ).toMatchObject({ verdict: 'pass' });
  }
});

test('T26: upliftblanket measures every uplift again and calls no investigator', async () => {
  const config: TruthConfigInput = { ...CONFIG, problems: 3, eval: ['world-in-the-loop'] };
  let looked = 0;
  const investigator = {
    ...LOCAL_WORLDS,
    investigate: (...given: Parameters<typeof LOCAL_WORLDS.investigate>) => {
      looked++;
      return LOCAL_WORLDS.investigate(...given);
    },
  };
  const of = (world: 'all' | 'investigation' | 'uplift' | 'upliftblanket') => ({
    investigator,
    recompute: { world },
  });
  const counts = (): number[] => {
    const all = records(at('world'), 'measurements');
    return [
      looked,
      ...['observations', 'forecasts'].map(
        (kind) => all.filter((text) => text.includes(`"kind":"${kind}"`)).length,
      ),
    ];
  };
  await runTruth(config, options('world', of('uplift'))); // nothing was observed yet
  expect(counts()).toEqual([0, 0, 0]);
  await runTruth(config, options('world', of('investigation')));
  expect(counts()).toEqual([3, 3, 0]);
  await runTruth(config, options('world', of('uplift')));
  expect(counts()).toEqual([3, 3, 3]);
  await runTruth(config, options('world', of('upliftblanket')));
  expect(counts()).toEqual([3, 3, 6]);
  await runTruth(config, options('world', of('all'))); // nothing is missing
  expect(counts()).toEqual([3, 3, 6]);
});

test('the judge finds what was changed: a score, a belief, a prompt, the manifest, and what nobody vouched for', async () => {
  const config: TruthConfigInput = { ...CONFIG, problems: 2 };
  await runTruth(config, options('sound'));
  const judged = async (name: string): Promise<unknown> => {
    const { verdict, failure } = await judgeTruthRun({ folder: at(name), home });
    return [verdict, failure];
  };
  expect(await judged('sound')).toEqual(['pass', null]);
  expect(await verifyTruthRun(at('sound'), { home })).toMatchObject({
    outcome: 'open',
    disagreement: null,
  });

  cpSync(at('sound'), at('changed'), { recursive: true });
  const db = new Database(truthPaths(at('changed')).log);
  const trigger = db
    .prepare("SELECT sql FROM sqlite_schema WHERE name = 'log_update'")
    .pluck()
    .get() as string;
  db.exec(
    `DROP TRIGGER log_update; UPDATE log SET payload = replace(payload, '"n":2', '"n":3') WHERE stream = 4; ${trigger}`,
  );
  db.close();
  expect(await judged('changed')).toEqual(['hard_fail', expect.stringContaining('tampered')]);

  cpSync(at('sound'), at('other'), { recursive: true });
  const file = truthPaths(at('other')).manifest;
  writeFileSync(file, readFileSync(file, 'utf8').replace('"seed": "7"', '"seed": "8"'));
  expect(await judged('other')).toEqual(['hard_fail', expect.stringContaining('config.seed')]);
  await expect(runTruth(config, options('other'))).rejects.toMatchObject({ code: 'RUN_DIFFERS' });

  // a runner who has the key signs what did not happen
  const { state } = readTruthRun(at('sound'));
  const [result, made] = [state.results[0]!, state.trajectories[0]!];
  const beliefs = state.beliefs(made.trajectory.id)!;
  const [reading, ...readings] = beliefs.readout.readings;
  const lies: Record<string, [TruthRecord, string]> = {
    score: [
      { ...result, value: 0.01, replaces: digestOfRecord(result) },
      'does not match its records',
    ],
    belief: [
      {
        ...beliefs,
        readout: {
          ...beliefs.readout,
          readings: [{ ...reading!, belief: { p0: 0.9, source: 'logprob' } } as never, ...readings],
        },
        replaces: digestOfRecord(beliefs),
      },
      'is not the mean of its measurements',
    ],
    seed: [
      { ...made, trajectory: trajectory({ ...made.trajectory, seed: '1' }) as never },
      'differs from its configuration in id, seed',
    ],
    words: [
      { ...made, trajectory: { ...made.trajectory, steps: [] } },
      'differs from its configuration in id',
    ],
    problem: [
      {
        kind: 'problem',
        domain: 'urns',
        problem: binaryProblem({ question: 'Q?', options: ['a', 'b'], correctOption: 0 }),
      },
      'not one that the configuration asks',
    ],
    count: [{ ...state.complete!, readouts: 9 }, 'record counts are wrong'],
    place: [{ ...beliefs, replaces: null }, 'names the wrong record'],
  };
  for (const [name, [lie, why]] of Object.entries(lies)) {
    cpSync(at('sound'), at(`lie-${name}`), { recursive: true });
    cpSync(home, at(`home-${name}`), { recursive: true });
    const session = await TruthSession.open(null, at(`lie-${name}`), { home: at(`home-${name}`) });
    await session.write(lie);
    expect((await verifyTruthRun(at(`lie-${name}`), { home: at(`home-${name}`) })).outcome).toBe(
      'unterminated',
    );
    expect(
      (await judgeTruthRun({ folder: at(`lie-${name}`), home: at(`home-${name}`) })).verdict,
    ).toBe('not_ended');
    await session.sign();
    await session[Symbol.asyncDispose]();
    const { verdict, failure } = await judgeTruthRun({
      folder: at(`lie-${name}`),
      home: at(`home-${name}`),
    });
    expect([name, verdict, failure]).toEqual([name, 'hard_fail', expect.stringContaining(why)]);
  }
});

test('the judge misses what was asked for and is not there, and looks at worlds again', async () => {
  const config: TruthConfigInput = { ...CONFIG, problems: 2, eval: ['world-in-the-loop'] };
  const folder = at('left-out');
  await runTruth(config, options('left-out', { recompute: { trajectories: 'never' } }));
  const missing = await judgeTruthRun({ folder, home });
  expect([missing.verdict, missing.failure]).toEqual([
    'not_ended',
    expect.stringMatching(/^3 trajectories or scores/),
  ]);
  await runTruth(config, options('left-out'));
  expect(await judgeTruthRun({ folder, home })).toMatchObject({ verdict: 'pass', trajectories: 2 });

  const { state } = readTruthRun(folder);
  const seen = state.observations(state.trajectories[0]!.trajectory.id)!;
  const session = await TruthSession.open(null, folder, { home });
  const observations = seen.observations.map((each) => ({ ...each, outcome: 'otherwise' }));
  await session.write({ ...seen, observations, replaces: digestOfRecord(seen) });
  await session.sign();
  await session[Symbol.asyncDispose]();
  const { verdict, failure } = await judgeTruthRun({ folder, home });
  expect([verdict, failure]).toEqual([
    'hard_fail',
    expect.stringContaining('differ from what happened in the local world'),
  ]);
});

test('trials are of who said the answers, whoever measures them', async () => {
  await runTruth({ ...CONFIG, problems: 3 }, options('measured'));
  const { state } = await measureAgain({
    folder: at('measured'),
    home,
    policies: { evaluated: script('other'), predictor: script('one') },
    recompute: { beliefs: 'never' },
    eval: ['mutual-predictability'],
  });
  const { value, skipped } = state.results.find(({ strategy }) => strategy.startsWith('mutual'))!;
  expect([value, skipped['the predictor is the predicted policy']]).toEqual([null, 9]);
  expect((await judgeTruthRun({ folder: at('measured'), home })).verdict).toBe('pass');
});

test('what a strategy cannot have is refused before anything is written, and what a trajectory has not is counted', async () => {
  const mute = named(scriptedReasoner({ name: 'mute', reply: () => 'No idea.' }), 'mute');
  const asMute = { policies: { evaluated: mute, predictor: null } };
  await expect(runTruth(CONFIG, options('mute', asMute))).rejects.toMatchObject({
    code: 'BACKEND_INCAPABLE',
  });
  // another policy reads its beliefs
  const { state } = await runTruth(
    { ...CONFIG, problems: 2 },
    options('mute', { policies: { evaluated: mute, predictor: script('judge') } }),
  );
  expect(state.results[0]!.n).toBe(2);
  expect(state.beliefs(state.trajectories[0]!.trajectory.id)!.readout.policyId).toBe(
    script('judge').id,
  );

  const open = await runTruth(
    { ...CONFIG, domain: ['conceptual', 'value-statements'], problems: 3 },
    options('open'),
  );
  const skipped = Object.fromEntries(
    open.state.results.map(({ setup, strategy, skipped: of }) => [
      `${setup.domain} ${strategy}`,
      { ...of },
    ]),
  );
  expect(skipped['conceptual martingale:change=difference,granularity=steps']).toEqual({
    'no two options': 3,
  });
  expect(skipped['value-statements accuracy:metric=brier,mode=eventual']).toEqual({
    'no answer known': 3,
  });
  expect(
    open.state.results
      .filter(({ setup }) => setup.domain === 'conceptual')
      .every(({ value }) => value === null),
  ).toBe(true);
});

test.each([
  [{ domain: [] }],
  [{ domain: ['urns', 'urns'] }],
  [{ domain: ['elsewhere'] }],
  [{ mode: ['debate'] }],
  [{ mode: ['bootstrap-interview:domains=nowhere'] }],
  [{ mode: ['bootstrap-interview:source=stationary-ood'] }],
  [{ eval: ['accuracy:mode=late'] }],
  [{ problems: 0 }],
  [{ seed: '-1' }],
  [{ seed: '18446744073709551616' }],
  [{ systemPrompt: ['Critical'] }],
  [{ unknown: 1 }],
] as [object][])('no configuration: %j', async (wrong) => {
  await expect(runTruth({ ...CONFIG, ...wrong } as never, options('never'))).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
});
