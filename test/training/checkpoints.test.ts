/**
 * Checkpoints of a run: which is taken, which is refused and why, which are kept, and what an
 * interrupted writing leaves.
 */
import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeEach, expect, test } from '@jest/globals';
import { canonicalJson, type Json } from '../../src/canonical-json.js';
import { DURABLE_CHANNEL } from '../../src/durable.js';
import { runPaths, type RunPaths } from '../../src/run-folder/paths.js';
import {
  cleanCheckpoints,
  hasCheckpoints,
  readCheckpoint,
  sealCheckpoint,
  writeCheckpoint,
  type Checkpoint,
  type CheckpointState,
} from '../../src/training/checkpoints.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-checkpoints-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let paths: RunPaths;
let at: string;
let runs = 0;
beforeEach(() => {
  paths = runPaths(path.join(folder, String(++runs)));
  at = paths.checkpoints;
});

const sha256 = (data: string | Uint8Array): string =>
  createHash('sha256').update(data).digest('hex');
const spent = {
  seconds: 1.5,
  peakRssBytes: 2,
  promptTokens: 3,
  sampledTokens: 4,
  trainedTokens: 5,
};
const stateOf = (
  iteration: number,
  stage: CheckpointState['stage'] = 'iteration',
): CheckpointState => ({
  version: 2,
  stage,
  iteration,
  logSize: 10 * iteration + { prepared: 1, iteration: 2, submitted: 3 }[stage],
  layers: [1, 2],
  learningRate: 1e-3,
  maxNorm: 0.5,
  epsilon: 1e-8,
  batchSize: 8,
  best: { adapterId: 'ab'.repeat(32), iteration: 0 },
  sound: { adapterId: 'cd'.repeat(32), iteration: 1 },
  adapterId: null,
  adapterIteration: 0,
  stop: 'a reason',
  settled: true,
  spent,
});
const checkpointOf = (state: CheckpointState): Checkpoint => ({
  state,
  trainer: Buffer.from(`trainer ${state.iteration}`),
  best: Buffer.from('best'),
  sound: Buffer.from('sound'),
});
const named = (...states: CheckpointState[]): Map<number, string> =>
  new Map(states.map((state) => [state.logSize, sealCheckpoint(checkpointOf(state)).digest]));
async function write(...states: CheckpointState[]): Promise<void> {
  for (const state of states) await writeCheckpoint(at, sealCheckpoint(checkpointOf(state)));
}
const text = (bytes: Uint8Array | null): string | null =>
  bytes === null ? null : Buffer.from(bytes).toString();

test('is read as it was written, and its digest is of its state and of the bytes of each of its files', async () => {
  const state = stateOf(1);
  await write(state);
  const { checkpoint, refused } = await readCheckpoint(paths, named(state));
  expect(checkpoint!.state).toEqual(state);
  expect([checkpoint!.trainer, checkpoint!.best, checkpoint!.sound].map(text)).toEqual([
    'trainer 1',
    'best',
    'sound',
  ]);
  expect(refused).toEqual([]);
  const files = { trainer: sha256('trainer 1'), best: sha256('best'), sound: sha256('sound') };
  expect(named(state).get(12)).toBe(sha256(canonicalJson({ state, files } as unknown as Json)));

  const bare: Checkpoint = {
    state: stateOf(2, 'prepared'),
    trainer: null,
    best: null,
    sound: null,
  };
  const sealed = sealCheckpoint(bare);
  expect(sealed.digest).toBe(
    sha256(canonicalJson({ state: bare.state, files: {} } as unknown as Json)),
  );
  await writeCheckpoint(at, sealed);
  expect((await readCheckpoint(paths, new Map([[21, sealed.digest]]))).checkpoint).toEqual(bare);
  expect(readdirSync(path.join(at, '0002-prepared'))).toEqual(['state.json']);
});

