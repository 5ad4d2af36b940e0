/**
 * Runs on small models with random weights: every mode and strategy, the same again and with other
 * threads, and the command line.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { truthRun } from '../../src/operations/truth/truth-run.js';
import { truthTrain } from '../../src/operations/truth/train.js';
import type { WrittenDomain } from '../../src/truth-seeking/domains/domain.js';
import { DOMAINS } from '../../src/truth-seeking/domains/index.js';
import type { BinaryProblem } from '../../src/truth-seeking/problem.js';
import { openReasoners } from '../../src/truth-seeking/run/open-reasoners.js';
import { readTruthConfig, type TruthConfigInput } from '../../src/truth-seeking/run/config.js';
import { readTruthRun } from '../../src/truth-seeking/run/folder.js';
import { judgeTruthRun } from '../../src/truth-seeking/run/judge.js';
import { runTruth, type TruthResult } from '../../src/truth-seeking/run/evaluation-run.js';
import { selectTop } from '../../src/truth-seeking/training/selection.js';
import { LIBRARY, MAIN, runCli, runLines, type CliResult } from '../cli/run-cli.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-truth-local-'));
const at = (name: string): string => path.join(root, name);
const home = at('home');
beforeAll(() => {
  writeSyntheticModel(at('one.gguf'), { architecture: 'qwen2', seed: 5n, layers: 1 });
  writeSyntheticModel(at('other.gguf'), { architecture: 'qwen2', seed: 6n, layers: 1 });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function ran(out: string, given: TruthConfigInput): Promise<TruthResult> {
  const config = {
    model: at('one.gguf'),
    threads: 1,
    maxTokens: 6,
    signer: 'single-process',
    ...given,
  } as const;
  await using policies = await openReasoners(readTruthConfig(config));
  return await runTruth(config, { out: at(out), home, policies });
}

test('five modes under two prompts: another model predicts and forecasts, and the judge finds every score again', async () => {
  const { state, folder } = await ran('modes', {
    problems: 2,
    mode: [
      'direct',
      'chain-of-thought',
      'self-debate:turns=2',
      'bootstrap-interview:questions=1',
      'length-control:tokens=6',
    ],
    systemPrompt: ['critical', 'confirmatory'],
    predictor: at('other.gguf'),
    eval: ['mutual-predictability:trials=1,contextSize=1', 'world-in-the-loop:per=outcome'],
  });
  expect([state.setups.length, state.trajectories.length, state.failures]).toEqual([10, 20, []]);
  const [mutual, world] = ['mutual', 'world'].map((name) =>
    state.results.filter(({ strategy }) => strategy.startsWith(name)),
  );
  expect([mutual!.length, world!.length]).toEqual([10, 10]);
  for (const { value, skipped } of [...mutual!, ...world!])
    if (value === null) expect(Object.keys(skipped)).not.toEqual([]);
    else expect(Number.isFinite(value)).toBe(true);
  expect([mutual!, world!].map((all) => all.some(({ value }) => value !== null))).toEqual([
    true,
    true,
  ]);
  expect(await judgeTruthRun({ folder, home })).toMatchObject({ verdict: 'pass', results: 20 });
});

test('T28: one thread, two and eight hold the same beliefs to 1e-6, and the same trajectories are selected', async () => {
  const of = async (threads: number): Promise<{ beliefs: number[]; selected: string[] }> => {
    const { state } = await ran(`threads-${threads}`, {
      problems: 2,
      threads,
      mode: ['direct'],
      eval: ['accuracy'],
    });
    const [{ perTrajectory, direction }] = state.results as [
      TruthResult['state']['results'][number],
    ];
    // the id of a trajectory names its policy, of which the threads are a part
    const text = new Map(
      state.trajectories.map(({ trajectory: { id, problemId, steps } }) => [
        id,
        JSON.stringify([problemId, steps]),
      ]),
    );
    const scored = perTrajectory.map(([id, score]) => ({ item: text.get(id)!, score }));
    const beliefs = state.trajectories.flatMap(({ trajectory: { id } }) =>
      state.beliefs(id)!.readout.readings.map(({ belief }) => belief!.p0),
    );
    return { beliefs, selected: selectTop(scored, 0.5, direction).map(({ item }) => item) };
  };
  const one = await of(1);
  expect([one.selected.length, one.beliefs.length > 3]).toEqual([1, true]);
  for (const more of [await of(2), await of(8)]) {
    expect(more.selected).toEqual(one.selected);
    expect(
      Math.max(...one.beliefs.map((belief, i) => Math.abs(belief - more.beliefs[i]!))),
    ).toBeLessThan(1e-6);
  }
});

test('whose kernels multiply is a part of who believes; other models of the run go the way that they can', async () => {
  await expect(
    ran('none-own', { problems: 1, mode: ['direct'], matmul: 'own' }),
  ).rejects.toMatchObject({ code: 'MODEL_UNSUPPORTED' });
  writeSyntheticModel(at('q4.gguf'), { architecture: 'qwen2', seed: 5n, layers: 1, type: 'Q4_1' });
  const of = async (name: string, given: TruthConfigInput): Promise<TruthResult> =>
    ran(name, {
      model: at('q4.gguf'),
      predictor: at('one.gguf'),
      problems: 1,
      mode: ['direct'],
      eval: ['accuracy'],
      ...given,
    });
  const theirs = await of('theirs', {});
  expect(theirs.start.policy.identity).not.toHaveProperty('matmul');
  const own = await of('own', { matmul: 'own' }).catch(
    (error: unknown) => error as { code: string },
  );
  // a processor with matrix tiles has nothing of ours
  if ('code' in own) return expect(own.code).toBe('MODEL_UNSUPPORTED');
  expect([own.start.policy.identity, own.start.predictor!.identity]).toMatchObject([
    { matmul: 'own' },
    {},
  ]);
  expect(own.start.predictor!.identity).not.toHaveProperty('matmul');
  expect(own.start.policy.id).not.toBe(theirs.start.policy.id);
  expect((await judgeTruthRun({ folder: own.folder, home })).verdict).toBe('pass');
});

const CLI = [
  '--model',
  at('one.gguf'),
  '--threads',
  '1',
  '--signer',
  'single-process',
  '--mode',
  'direct',
  '--max-tokens',
  '6',
  '--problems',
  '1',
];
const env = { ISOPRO_HOME: at('cli-home'), NO_COLOR: '1' };
/** Without a start for each. */
const inOne = (...lines: (readonly string[])[]): CliResult[] => runLines(lines, undefined, env);

