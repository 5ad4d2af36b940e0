/** The command line's training, in processes of its own: a file in, an adapter out, resumption. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { spawn, spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import { loadModel, trainAdapter } from '../../src/index.js';
import { splitPath, splitRows, splitText } from '../../src/tasks/data/split.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const MAIN = path.resolve('dist/program/main.js');
let folder: string;
const file = (name: string): string => path.join(folder, name);

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-train-'));
  writeSyntheticModel(file('model.gguf'), { architecture: 'qwen2' });
  const examples = Array.from({ length: 20 }, (_, i) =>
    i % 2 === 0
      ? { prompt: `say ${i}`, completion: `it is ${i * 7}` }
      : {
          messages: [
            { role: 'user', content: `say ${i}` },
            { role: 'assistant', content: `no ${i}` },
          ],
        },
  );
  writeFileSync(
    file('data.jsonl'),
    [...examples, { prompt: 'x'.repeat(600), completion: 'y' }]
      .map((example) => JSON.stringify(example))
      .join('\n'),
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const flags = (out: string, ...more: string[]): string[] => [
  MAIN,
  'train',
  '--model',
  file('model.gguf'),
  '--data',
  file('data.jsonl'),
  '--out',
  file(out),
  '--batch',
  '2',
  '--epochs',
  '4',
  '--lr',
  '0.005',
  '--save-every',
  '1',
  '--json',
  ...more,
];
const lines = (text: string): Record<string, unknown>[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test('trains, is killed, resumes, and ends with the same adapter as an uninterrupted run', async () => {
  const whole = spawnSync(process.execPath, flags('whole.gguf'), { encoding: 'utf8' });
  expect(whole.stderr).not.toMatch(/error/);
  expect(whole.status).toBe(0);
  const steps = lines(whole.stdout);
  expect(steps).toHaveLength(41);
  expect(steps.at(-1)).toMatchObject({ examples: 20, leftOut: 1, steps: 40 });
  expect(steps.at(-2)!.loss).toBeLessThan(steps[0]!.loss as number);

  const killed = spawn(process.execPath, flags('killed.gguf'));
  let seen = '';
  for await (const chunk of killed.stdout) {
    seen += String(chunk);
    if (seen.split('\n').length > 12) break;
  }
  killed.kill('SIGKILL');
  if (killed.exitCode === null && killed.signalCode === null) await once(killed, 'exit');
  expect(existsSync(file('killed.gguf'))).toBe(false);
  const resumed = spawnSync(process.execPath, flags('killed.gguf', '--resume'), {
    encoding: 'utf8',
  });
  expect(resumed.status).toBe(0);
  expect(lines(resumed.stdout)[0]!.step).toBeGreaterThan(5);
  expect(lines(resumed.stdout).at(-1)!.sha256).toBe(steps.at(-1)!.sha256);
  expect(readFileSync(file('killed.gguf'))).toEqual(readFileSync(file('whole.gguf')));
  await using model = await loadModel(file('model.gguf'));
  await model.setAdapter(await model.loadAdapter(file('killed.gguf')));
});

test('what a state is held to is written in the names and the order of every earlier version', async () => {
  await using model = await loadModel(file('model.gguf'));
  const held = {
    ...{ objective: 'sft', answers: null, beta: 0.1, rank: 8, alpha: 16, top: null, lr: 0.005 },
    ...{ schedule: 'cosine', epochs: 4, batch: 2, validation: null, dedupe: null, elite: 1 },
    ...{ 'weight-by-score': 'uniform', 'score-conditioned': false, 'max-tokens': 2048, seed: '0' },
    'data-hash': hash('sha256', readFileSync(file('data.jsonl'))),
    ...{ renderer: model.rendererId, 'end-of-answer': model.endOfAnswer },
  };
  expect(readFileSync(file('whole.gguf.state.json'), 'utf8')).toBe(`${JSON.stringify(held)}\n`);
});

test('a training goes on with what it was begun with alone', () => {
  const resumed = (data: string, ...more: string[]) => {
    const given = flags('killed.gguf', '--resume', ...more).map((flag) =>
      flag === file('data.jsonl') ? file(data) : flag,
    );
    return spawnSync(process.execPath, given, { encoding: 'utf8' });
  };
  writeFileSync(file('other.jsonl'), JSON.stringify({ prompt: 'a', completion: 'b' }));
  const { status, stderr } = resumed('other.jsonl', '--rank', '4', '--top', '1');
  expect(status).toBe(1);
  const { error } = JSON.parse(stderr) as { error: Record<string, string> };
  expect(error).toMatchObject({
    code: 'INVALID_ARGUMENT',
    remedy: expect.stringContaining('--force'),
  });
  expect(error.message).toMatch(
    /now --rank 4 instead of 8; --top 1 instead of not set; different content in --data or in the split next to it$/,
  );
  expect(resumed('data.jsonl', '--threads', '1', '--patience', '0').status).toBe(0);
});

test('what a run holds out of a file is not learned from it: its dev set measures, its test set is left alone', () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({
    prompt: `what is ${i} of these?`,
    answer: `${i * 3}`,
  }));
  writeFileSync(file('rows.jsonl'), rows.map((row) => JSON.stringify(row)).join('\n'));
  const planned = (...more: string[]) =>
    spawnSync(
      process.execPath,
      [
        MAIN,
        'train',
        '--model',
        file('model.gguf'),
        '--data',
        file('rows.jsonl'),
        '--dry-run',
        '--json',
        ...more,
      ],
      { encoding: 'utf8' },
    );
  expect(lines(planned().stdout)).toMatchObject([{ examples: 40, validationExamples: 0 }]);
  const asked = rows.map(({ prompt }) => ({
    tier: 'all',
    messages: [{ role: 'user' as const, content: prompt }],
  }));
  writeFileSync(
    splitPath(file('rows.jsonl')),
    splitText(splitRows(file('rows.jsonl'), asked, ['all'])),
  );
  const { stdout, stderr } = planned();
  expect(lines(stdout)).toMatchObject([{ examples: 26, validationExamples: 4 }]);
  expect(stderr).toContain(
    'rows.jsonl.split.json holds out 10 rows of the test set and 4 of the dev set: not trained on',
  );
  expect(lines(planned('--validation', '0').stdout)).toMatchObject([
    { examples: 26, validationExamples: 0 },
  ]);
});

test('of a conversation the last answer is learned, which is said, and with --answers all each of them', () => {
  const turns = ['one', 'two', 'three'].flatMap((content) => [
    { role: 'user', content: `say ${content}` },
    { role: 'assistant', content },
  ]);
  writeFileSync(
    file('turns.jsonl'),
    [{ messages: turns }, { prompt: 'a', completion: 'b' }]
      .map((row) => JSON.stringify(row))
      .join('\n'),
  );
  const planned = (...more: string[]) =>
    spawnSync(
      process.execPath,
      [
        MAIN,
        'train',
        '--model',
        file('model.gguf'),
        '--data',
        file('turns.jsonl'),
        '--dry-run',
        '--json',
        ...more,
      ],
      { encoding: 'utf8' },
    );
  const last = planned();
  expect(lines(last.stdout)).toMatchObject([{ examples: 2 }]);
  expect(last.stderr).toContain(
    '1 of 2 rows have earlier answers that are not learned; --answers all includes them',
  );
  const all = planned('--answers', 'all');
  expect(lines(all.stdout)).toMatchObject([{ examples: 4 }]);
  expect(all.stderr).toBe('');
});

test('--learning-rate and --batch-size, as others call them, are --lr and --batch', () => {
  const given = (out: string, ...more: string[]) => [
    MAIN,
    'train',
    '--model',
    file('model.gguf'),
    '--data',
    file('data.jsonl'),
    '--out',
    file(out),
    ...more,
  ];
  const trained = [
    given('short.gguf', '--lr', '0.005', '--batch', '10'),
    given('long.gguf', '--learning-rate', '0.005', '--batch-size=10'),
  ];
  for (const args of trained) expect(spawnSync(process.execPath, args).status).toBe(0);
  expect(readFileSync(file('long.gguf'))).toEqual(readFileSync(file('short.gguf')));
  const { stderr, status } = spawnSync(
    process.execPath,
    given('none.gguf', '--batch-size', 'ten'),
    { encoding: 'utf8' },
  );
  expect([status, stderr]).toEqual([2, expect.stringMatching(/^--batch(-size)? takes a number/)]);
});

test('a program trains the same adapter from the same rows', async () => {
  await using model = await loadModel(file('model.gguf'));
  const examples = lines(readFileSync(file('data.jsonl'), 'utf8'));
  const steps: number[] = [];
  const settings = {
    epochs: 4,
    batchSize: 2,
    learningRate: 0.005,
    onStep: ({ step }: { step: number }) => steps.push(step),
  };
  writeFileSync(file('program.gguf.best'), 'of an interrupted `train`, which may go on');
  const trained = await trainAdapter(model, {
    examples,
    out: file('program.gguf'),
    maxTokens: 512,
    ...settings,
  });
  expect(readFileSync(file('program.gguf.best'), 'utf8')).toContain('interrupted');
  expect(trained).toMatchObject({
    steps: 40,
    examples: 20,
    tooLong: 1,
    path: file('program.gguf'),
  });
  expect(steps).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
  expect(readFileSync(file('program.gguf'))).toEqual(readFileSync(file('whole.gguf')));
  const refused = (changes: object) =>
    trainAdapter(model, { examples, out: file('none.gguf'), ...changes });
  await expect(refused({ examples: [examples[0], { prompt: 3 }] })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('options.examples[1]: '),
  });
  await expect(refused({ examples: [] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  await expect(refused({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toMatchObject({
    code: 'ABORTED',
  });
  expect(existsSync(file('none.gguf'))).toBe(false);
  const there = { out: file('program.gguf'), maxTokens: 512, ...settings };
  await expect(refused(there)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    remedy: expect.stringContaining('overwrite'),
  });
  expect(readFileSync(file('program.gguf'))).toEqual(readFileSync(file('whole.gguf')));
  expect((await refused({ ...there, overwrite: true })).sha256).toBe(trained.sha256);
});

test('a program that keeps the state continues an interrupted training, with what it was begun with', async () => {
  await using model = await loadModel(file('model.gguf'));
  const ending = new AbortController();
  const options = {
    examples: lines(readFileSync(file('data.jsonl'), 'utf8')),
    out: file('kept.gguf'),
    ...{ epochs: 4, batchSize: 2, learningRate: 0.005, maxTokens: 512, saveEvery: 4 },
  };
  const ended = trainAdapter(model, {
    ...options,
    signal: ending.signal,
    onStep: ({ step }) => void (step === 10 && ending.abort()),
  });
  await expect(ended).rejects.toMatchObject({ code: 'ABORTED' });
  expect([existsSync(file('kept.gguf')), existsSync(file('kept.gguf.state'))]).toEqual([
    false,
    true,
  ]);
  const other = { ...options, examples: options.examples.slice(1), rank: 4, resume: true };
  await expect(trainAdapter(model, other)).rejects.toMatchObject({
    message: expect.stringMatching(/now options\.rank 4 instead of 8; different content/),
  });
  const steps: number[] = [];
  const trained = await trainAdapter(model, {
    ...options,
    resume: true,
    onStep: ({ step }) => void steps.push(step),
  });
  expect([steps[0], trained.steps, trained.losses.length]).toEqual([9, 40, 40]);
  expect(readFileSync(file('kept.gguf'))).toEqual(readFileSync(file('whole.gguf')));
});

test('a share of the rows, curation and a schedule are those of the command', async () => {
  await using model = await loadModel(file('model.gguf'));
  const examples = Array.from({ length: 12 }, (_, i) => ({
    ...{ prompt: `say ${i % 10}`, completion: `${i % 10}`, score: (i % 10) / 9 },
  }));
  writeFileSync(file('scored.jsonl'), examples.map((row) => JSON.stringify(row)).join('\n'));
  const command = flags(
    ...['scored-command.gguf', '--validation', '0.2', '--validate-every', '2', '--top', '1'],
    ...['--dedupe', '1', '--elite', '0.8', '--weight-by-score', 'linear', '--score-conditioned'],
    ...['--schedule', 'linear'],
  ).map((flag) => (flag === file('data.jsonl') ? file('scored.jsonl') : flag));
  const { stdout } = spawnSync(process.execPath, command, { encoding: 'utf8' });
  const said = lines(stdout).at(-1)!;
  const trained = await trainAdapter(model, {
    examples,
    out: file('scored-program.gguf'),
    ...{ epochs: 4, batchSize: 2, learningRate: 0.005, schedule: 'linear', topLayers: 1 },
    ...{ validation: 0.2, validateEvery: 2 },
    ...{ dedupe: 1, elite: 0.8, weightByScore: 'linear', scoreConditioned: true },
    logTo: ['jsonl'],
  });
  expect(said).toMatchObject({
    curation: { rows: 12, repeated: 2, belowElite: 2 },
    stepsTaken: trained.steps,
    validation: { best: { step: trained.validation!.best } },
    sha256: trained.sha256,
  });
  const tracked = (out: string): unknown[] =>
    lines(readFileSync(file(`${out}.trackers/jsonl/metrics.jsonl`), 'utf8')).map(
      (row) => row['train/loss'] ?? row['eval/loss'],
    );
  expect(tracked('scored-program.gguf')).toHaveLength(
    trained.losses.length + trained.validation!.losses.length,
  );
  expect(existsSync(file('scored-program.gguf.state'))).toBe(false);
});

test('a program measures on rows of its own and keeps the best adapter, of answers and of pairs, as the command does', async () => {
  await using model = await loadModel(file('model.gguf'));
  const say = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => ({ prompt: `say ${from + i}`, completion: `${i}` }));
  const pairs = (from: number, count: number) =>
    say(from, count).map(({ prompt, completion }) => ({
      prompt,
      chosen: completion,
      rejected: `not ${completion}`,
    }));
  for (const [objective, made] of [
    ['sft', say],
    ['dpo', pairs],
  ] as const) {
    const [examples, validation] = [made(0, 12), made(50, 4)];
    const [data, apart] = [file(`${objective}.jsonl`), file(`${objective}-apart.jsonl`)];
    writeFileSync(data, examples.map((row) => JSON.stringify(row)).join('\n'));
    writeFileSync(apart, validation.map((row) => JSON.stringify(row)).join('\n'));
    const command = flags(
      `${objective}-command.gguf`,
      '--objective',
      objective,
      '--validation-data',
      apart,
    ).map((flag) => (flag === file('data.jsonl') ? data : flag));
    const { stdout } = spawnSync(process.execPath, command, { encoding: 'utf8' });
    const figures: object[] = [];
    const trained = await trainAdapter(model, {
      ...{
        objective,
        examples,
        validation,
        out: file(`${objective}-program.gguf`),
        batchSize: 2,
        epochs: 4,
        learningRate: 0.005,
      },
      onStep: (step) => figures.push(step.figures),
    });
    expect(readFileSync(trained.path)).toEqual(readFileSync(file(`${objective}-command.gguf`)));
    const { losses, best } = trained.validation!;
    expect(losses[0]!.step).toBe(0);
    const after = losses.filter(({ step }) => step > 0);
    expect(best).toBe(
      after.find(({ loss }) => loss === Math.min(...after.map((each) => each.loss)))!.step,
    );
    expect(lines(stdout).at(-1)).toMatchObject({
      stepsTaken: trained.steps,
      validation: { best: { step: best } },
    });
    expect(Object.keys(figures[0]!).includes('rewards/margins')).toBe(objective === 'dpo');
    expect(existsSync(`${trained.path}.best`)).toBe(false);
  }
  const wrong = { objective: 'dpo', examples: say(0, 2), out: file('none.gguf') } as const;
  await expect(trainAdapter(model, wrong)).rejects.toMatchObject({
    message: expect.stringContaining('options.examples[0]: '),
  });
});

test('nothing is overwritten without --force, and an interrupted training is not begun anew unasked', () => {
  const refused = (out: string, ...more: string[]): [number | null, string] => {
    const { status, stderr } = spawnSync(process.execPath, flags(out, ...more), {
      encoding: 'utf8',
    });
    return [status, stderr];
  };
  expect(refused('whole.gguf')).toEqual([2, expect.stringContaining('--force')]);
  writeFileSync(file('begun.gguf.state'), '');
  expect(refused('begun.gguf')).toEqual([2, expect.stringContaining('--resume')]);
  expect(refused('whole.gguf', '--force', '--resume')).toEqual([
    2,
    expect.stringContaining('cannot be combined with'),
  ]);
});

test('a share kept apart is measured, and the figures, the curve and the next command are printed', () => {
  const { stdout, status } = spawnSync(
    process.execPath,
    flags(
      'whole.gguf',
      '--force',
      '--validation',
      '0.2',
      '--validate-every',
      '8',
      '--log-to',
      'jsonl,tensorboard',
    ).filter((flag) => flag !== '--json'),
    { encoding: 'utf8' },
  );
  expect(status).toBe(0);
  expect(stdout).toMatch(
    /^16 examples, \d+ of 32 steps in [\d:]+; training loss [\d.]+ -> [\d.]+$/m,
  );
  expect(stdout).toMatch(
    /^validation loss on 4 examples: [\d.]+ before, [\d.]+ after step (8|16|24|32) \(kept\)$/m,
  );
  expect(stdout).toMatch(/^ +[\d.]+ \|[o.]/m);
  expect(stdout).toContain(
    `next: npx isopro-native chat --model ${file('model.gguf')} --adapter ${file('whole.gguf')}`,
  );
  const losses = lines(readFileSync(file('whole.gguf.losses.jsonl'), 'utf8'));
  const validation = losses.flatMap(({ validationLoss }) =>
    validationLoss === undefined ? [] : [validationLoss as number],
  );
  expect(losses.length - validation.length).toBe(Number(/, (\d+) of 32/.exec(stdout)![1]));
  expect(stdout).toContain(`${Math.min(...validation.slice(1)).toFixed(3)} after step`);
  expect(existsSync(file('whole.gguf.best'))).toBe(false);
  const tracked = lines(readFileSync(file('whole.gguf.trackers/jsonl/metrics.jsonl'), 'utf8'));
  expect(tracked.map((row) => row['train/loss'] ?? row['eval/loss'])).toEqual(
    losses.map((row) => row.loss ?? row.validationLoss),
  );
  expect(tracked.at(-1)).toMatchObject({ step: losses.at(-1)!.step });
  expect(existsSync(file('whole.gguf.trackers/tensorboard'))).toBe(true);
});

test('--dry-run trains nothing and says what would happen', () => {
  const { stdout, status } = spawnSync(process.execPath, flags('dry.gguf', '--dry-run'), {
    encoding: 'utf8',
  });
  expect(status).toBe(0);
  expect(lines(stdout)[0]).toMatchObject({ examples: 20, leftOut: 1, steps: 40, layers: 2 });
  expect(existsSync(file('dry.gguf'))).toBe(false);
});

test('a broken line is named, of a file and of standard input', () => {
  const rows = '{"prompt": "a", "completion": "b"}\n{"prompt": 3}\n';
  writeFileSync(file('broken.jsonl'), rows);
  for (const data of [file('broken.jsonl'), '-']) {
    const given = [MAIN, 'train', '--model', file('model.gguf'), '--data', data, '--json'];
    const { stderr, status } = spawnSync(process.execPath, given, {
      encoding: 'utf8',
      input: rows,
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(/INVALID_ARGUMENT.*line 2/s);
  }
});