test('the newest is the last in the order of iterations and, within one, of the stages', async () => {
  const states = [
    stateOf(9, 'prepared'),
    stateOf(9),
    stateOf(9, 'submitted'),
    stateOf(10, 'prepared'),
    stateOf(12345),
  ];
  const newest: string[] = [];
  for (const state of states) {
    await write(state);
    const { iteration, stage } = (await readCheckpoint(paths, named(...states))).checkpoint!.state;
    newest.push(`${iteration} ${stage}`);
  }
  // what is submitted needs the file of its adapter
  expect(newest).toEqual([
    '9 prepared',
    '9 iteration',
    '9 iteration',
    '10 prepared',
    '12345 iteration',
  ]);
  expect(readdirSync(at)).toEqual(['0010-prepared', '12345-iteration']);
});

test('one that is written again stands for the first; what is not whole counts as none, and is cleaned away alone', async () => {
  expect([await hasCheckpoints(at), (await readCheckpoint(paths, new Map())).checkpoint]).toEqual([
    false,
    null,
  ]);
  await cleanCheckpoints(at);
  mkdirSync(path.join(at, '.partial-0001-iteration'), { recursive: true });
  writeFileSync(path.join(at, '.partial-0001-iteration', 'left'), '');
  expect(await hasCheckpoints(at)).toBe(false);
  for (const name of ['1-iteration-old', 'x1-iteration', '0001-begun'])
    mkdirSync(path.join(at, name));
  await cleanCheckpoints(at);
  expect(readdirSync(at)).toEqual(['0001-begun', '1-iteration-old', 'x1-iteration']);
  expect(await hasCheckpoints(at)).toBe(false);
  mkdirSync(path.join(at, '.partial-0001-iteration'));
  writeFileSync(path.join(at, '.partial-0001-iteration', 'left'), '');
  await write(stateOf(1));
  expect(await hasCheckpoints(at)).toBe(true);
  const again = { ...checkpointOf(stateOf(1)), best: null };
  const sealed = sealCheckpoint(again);
  await writeCheckpoint(at, sealed);
  expect(readdirSync(path.join(at, '0001-iteration'))).toEqual(['sound', 'state.json', 'trainer']);
  expect((await readCheckpoint(paths, new Map([[12, sealed.digest]]))).checkpoint).toEqual(again);
});

test('stands under its name only once it is whole', async () => {
  const seen: [unknown, string[]][] = [];
  const note = (state: unknown): void => void seen.push([state, readdirSync(at)]);
  subscribe(DURABLE_CHANNEL, note);
  await write(stateOf(1), stateOf(2), stateOf(3)).finally(() => unsubscribe(DURABLE_CHANNEL, note));
  expect(seen.filter(([state]) => String(state).startsWith('checkpoint.')).slice(-2)).toEqual([
    ['checkpoint.partial', ['.partial-0003-iteration', '0001-iteration', '0002-iteration']],
    ['checkpoint.complete', ['0001-iteration', '0002-iteration', '0003-iteration']],
  ]);
  expect(readdirSync(at)).toEqual(['0002-iteration', '0003-iteration']);
});

/** Writes the state of checkpoint 2 anew, under a digest that the log names. */
function rewritten(change: (state: Record<string, unknown>) => object): Map<number, string> {
  const file = path.join(at, '0002-iteration', 'state.json');
  const content = JSON.parse(readFileSync(file, 'utf8')) as { state: Record<string, unknown> };
  const changed = { ...content, state: change(content.state) };
  writeFileSync(file, JSON.stringify(changed));
  const names = named(stateOf(1), stateOf(2));
  return names.set(
    Number((changed.state as CheckpointState).logSize),
    sha256(canonicalJson(changed as unknown as Json)),
  );
}