test('the command line runs, prints what does the same, judges, and scores more without a model', () => {
  const [run, more, judged, ...verified] = inOne(
    ['truth', 'run', ...CLI, '--eval', 'accuracy', '--out', at('cli'), '--json'],
    ['truth', 'evaluate', at('cli'), '--eval', 'martingale:granularity=ends'],
    ['judge', at('cli'), '--json'],
    ...[at('cli'), at('cli/log.sqlite')].map((target) => ['log', 'verify', target, '--json']),
  ) as [CliResult, CliResult, CliResult, ...CliResult[]];
  expect(run.code).toBe(0);
  const { command, results } = JSON.parse(run.stdout) as {
    command: string;
    results: { strategy: string; n: number }[];
  };
  expect(results).toMatchObject([{ strategy: 'accuracy:metric=brier,mode=eventual', n: 1 }]);
  expect(command).toContain(
    `truth run --model=${at('one.gguf')} --mode=direct --eval=accuracy:metric=brier,mode=eventual --problems=1`,
  );

  expect([more.code, more.stderr]).toEqual([0, '']);
  expect(more.stdout).toMatch(
    /^sums-and-claims · direct\n {2}1 trajectory[^]*\n {2}martingale difference ends/,
  );
  for (const line of more.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);

  expect([judged.code, JSON.parse(judged.stdout)]).toMatchObject([
    0,
    { verdict: 'pass', trajectories: 1, results: 2 },
  ]);
  expect(verified).toHaveLength(2);
  for (const { code, stdout } of verified)
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { outcome: 'open', disagreement: null }]);
});

