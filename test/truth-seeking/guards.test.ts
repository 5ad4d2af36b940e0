/**
 * Guards of beliefs for a gate on record: opened, measured of both versions, judged, decided; each
 * lie about them is found.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { canonicalJson } from '../../src/canonical-json.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { publishFile } from '../../src/operations/publish.js';
import { decideGate, Registry, validateRegistry } from '../../src/registry/index.js';
import { readTruthRun } from '../../src/truth-seeking/run/folder.js';
import { CommandLines } from '../cli/run-cli.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-guards-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const at = (...names: string[]): string => path.join(root, ...names);
const lines = new CommandLines({ ISOPRO_HOME: at('home'), NO_COLOR: '1' });
afterAll(() => lines.end());

const guard = (name: string, margin: number, ceiling: number) => ({
  kind: 'non-inferiority',
  name,
  margin,
  ceiling,
  most: 100,
});
const GUARDS = [
  guard('slope', 0.2, 1),
  guard('opinion-shift', 0.1, 1),
  guard('quality-change', 0.1, 2),
];
const policy = (name: string, guards: readonly object[]): string => {
  writeFileSync(
    at(name),
    JSON.stringify({ kind: 'e-process', measure: 'score', most: 100, guards }),
  );
  return at(name);
};

test('a gate on beliefs, from its opening to its decision, by commands', async () => {
  writeSyntheticModel(at('model.gguf'), { architecture: 'qwen2', seed: 5n, layers: 1 });
  await using trainer = await createTrainer(
    { path: at('model.gguf') },
    { lora: { rank: 2 }, threads: 1 },
  );
  await trainer.exportAdapter(at('nothing.gguf'));
  const registry = new Registry({ home: at('home'), witness: false });
  const { id, record } = await publishFile(registry, at('nothing.gguf'), {
    model: at('model.gguf'),
  });

  const opened = async (file: string): Promise<{ gate: number; seed: string }> => {
    const { code, stdout } = await lines.run([
      'adapters',
      'promote',
      id,
      '--as',
      'urns',
      '--open',
      '--policy',
      file,
      '--json',
    ]);
    expect(code).toBe(0);
    return JSON.parse(stdout) as { gate: number; seed: string };
  };
  const guards = (gate: number, out: string, ...more: string[]) => {
    const how = [
      '--problems',
      '20',
      '--mode',
      'direct',
      '--max-tokens',
      '4',
      '--threads',
      '1',
      '--signer',
      'single-process',
    ];
    return lines.run([
      'truth',
      'guards',
      '--gate',
      `${gate}`,
      '--model',
      at('model.gguf'),
      ...how,
      '--out',
      at(out),
      ...more,
    ]);
  };
  // a cost without its ceiling would be read as a score, of which more is better
  const { gate: wrong } = await opened(
    policy('wrong.json', [{ ...guard('slope', 0.2, 1), ceiling: 2 }]),
  );
  expect((await guards(wrong, 'wrong')).stderr).toMatch(
    /INVALID_ARGUMENT[^]*slope: it is a cost, so its ceiling must be 1/,
  );
  const { gate, seed } = await opened(policy('policy.json', GUARDS));
  expect((await guards(9, 'none')).stderr).toContain('REGISTRY_REFUSED');

  const measured = await guards(gate, 'guards', '--json');
  expect([measured.code, measured.stderr]).toEqual([0, expect.any(String)]);
  const { counts, errors } = JSON.parse(measured.stdout) as {
    counts: Record<string, number>;
    errors: number;
  };
  expect(counts).toEqual({ score: 40, slope: 2, 'opinion-shift': 40, 'quality-change': 40 });
  // of an adapter that changes nothing every cost is the base's
  const evidence = at('guards', 'evidence.json');
  type Trial = { version: string; problem: string; score?: number; error?: string };
  const {
    seed: of,
    trials,
    guards: all,
  } = JSON.parse(readFileSync(evidence, 'utf8')) as {
    seed: string;
    trials: Trial[];
    guards: Record<string, Trial[]>;
  };
  expect(of).toBe(seed);
  for (const each of [trials, ...Object.values(all)]) {
    const by = (version: string) =>
      each.filter((trial) => trial.version === version).map(({ version: _, ...trial }) => trial);
    expect(by(id)).toEqual(by('base'));
  }
  // no question of the part that is trained on, and the seed is the gate's
  const { start, state } = readTruthRun(at('guards', 'challenger'));
  expect(start.config).toMatchObject({ split: 'test', domain: ['urns'] });
  expect((start.policy.identity as { adapter: string }).adapter).toBe(record.adapter.sha256);
  const { gate: second } = await opened(policy('again.json', []));
  expect((await guards(second, 'second')).code).toBe(0);
  expect([...readTruthRun(at('second', 'challenger')).state.problems.keys()]).not.toEqual([
    ...state.problems.keys(),
  ]);

  const judged = async (folder: string, ...more: string[]): Promise<unknown[]> => {
    const { code, stdout } = await lines.run(['judge', at(folder), ...more, '--json']);
    const { verdict, failure } = JSON.parse(stdout) as { verdict: string; failure: string | null };
    return [code, verdict, failure];
  };
  expect(await judged('guards')).toEqual([0, 'pass', null]);
  expect((await lines.run(['judge', at('guards')])).stdout).toContain(
    `PASS: every trial for gate ${gate} was confirmed`,
  );
  const lie = (name: string, file: string, change: (text: string) => string): string => {
    cpSync(at('guards'), at(name), { recursive: true });
    const target = at(name, file);
    writeFileSync(target, change(readFileSync(target, 'utf8')));
    return name;
  };
  const better = lie('better', 'evidence.json', (text) =>
    text.replace(/"score":0\.\d+/, '"score":0.99'),
  );
  expect(await judged(better)).toEqual([
    4,
    'hard_fail',
    expect.stringContaining('does not match the two runs'),
  ]);
  const drawn = lie('drawn', 'gate.json', (text) =>
    text.replace(
      seed,
      seed.replace(/^./, (digit) => (digit === '0' ? '1' : '0')),
    ),
  );
  expect(await judged(drawn)).toEqual([
    4,
    'hard_fail',
    expect.stringContaining('not drawn with the seed'),
  ]);
  const other = lie('other', 'gate.json', (text) =>
    text.replaceAll(record.adapter.sha256, '0'.repeat(64)),
  );
  expect(await judged(other)).toEqual([
    4,
    'hard_fail',
    expect.stringContaining('did not use the adapter of the gate'),
  ]);
  // the weaker form of the guard, with the evidence that it would give
  const weaker = (name: string, change: (text: string) => string): string => {
    lie(name, 'gate.json', change);
    const target = at(name, 'evidence.json');
    const held = JSON.parse(readFileSync(target, 'utf8')) as {
      guards: { slope: { score?: number; signed?: true }[] };
    };
    for (const trial of held.guards.slope) {
      delete trial.signed;
      if (trial.score !== undefined) trial.score = Math.abs(trial.score);
    }
    writeFileSync(target, `${canonicalJson(held as never)}\n`);
    return name;
  };
  const absolute = weaker('absolute', (text) =>
    text.replace('"slopes": "signed"', '"slopes": "absolute"'),
  );
  expect(await judged(absolute)).toEqual([
    4,
    'hard_fail',
    expect.stringContaining('not drawn with the seed'),
  ]);
  const silent = weaker('silent', (text) => text.replace(/,\s*"slopes": "signed"/, ''));
  expect(await judged(silent)).toEqual([
    4,
    'hard_fail',
    expect.stringContaining('not drawn with the seed'),
  ]);
  const loose = lie('loose', 'gate.json', (text) => text.replace('"slope",', ''));
  expect((await judged(loose))[1]).toBe('hard_fail');
  expect(await judged('guards', '--registry', at('nowhere'))).toEqual([
    5,
    'not_verified',
    expect.stringContaining('no registry here'),
  ]);

  // a question that another gate has asked is passed over, and none besides: the judge holds the
  // folder against the registry
  const asked = [...readTruthRun(at('second', 'challenger')).state.problems.values()].flatMap(
    ({ problem, framed }) => (framed === undefined ? [problem.id] : []),
  );
  const { seed: elsewhere } = (await registry.read()).state.gates[wrong - 1]!;
  await decideGate(registry, wrong, {
    seed: elsewhere!,
    trials: [
      { version: id, task: 'urns', epoch: '1', verifier: 'v', problem: asked[3]!, score: 1 },
    ],
    guards: {
      slope: [
        {
          version: id,
          task: 'urns',
          epoch: '1',
          verifier: 'v',
          problem: `block 1 of ${asked[7]!.slice(0, 16)}`,
          score: 1,
        },
      ],
    },
  });
  expect((await guards(second, 'fresh')).code).toBe(0);
  const fresh = [...readTruthRun(at('fresh', 'challenger')).state.problems.keys()];
  expect(fresh.slice(0, 18)).toEqual(asked.filter((_, i) => i !== 3 && i !== 7));
  expect(fresh).toHaveLength(20);
  expect(fresh.slice(18).some((each) => asked.includes(each))).toBe(false);
  expect(await judged('fresh')).toEqual([0, 'pass', null]);
  // what nobody had asked when the gate was opened
  expect(await judged('second')).toEqual([0, 'pass', null]);
  mkdirSync(at('choosy'));
  const given = JSON.parse(readFileSync(at('fresh', 'gate.json'), 'utf8')) as { without: string[] };
  expect(given.without).toEqual([asked[3], asked[7]].sort());
  writeFileSync(at('choosy', 'gate.json'), JSON.stringify({ ...given, without: [asked[5]] }));
  expect((await guards(second, 'choosy')).code).toBe(0);
  expect(await judged('choosy')).toEqual([
    4,
    'hard_fail',
    expect.stringContaining('skips questions that no other gate asked'),
  ]);

  // the same command again makes nothing anew
  const records = readFileSync(at('guards', 'challenger', 'log.sqlite'));
  expect(JSON.parse((await guards(gate, 'guards', '--json')).stdout)).toEqual(
    JSON.parse(measured.stdout),
  );
  expect(readFileSync(at('guards', 'challenger', 'log.sqlite')).equals(records)).toBe(true);
  expect((await guards(second, 'guards')).stderr).toContain('RUN_DIFFERS');

  const decide = [
    'adapters',
    'promote',
    id,
    '--as',
    'urns',
    '--gate',
    `${gate}`,
    '--evidence',
    evidence,
    '--json',
  ];
  const { code, stdout } = await lines.run(decide);
  const { decision } = JSON.parse(stdout) as {
    decision: { decision: string; blocks: number; guards: { name: string; state: string }[] };
  };
  // what changes nothing is not better; nothing that is wrong with the evidence
  expect(code).toBe(3);
  expect([
    'needs-more-trials',
    'inconclusive',
    ...(errors > 0 ? ['infrastructure-error'] : []),
  ]).toContain(decision.decision);
  if (errors === 0)
    expect([decision.blocks, decision.guards.map(({ name }) => name)]).toEqual([
      20,
      GUARDS.map(({ name }) => name),
    ]);
  expect((await validateRegistry(registry)).defects).toEqual([]);
}, 300_000);