const DAMAGED = 'it is damaged';
const OTHER = 'it is not the one that the log names';
test.each<[what: string, change: (names: Map<number, string>) => unknown, reason: string]>([
  ['no record', (names) => void names.delete(22), OTHER],
  ['a record at another place', (names) => void names.set(23, names.get(22)!).delete(22), OTHER],
  ['another digest', (names) => void names.set(22, names.get(12)!), OTHER],
  [
    'other weights',
    () => writeFileSync(path.join(at, '0002-iteration', 'trainer'), 'trainer 3'),
    'its file trainer is not the one that the log names',
  ],
  [
    'another best',
    () => writeFileSync(path.join(at, '0002-iteration', 'best'), 'bes'),
    'its file best is not the one that the log names',
  ],
  [
    'another sound one',
    () => writeFileSync(path.join(at, '0002-iteration', 'sound'), ''),
    'its file sound is not the one that the log names',
  ],
  ['no weights', () => rmSync(path.join(at, '0002-iteration', 'trainer')), DAMAGED],
  ['no JSON', () => writeFileSync(path.join(at, '0002-iteration', 'state.json'), '{'), DAMAGED],
  ['a member too many', () => rewritten((state) => ({ ...state, other: 1 })), DAMAGED],
  ['another version', () => rewritten((state) => ({ ...state, version: 1 })), DAMAGED],
  [
    'an iteration before the first',
    () => rewritten((state) => ({ ...state, iteration: -1 })),
    DAMAGED,
  ],
  ['an empty log', () => rewritten((state) => ({ ...state, logSize: 0 })), DAMAGED],
  ['a digest that is none', () => rewritten((state) => ({ ...state, adapterId: 'ab' })), DAMAGED],
])('with %s is refused with its reason, and the one before it taken', async (_, change, reason) => {
  await write(stateOf(1), stateOf(2));
  const names = named(stateOf(1), stateOf(2));
  const changed = change(names);
  const { checkpoint, refused } = await readCheckpoint(
    paths,
    changed instanceof Map ? changed : names,
  );
  expect(refused).toEqual([{ name: '0002-iteration', reason }]);
  expect([checkpoint!.state, text(checkpoint!.trainer)]).toEqual([stateOf(1), 'trainer 1']);
});

test('the least values that a state may have are none of them damage', async () => {
  await write(stateOf(1), stateOf(2));
  const least = {
    iteration: 0,
    logSize: 1,
    layers: null,
    sound: null,
    stop: null,
    adapterId: null,
  };
  const { checkpoint, refused } = await readCheckpoint(
    paths,
    rewritten((state) => ({ ...state, ...least })),
  );
  expect([checkpoint!.state, refused]).toEqual([{ ...stateOf(2), ...least }, []]);
});

test('with a submission is taken where the adapter is there as it was submitted', async () => {
  const adapterId = sha256('adapter');
  const [before, state, without] = [
    stateOf(1),
    { ...stateOf(1, 'submitted'), adapterId },
    stateOf(1, 'submitted'),
  ];
  const taken = async (of: CheckpointState): Promise<unknown> => {
    const { checkpoint, refused } = await readCheckpoint(paths, named(before, of));
    return [checkpoint!.state.stage, refused];
  };
  const refused = [
    'iteration',
    [{ name: '0001-submitted', reason: 'the adapter that it submitted is missing or changed' }],
  ];
  await write(before, without);
  expect(await taken(without)).toEqual(refused);
  await write(state);
  expect(await taken(state)).toEqual(refused);
  mkdirSync(paths.adapters);
  writeFileSync(paths.adapter(adapterId), 'other');
  expect(await taken(state)).toEqual(refused);
  writeFileSync(paths.adapter(adapterId), 'adapter');
  expect(await taken(state)).toEqual(['submitted', []]);
});

test('the newest two up to the one that is written are kept; newer ones, which were refused, stay', async () => {
  await write(stateOf(1), stateOf(2), stateOf(3), stateOf(4));
  await write(stateOf(2));
  expect(readdirSync(at)).toEqual(['0002-iteration', '0003-iteration', '0004-iteration']);
  await write(stateOf(3));
  expect(readdirSync(at)).toEqual(['0002-iteration', '0003-iteration', '0004-iteration']);
  await write(stateOf(4));
  expect(readdirSync(at)).toEqual(['0003-iteration', '0004-iteration']);
});

test('that cannot be written is an error with its place, and leaves the older ones', async () => {
  await write(stateOf(1));
  // a file where the folder of what is under way would be made again
  const inTheWay = runPaths(path.join(at, '0001-iteration', 'state.json')).checkpoints;
  await expect(
    writeCheckpoint(inTheWay, sealCheckpoint(checkpointOf(stateOf(2)))),
  ).rejects.toMatchObject({
    code: 'WRITE_FAILED',
    message: expect.stringMatching(
      /^the checkpoint .*0002-iteration could not be written: .*(ENOTDIR|EEXIST|ENOENT)/,
    ),
  });
  expect(existsSync(path.join(at, '0001-iteration', 'trainer'))).toBe(true);
});