test('T26: killed by the system at one moment after the other, the same command ends as a run that never was', async () => {
  const args = (out: string): string[] => [
    ...[
      'truth',
      'run',
      ...CLI.slice(0, -1),
      '4',
      '--domain',
      'sums-and-claims',
      'urns',
      '--batch',
      '1',
      '--out',
      at(out),
      '--json',
    ],
    ...['--eval', 'accuracy', 'martingale', 'sycophancy', 'world-in-the-loop'],
  ];
  const figures = (out: string): unknown => {
    const { state } = readTruthRun(at(out));
    const beliefs = state.trajectories.map(({ trajectory: { id } }) => state.beliefs(id));
    return [state.trajectories, beliefs, state.results, state.complete];
  };
  const count = (out: string): number => {
    try {
      const { state } = readTruthRun(at(out));
      return state.trajectories.length + state.readouts + state.results.length;
    } catch {
      return 0; // not begun, or just being written
    }
  };
  const killed: number[] = [];
  const moments = process.env.ISOPRO_FULL === '1' ? [1, 5, 14, 25, 45] : [1, 14];
  for (const least of moments) {
    const child = spawn(process.execPath, [MAIN, ...args('killed')], {
      env: { ...process.env, ...env },
      stdio: 'ignore',
    });
    const ended = new Promise<NodeJS.Signals | null>((resolve) =>
      child.on('close', (_, signal) => resolve(signal)),
    );
    const watch = setInterval(
      () => (count('killed') >= least ? child.kill('SIGKILL') : undefined),
      5,
    );
    const signal = await ended;
    clearInterval(watch);
    if (signal === 'SIGKILL') killed.push(least);
  }
  // later ones may have ended by themselves
  const early = (all: readonly number[]): number[] => all.filter((least) => least <= 14);
  expect(early(killed)).toEqual(early(moments));
  const [never, last, judged] = inOne(args('never-killed'), args('killed'), [
    ...['judge', at('killed'), '--json'],
  ]) as [CliResult, CliResult, CliResult];
  expect(never.code).toBe(0);
  expect([last.code, figures('killed')]).toEqual([0, figures('never-killed')]);
  expect(JSON.parse(judged.stdout)).toMatchObject({ verdict: 'pass' });
});

test('nothing is asked of a network, and no process is started, by importing it and making what it has', async () => {
  const program = `
    import net from 'node:net';
    import dns from 'node:dns';
    import dgram from 'node:dgram';
    import child from 'node:child_process';
    import { syncBuiltinESMExports } from 'node:module';
    const refuse = (what) => () => { throw new Error('asked for ' + what); };
    net.Socket.prototype.connect = refuse('a connection');
    for (const name of ['lookup', 'resolve', 'resolve4', 'resolve6']) dns[name] = dns.promises[name] = refuse('a name');
    dgram.createSocket = refuse('a socket');
    for (const name of ['spawn', 'spawnSync', 'exec', 'execSync', 'execFile', 'execFileSync', 'fork']) child[name] = refuse('a process');
    globalThis.fetch = refuse('a page');
    syncBuiltinESMExports();
    const { truth } = await import(${JSON.stringify(pathToFileURL(LIBRARY).href)});
    for (const domain of truth.DOMAINS) if (domain.id === '') throw new Error('no name');
    const config = truth.readTruthConfig({});
    truth.scriptedPolicy({ name: 'one', reply: () => 'Yes.' });
    for (const name of truth.STRATEGIES.names) truth.STRATEGIES.parse(name);
    console.log(config.domain.join(), truth.DOMAINS.length);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, ...env },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  const code = await new Promise((resolve) => child.on('close', resolve));
  expect([code, said]).toEqual([0, `sums-and-claims ${DOMAINS.length}\n`]);
});

test('settings are refused by their flags, from a file too, and nobody is asked where nobody is', async () => {
  writeFileSync(at('settings.json'), JSON.stringify({ problems: 0, seed: '7' }));
  const [config, analyze] = [at('settings.json'), ['analyze', 'token-level-evidence', at('cli')]];
  const refused: readonly (readonly [string[], RegExp])[] = [
    [['run', '--config', config, '--max-tokens', '0'], /^2 --problems: [^]* --max-tokens: /],
    [['run', '--recompute', 'beliefs=twice'], /^2 [^]*beliefs=twice/],
    [['train'], /^2 give either domain or runs/],
    [analyze, /^2 --trajectory: required for token-level-evidence/],
    [[...analyze, '--trajectory', 'x'], /^2 --trajectory: 0 trajectory ids start with "x"/],
  ];
  for (const [i, { code, stderr }] of inOne(
    ...refused.map(([args]) => ['truth', ...args]),
  ).entries())
    expect(`${code} ${stderr.split('\n', 2).join(' ')}`).toMatch(refused[i]![1]);
  await expect(truthRun.run({ policy: 'human' })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'policy: human needs a terminal, and there is none here',
  });
  const { learningRate, out } = truthTrain.read({ domain: ['urns'], lr: 1e-3 });
  expect([learningRate, out]).toEqual([1e-3, 'runs/truth-training']);
});

test('a person reasons on the terminal, and the model reads what they believe', async () => {
  const child = spawn(
    process.execPath,
    [
      MAIN,
      'truth',
      'run',
      ...CLI,
      '--policy',
      'human',
      '--eval',
      'accuracy',
      '--out',
      at('human'),
      '--json',
    ],
    {
      env: { ...process.env, ...env },
    },
  );
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end('Surely.\nI added.\n.\n');
  expect(await new Promise((resolve) => child.on('close', resolve))).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ trajectories: 1, readouts: 1 });
  expect(stderr.match(/Is this claim true or false\?/g)).toHaveLength(1);
  const shown = await runCli(['truth', 'evaluate', at('human')], env);
  expect(shown.stdout).toMatch(/beliefs read from one\.gguf \(reader \w{8}\)/);
});

test('beliefs are said later, by who reasoned; what is said in no form is counted, and the page and the analyses say so', () => {
  const scored = ['truth', 'analyze', 'trajectory-score', at('cli'), '--strategy', 'accuracy'];
  const [said, table, nobody, page, judged, ...scores] = inOne(
    [
      ...['truth', 'beliefs', at('cli'), '--model', at('one.gguf'), '--belief', 'self'],
      ...['--measurements', '1', '--json'],
    ],
    ['truth', 'evaluate', at('cli')],
    ['truth', 'analyze', 'results-catalog', at('cli'), '--reader', 'judge'],
    ['truth', 'report', at('cli'), '--out', at('truth.html'), '--reader', 'logprob', '--json'],
    ['judge', at('cli')],
    ...[[], ['--reader', 'logprob'], ['--reader', 'self']].map((which) => [
      ...[...scored, ...which, '--json'],
    ]),
  ) as [CliResult, CliResult, CliResult, CliResult, CliResult, ...CliResult[]];
  // beside those that were read, which stay as they are
  const { readouts, results } = JSON.parse(said.stdout) as {
    readouts: number;
    results: { strategy: string; n: number; reader: { source: string } }[];
  };
  expect([said.code, readouts, results.length]).toEqual([0, 2, 4]);
  const accuracy = results.filter(({ strategy }) => strategy.startsWith('accuracy'));
  expect(accuracy.map(({ n, reader: { source } }) => `${source} ${n}`)).toEqual([
    'logprob 1',
    'self 0',
  ]);
  // the scores of both readers, each under whose they are
  expect(table.stdout).toMatch(
    /beliefs read from the policy itself \(reader \w{8}\):\n {2}accuracy[^]*beliefs said by the policy itself \(reader/,
  );
  // what is said in no form has no score: whose scores are analysed is seen by that
  expect(
    scores.map(({ stdout }) =>
      (JSON.parse(stdout) as { scores: unknown[] }[]).map((each) => each.scores.length),
    ),
  ).toEqual([[1], [1], [0]]);
  expect([nobody.code, nobody.stderr]).toEqual([
    1,
    expect.stringMatching(/0 belief readers match "judge"[^]*\(logprob\), \w{8} \(self\)/),
  ]);
  expect([page.code, JSON.parse(page.stdout)]).toMatchObject([0, { out: at('truth.html') }]);
  const text = readFileSync(at('truth.html'), 'utf8');
  expect(text).toContain('Beliefs here and below: beliefs read from the policy itself');
  expect(text).toContain('beliefs said by the policy itself');
  expect(judged.code).toBe(0);
});

test('an adapter is trained on trajectories that score best, or by the readout, with what changed', () => {
  const train = (...flags: string[]): string[] => [
    ...['truth', 'train', '--model', at('one.gguf'), '--threads', '1', ...flags, '--json'],
  ];
  const how = [
    ...['--domain', 'urns', '--mode', 'direct', '--steps', '1', '--questions', '1'],
    ...['--group', '2', '--max-tokens', '4', '--out', at('trained')],
  ];
  const [more, rows, seen, measured, again, differs, both] = inOne(
    ['truth', 'run', ...CLI.slice(0, -1), '4', '--eval', 'accuracy', '--out', at('four'), '--json'],
    train(at('four'), '--by', 'accuracy', '--part', '0.5', '--rows', at('rows.jsonl')),
    train(at('four'), '--by', 'accuracy', '--measure', '4', '--out', at('seen')),
    train(...how, '--train-cut-off', '--measure', '2'),
    train(...how, '--train-cut-off', '--measure', '2'),
    train(...how, '--seed', '7'),
    train('--domain', 'urns', at('four')),
  ) as [CliResult, CliResult, CliResult, CliResult, CliResult, CliResult, CliResult];
  expect(more.code).toBe(0);
  expect([rows.code, JSON.parse(rows.stdout)]).toMatchObject([
    0,
    { trajectories: 2, examples: 2, rows: at('rows.jsonl') },
  ]);
  expect(readFileSync(at('rows.jsonl'), 'utf8').trim().split('\n')).toHaveLength(2);
  // `four` asks questions of the part that is measured on
  expect([seen.code, seen.stderr]).toEqual([
    2,
    expect.stringMatching(/the runs ask [1-9]\d* of these questions/),
  ]);
  expect(measured.code).toBe(0);
  const result = JSON.parse(measured.stdout) as {
    sha256: string;
    changes: { figure: string; n: number; before: number }[];
  };
  expect(result.changes.find(({ figure }) => figure.includes('mode=eventual'))).toMatchObject({
    n: 2,
  });
  expect(JSON.parse(readFileSync(path.join(at('trained'), 'result.json'), 'utf8'))).toEqual(result);
  // what is done is not done again
  expect(JSON.parse(again.stdout)).toEqual(result);
  expect(differs.stderr).toContain('RUN_DIFFERS');
  expect(both.code).toBe(2);
});

test('problems are labelled by the model alone, the same ones by the same seed', async () => {
  const how = [
    '--domain',
    'negation-pairs',
    '--problems',
    '4',
    '--steps',
    '6',
    '--start',
    '2',
    '--threads',
    '1',
  ];
  const labels = (...flags: string[]): string[] => [
    ...['truth', 'labels', '--model', at('one.gguf'), ...how, ...flags],
  ];
  const found = await runCli(labels('--json'), env);
  const [screen, same, conceptual] = inOne(
    labels(),
    labels('--json'),
    labels('--domain', 'conceptual'),
  ) as [CliResult, CliResult, CliResult];
  expect([found.code, same.stdout]).toEqual([0, found.stdout]);
  const {
    labels: all,
    accuracy,
    utility,
    contradictions,
    evaluations,
  } = JSON.parse(found.stdout) as {
    labels: { problem: string; label: 0 | 1 | null; correctOption: 0 | 1 }[];
    accuracy: object;
    utility: number;
    contradictions: number;
    evaluations: number;
  };
  const given = all.filter(({ label }) => label !== null);
  const right = given.filter(({ label, correctOption }) => label === correctOption).length;
  // labels that were sought together are one draw: there is no interval
  expect(accuracy).toEqual({ right, n: given.length });
  const { problems } = DOMAINS.find(({ id }) => id === 'negation-pairs') as WrittenDomain;
  const labelled = given.map(({ problem, label }) => ({
    ...(problems.find(({ id }) => id === problem) as BinaryProblem),
    label,
  }));
  const areAtOdds = (a: (typeof labelled)[number], b: (typeof labelled)[number]): boolean =>
    a.group === b.group &&
    ((a.about!.role === 'negation') === (b.about!.role === 'negation')) !== (a.label === b.label);
  expect(contradictions).toBe(
    labelled.flatMap((a, i) => labelled.slice(i + 1).filter((b) => areAtOdds(a, b))).length,
  );
  // the screen says the same
  const text = screen.stdout;
  expect(text).toMatch(new RegExp(`^negation-pairs: ${given.length} of 4 labelled\n`));
  expect(text.match(/^right /gm)?.length ?? 0).toBe(right);
  expect(text).toContain(`U:        ${utility.toFixed(2)}, ${contradictions} contradiction`);
  expect(text).toMatch(new RegExp(`\nasked: {4}${evaluations} evaluations\n$`));
  expect(conceptual.code).toBe(2);
});

test('domains are listed, shown, and made of rows', () => {
  const titles = ['CMV: Tea is better than coffee', 'CMV: Cats are better than dogs', 'no view'];
  writeFileSync(at('views.jsonl'), titles.map((title) => JSON.stringify({ title })).join('\n'));
  const made = ['truth', 'domains', at('views.jsonl'), '--import', 'opinions'];
  const [listed, unlicensed, written, shown] = inOne(
    ['truth', 'domains', '--json'],
    made,
    [...made, '--licence', 'own', '--out', at('views.json')],
    ['truth', 'domains', at('views.json'), '--split', 'train'],
  ) as [CliResult, CliResult, CliResult, CliResult];
  const list = JSON.parse(listed.stdout) as { id: string; sha256: string }[];
  expect(list.map(({ id }) => id)).toEqual(
    expect.arrayContaining(['urns', 'negation-pairs', 'puzzles', 'conceptual']),
  );
  expect(unlicensed.code).toBe(2);
  expect(written.stdout).toBe(
    `${at('views.json')}: 2 problems; left out: 1 no CMV before its title\n`,
  );
  expect(shown.stdout).toMatch(/Do you agree with this view\?[^]*no known answer/);
});
