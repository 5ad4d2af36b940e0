/**
 * The settings of every kind of job are a contract: whoever keeps to them today must not be refused
 * tomorrow. They stand in settings.txt, one line a setting; what a job comes to, which names it may
 * name and what it counts with stand below.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { uint32 } from '../../src/embedded/gguf.js';
import { inspectModel } from '../../src/engine/inspect.js';
import { JOB_KINDS, type JobKind, type Prepared } from '../../src/jobs/kinds.js';
import { fieldOf } from '../../src/operations/flags.js';
import { Names } from '../../src/operations/names.js';
import { BUILT_IN_IDS } from '../../src/tasks/registry.js';
import { FREE, textsOf, withText } from '../models/request-texts.js';
import { encodeModel, synthesizeModel, writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-kinds-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const kindOf = (id: string): JobKind => JOB_KINDS.find((kind) => kind.id === id)!;

/** What a schema says of a setting besides its bounds. */
const WORDS = [
  ...['description', 'names', 'first', 'group', 'local', 'defaultText', 'aliases', 'flag'],
  ...['positional', 'admin'],
];

test('each setting of each kind has the bounds and the default that settings.txt says', () => {
  const lines = JOB_KINDS.flatMap(({ id, settings }) => {
    const { properties = {}, required = [] } = z.toJSONSchema(settings, {
      io: 'input',
      unrepresentable: 'any',
    });
    return Object.entries(properties).flatMap(([name, member]) => {
      const { properties: part, ...schema } = member as Readonly<Record<string, unknown>>;
      if (part !== undefined) return []; // settings of a run: test/training/settings.txt
      const bounds = Object.entries(schema).filter(([keyword]) => !WORDS.includes(keyword));
      const text = JSON.stringify(Object.fromEntries(bounds));
      return [`${id} ${name}${required.includes(name) ? ' (required)' : ''} ${text}`];
    });
  });
  expect([...lines, '']).toEqual(readFileSync('test/jobs/settings.txt', 'utf8').split('\n'));
});

describe('what a job comes to', () => {
  const runs = path.join(folder, 'runs');
  const model = path.join(folder, 'small.gguf');
  const other = path.join(folder, 'other.gguf');
  const wide = path.join(folder, 'wide.gguf');
  const grader = path.join(folder, 'grader.json');
  const large = path.join(folder, 'large.json');
  const ID = 'ab'.repeat(32);
  const MIB = 2 ** 20;
  const OVERHEAD = 200 * MIB;
  /** Bytes of keys and values of a token: two of f16, of each layer, of each head that has them. */
  let perToken: number;
  let weights: number;
  let wideToken: number;
  let names: Names;
  beforeAll(async () => {
    const shape = writeSyntheticModel(model, { architecture: 'llama' });
    writeSyntheticModel(other, { architecture: 'llama', type: 'F16' });
    perToken = 2 * 2 * shape.layers * shape.keyValueHeads * shape.headDimension;
    // of so many layers, by its own word, that a gibibyte holds few tokens
    const said = synthesizeModel({ architecture: 'llama' });
    const layers = 10_000;
    const metadata = said.metadata.map((entry) =>
      entry.key === 'llama.block_count' ? { ...entry, value: uint32(layers) } : entry,
    );
    writeFileSync(wide, Buffer.concat([...encodeModel({ ...said, metadata })]));
    wideToken = (perToken / shape.layers) * layers;
    weights = (await inspectModel(model)).types.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const run of ['mine', 'theirs', 'job/seed-1', 'truth-1', 'truth-2', 'a'.repeat(201)])
      mkdirSync(path.join(runs, run), { recursive: true });
    for (const run of ['mine', 'theirs', 'job/seed-1', 'a'.repeat(201)])
      writeFileSync(path.join(runs, run, 'manifest.json'), '{}');
    for (const run of ['truth-1', 'truth-2'])
      writeFileSync(path.join(runs, run, 'truth.json'), '{}');
    symlinkSync(path.join(runs, 'mine'), path.join(runs, 'linked'));
    const input = [{ role: 'user', content: '{{sample.output_text}}' }];
    writeFileSync(grader, JSON.stringify({ type: 'score_model', model: 'second', input }));
    writeFileSync(large, ' '.repeat(MIB + 1));
    const files: Record<string, string> = {
      'file-rows': '/rows.jsonl',
      'file-more': '/more.jsonl',
      'file-grader': grader,
      'file-large': large,
    };
    names = new Names(
      {
        model: 'base',
        models: new Map([
          ['base', model],
          ['second', other],
          ['absent', 'qwen2.5-0.5b'],
          ['wide', wide],
          ['nothing', path.join(folder, 'nothing.gguf')],
        ]),
        tasks: new Map([['sums', '/sums.mjs']]),
        adapters: new Map([['kind', '/kind.gguf']]),
        backends: new Map([
          ['paid', { spec: 'openai:small', keyEnv: 'OF_KEY_ENV' }],
          ['mine', { spec: 'command:agent --fast' }],
        ]),
        registry: '/registry',
        runs,
      },
      {
        isAdmin: true,
        adapterOf: (name) => (name === 'job-1' ? '/of-a-job.gguf' : null),
        mayRead: (run) => run !== 'theirs',
        fileOf: (id) => files[id] ?? null,
      },
    );
  });
  const prepare = async (id: string, settings: unknown): Promise<Prepared> => {
    const kind = kindOf(id);
    return kind.prepare(kind.read(settings), {
      names,
      id: 'JOB',
      folder: '/jobs/JOB',
    });
  };

  test.each<[kind: string, settings: object, args: () => string[], run: string | null]>([
    ['run', {}, () => ['run', `--model=${model}`, '--task=scheduling', `--out=${runs}/JOB`], 'JOB'],
    [
      'run',
      {
        model: { name: 'second' },
        task: 'sums',
        check: 'exact',
        seed: '7',
        algorithm: { id: 'distill', teacher: 'base' },
      },
      () => [
        'run',
        `--model=${other}`,
        '--task=/sums.mjs',
        '--check=exact',
        '--seed=7',
        '--algorithm=distill',
        `--teacher=${model}`,
        `--out=${runs}/JOB`,
      ],
      'JOB',
    ],
    [
      'train',
      { data: 'file-rows', validationData: 'file-more', rank: 3 },
      () => [
        'train',
        `--model=${model}`,
        '--data=/rows.jsonl',
        '--validation-data=/more.jsonl',
        '--rank=3',
        '--out=/jobs/JOB/adapter.gguf',
      ],
      null,
    ],
    [
      'train',
      {
        ...{ data: 'file-rows', top: 2, lr: 1e-3, batch: 4, answers: 'all', dedupe: 0.9 },
        ...{ elite: 0.5, weightByScore: 'linear', scoreConditioned: true, logTo: ['jsonl'] },
      },
      () => [
        ...['train', `--model=${model}`, '--data=/rows.jsonl', '--answers=all', '--top=2'],
        ...['--lr=0.001', '--batch=4', '--dedupe=0.9', '--elite=0.5', '--weight-by-score=linear'],
        ...['--score-conditioned', '--log-to=jsonl', '--out=/jobs/JOB/adapter.gguf'],
      ],
      null,
    ],
    ['eval', {}, () => ['eval', `--model=${model}`, '--task=scheduling'], null],
    [
      'eval',
      { backend: 'paid', samples: 2 },
      () => [
        ...['eval', '--backend=openai:small', '--key-env=OF_KEY_ENV'],
        ...['--record=/jobs/JOB/replies.jsonl', '--task=scheduling', '--samples=2'],
      ],
      null,
    ],
    [
      'eval',
      { backend: 'mine' },
      () => ['eval', '--backend=command:agent --fast', '--task=scheduling'],
      null,
    ],
    [
      'eval',
      { forgetting: true, adapter: 'kind', contextTokens: 512, matmul: 'own' },
      () => [
        ...['eval', `--model=${model}`, '--adapter=/kind.gguf', '--forgetting'],
        ...['--matmul=own', '--context=512'],
      ],
      null,
    ],
    [
      'eval',
      { samples: 4, k: '1,4', examples: 2, verifierThreads: 3, context: 256, batch: 2 },
      () => [
        ...['eval', `--model=${model}`, '--task=scheduling', '--examples=2', '--samples=4'],
        ...['--k=1,4', '--verifier-threads=3', '--context=256', '--batch=2'],
      ],
      null,
    ],
    [
      'eval',
      {
        model: 'second',
        adapter: 'job-1',
        task: 'file-rows',
        check: 'json:file-rows',
        stop: ['a', 'b'],
        judgeTruncated: false,
        constrained: true,
      },
      () => [
        ...[
          'eval',
          `--model=${other}`,
          '--adapter=/of-a-job.gguf',
          '--task=/rows.jsonl',
          '--check=json:/rows.jsonl',
        ],
        ...['--stop=a', '--stop=b', '--no-judge-truncated', '--constrained'],
      ],
      null,
    ],
    [
      'judge',
      {
        run: 'mine',
        model: 'second',
        task: 'sums',
        check: 'model:file-grader',
        target: 0.5,
        heldOut: 'none',
      },
      () => [
        ...[
          'judge',
          path.join(runs, 'mine'),
          `--model=${other}`,
          '--task=/sums.mjs',
          `--check=model:${grader}@${other}`,
        ],
        ...['--target=0.5', '--held-out=none'],
      ],
      null,
    ],
    [
      'judge',
      { run: 'job/seed-1' },
      () => ['judge', path.join(runs, 'job/seed-1'), `--model=${model}`],
      null,
    ],
    [
      'ablate',
      { conditions: ['full', 'no-cot'], seeds: ['1', '2'], settings: { seed: '9', iterations: 2 } },
      () => [
        ...[
          'ablate',
          `--model=${model}`,
          '--task=scheduling',
          '--iterations=2',
          '--conditions=full',
          '--conditions=no-cot',
        ],
        ...['--seeds=1', '--seeds=2', `--out=${runs}/JOB`],
      ],
      'JOB',
    ],
    ['truth', {}, () => ['truth', 'run', `--model=${model}`, `--out=${runs}/JOB`], 'JOB'],
    [
      'truth',
      {
        model: 'second',
        adapter: 'kind',
        predictor: 'base',
        judge: 'absent',
        problems: 21,
        split: 'test',
      },
      () => [
        ...[
          'truth',
          'run',
          `--model=${other}`,
          '--adapter=/kind.gguf',
          `--predictor=${model}`,
          '--judge=qwen2.5-0.5b',
          '--problems=21',
        ],
        `--out=${runs}/JOB`,
      ],
      'JOB',
    ],
    [
      'truth',
      {
        examples: 'file-rows',
        without: [ID],
        signer: 'single-process',
        recompute: ['beliefs=always'],
        each: true,
        mode: ['chain-of-thought'],
      },
      () => [
        ...['truth', 'run', `--model=${model}`, `--without=${ID}`, '--examples=/rows.jsonl'],
        ...['--signer=single-process', '--recompute=beliefs=always', '--each'],
        `--out=${runs}/JOB`,
      ],
      'JOB',
    ],
    [
      'truth-train',
      { domain: ['urns'], lr: 0.001, threads: 0, matmul: 'auto' },
      () => [
        ...['truth', 'train', `--model=${model}`, '--domain=urns', '--lr=0.001', '--threads=0'],
        ...['--matmul=auto', '--out=/jobs/JOB/training'],
      ],
      null,
    ],
    [
      'truth-train',
      { runs: ['truth-1', 'truth-2'], by: 'x', part: 0.2 },
      () => [
        ...[
          'truth',
          'train',
          path.join(runs, 'truth-1'),
          path.join(runs, 'truth-2'),
          `--model=${model}`,
          '--by=x',
          '--part=0.2',
        ],
        '--out=/jobs/JOB/training',
      ],
      null,
    ],
    [
      'truth-analyze',
      { analyzer: 'training-causal-effect', runs: ['truth-1'], after: ['truth-2'] },
      () => [
        'truth',
        'analyze',
        'training-causal-effect',
        path.join(runs, 'truth-1'),
        `--after=${path.join(runs, 'truth-2')}`,
      ],
      null,
    ],
    [
      'truth-analyze',
      { analyzer: 'performance-comparison', runs: ['truth-1'], outside: 'file-more' },
      () => [
        ...['truth', 'analyze', 'performance-comparison', path.join(runs, 'truth-1')],
        '--outside=/more.jsonl',
      ],
      null,
    ],
    [
      'truth-analyze',
      {
        analyzer: 'token-level-evidence',
        runs: ['truth-1'],
        trajectory: 't',
        model: 'second',
        adapter: 'kind',
        every: 3,
      },
      () => [
        ...[
          'truth',
          'analyze',
          'token-level-evidence',
          path.join(runs, 'truth-1'),
          `--model=${other}`,
          '--adapter=/kind.gguf',
        ],
        ...['--trajectory=t', '--every=3'],
      ],
      null,
    ],
    [
      'gate',
      { adapter: ID, as: 'extract', model: 'second', reason: 'why' },
      () => [
        ...[
          'adapters',
          'promote',
          ID,
          '--as=extract',
          '--problems=100',
          `--model=${other}`,
          '--task=extract',
          '--registry=/registry',
        ],
        ...['--reason=why', '--transaction=JOB'],
      ],
      null,
    ],
    [
      'gate',
      {
        ...{ adapter: ID, as: 'extract', task: 'sums', problems: 7, gate: 2, lineage: 'foreign' },
        ...{ canary: 0.1, probation: 30, wait: 5, transaction: 'mine', threads: 2 },
      },
      () => [
        ...['adapters', 'promote', ID, '--as=extract', '--problems=7', `--model=${model}`],
        ...['--task=/sums.mjs', '--registry=/registry', '--threads=2', '--lineage=foreign'],
        ...['--gate=2', '--canary=0.1', '--probation=30', '--wait=5', '--transaction=mine'],
      ],
      null,
    ],
    ...(
      [
        ['extract', { force: true }, '--force'],
        ['extract', { open: true }, '--open'],
        ['extract', { gate: 3 }, '--gate=3'],
        ['anything@challenger', {}, null], // an assignment, which needs no task
      ] as const
    ).map(([as, more, word]): [string, object, () => string[], null] => [
      'gate',
      { adapter: ID, as, ...more },
      () => [
        ...['adapters', 'promote', ID, `--as=${as}`, '--registry=/registry'],
        ...[...(word === null ? [] : [word]), '--transaction=JOB'],
      ],
      null,
    ]),
  ])('%s of %j', async (id, settings, args, run) => {
    const { args: said, run: made } = await prepare(id, settings);
    expect([said, made]).toEqual([args(), run]);
  });

  test.each<[kind: string, settings: object, code: string, param: string]>([
    ['run', { model: { name: 'x' } }, 'model', 'model.name'],
    ['run', { task: 'x' }, 'task', 'task'],
    ['run', { check: 'command:x' }, 'check', 'check'],
    ['run', { algorithm: { id: 'distill', teacher: 'x' } }, 'model', 'algorithm.teacher'],
    ['ablate', { settings: { task: 'x' } }, 'task', 'task'],
    ['train', { model: 'x', data: 'file-rows' }, 'model', 'model'],
    ['train', { data: 'x' }, 'file', 'data'],
    ['train', { data: 'file-rows', validationData: 'x' }, 'file', 'validationData'],
    ['eval', { model: 'x' }, 'model', 'model'],
    ['eval', { adapter: 'x' }, 'adapter', 'adapter'],
    ['eval', { task: 'x' }, 'task', 'task'],
    ['eval', { check: 'x' }, 'check', 'check'],
    ['judge', { run: 'x' }, 'run', 'run'],
    ['judge', { run: 'mine', model: 'x' }, 'model', 'model'],
    ['judge', { run: 'mine', task: 'x' }, 'task', 'task'],
    ['judge', { run: 'mine', check: 'x' }, 'check', 'check'],
    ['truth', { model: 'x' }, 'model', 'model'],
    ['truth', { adapter: 'x' }, 'adapter', 'adapter'],
    ['truth', { predictor: 'x' }, 'model', 'predictor'],
    ['truth', { judge: 'x' }, 'model', 'judge'],
    ['truth', { examples: 'x' }, 'file', 'examples'],
    ['truth-train', { domain: ['urns'], model: 'x' }, 'model', 'model'],
    ['truth-train', { runs: ['truth-1', 'x'], by: 'y' }, 'run', 'runs.1'],
    ['truth-analyze', { analyzer: 'results-catalog', runs: ['truth-1', 'mine'] }, 'run', 'runs.1'],
    [
      'truth-analyze',
      { analyzer: 'performance-comparison', runs: ['truth-1'], outside: 'x' },
      'file',
      'outside',
    ],
    [
      'truth-analyze',
      { analyzer: 'training-causal-effect', runs: ['truth-1'], after: ['x'] },
      'run',
      'after.0',
    ],
    [
      'truth-analyze',
      { analyzer: 'token-level-evidence', runs: ['truth-1'], trajectory: 't', model: 'x' },
      'model',
      'model',
    ],
    [
      'truth-analyze',
      { analyzer: 'token-level-evidence', runs: ['truth-1'], trajectory: 't', adapter: 'x' },
      'adapter',
      'adapter',
    ],
    ['eval', { backend: 'x' }, 'backend', 'backend'],
    ['eval', { backend: 'command:x' }, 'backend', 'backend'],
    ['gate', { adapter: ID, as: 'extract', model: 'x' }, 'model', 'model'],
    ['gate', { adapter: ID, as: 'x@champion' }, 'task', 'as'],
    ['gate', { adapter: ID, as: 'extract', task: 'x' }, 'task', 'task'],
  ])(
    '%s of %j: the setting that names what it may not is named',
    async (id, settings, code, param) => {
      await expect(prepare(id, settings)).rejects.toMatchObject({
        name: 'NotAllowed',
        code: `${code}_not_allowed`,
        param: `settings.${param}`,
        message: expect.stringMatching(/^"(?:x|mine|command:x)"/),
      });
    },
  );

  test.each<[kind: string, settings: object, message: string]>([
    ['truth', { policy: 'human' }, 'settings: '],
    ['truth', { domain: ['/events.json'] }, 'settings.domain.0: '],
    ['truth', { recompute: ['beliefs=twice'] }, 'settings.recompute.0: '],
    ['truth-train', { domain: ['urns'], rows: '/rows.jsonl' }, 'settings: '],
    [
      'truth-train',
      { domain: ['urns'], lr: 0.1, learningRate: 0.1 },
      'learningRate: it is also given',
    ],
    ['truth-train', {}, 'settings: give either domain or runs'],
    [
      'truth-train',
      { domain: ['urns'], runs: ['truth-1'], by: 'x' },
      'settings: give either domain or runs',
    ],
    ['truth-train', { runs: ['truth-1'] }, 'settings: by: required with runs, and only there'],
    [
      'truth-train',
      { domain: ['urns'], by: 'x' },
      'settings: by: required with runs, and only there',
    ],
    [
      'truth-analyze',
      { analyzer: 'token-level-evidence', runs: ['r'] },
      'settings: trajectory: required for token-level-evidence, and only there',
    ],
    [
      'truth-analyze',
      { analyzer: 'results-catalog', runs: ['r'], trajectory: 't' },
      'settings: trajectory: required for token-level-evidence',
    ],
    [
      'truth-analyze',
      { analyzer: 'training-causal-effect', runs: ['r'] },
      'settings: after: required for training-causal-effect',
    ],
    [
      'truth-analyze',
      { analyzer: 'results-catalog', runs: ['r'], after: ['r'] },
      'settings: after: required for training-causal-effect',
    ],
    ...['model', 'adapter'].map(
      (name) =>
        [
          'truth-analyze',
          { analyzer: 'results-catalog', runs: ['r'], [name]: 'x' },
          'model, adapter and every are only for',
        ] as [string, object, string],
    ),
    [
      'truth-analyze',
      { analyzer: 'results-catalog', runs: ['r'], every: 2 },
      'model, adapter and every are only for token-level-evidence',
    ],
    [
      'truth-analyze',
      { analyzer: 'performance-comparison', runs: ['r'], group: ['a'] },
      'settings.group.0: a group is written NAME=PART',
    ],
    [
      'gate',
      { adapter: 'ab', as: 'extract' },
      'settings.adapter: expected the full id of a published adapter',
    ],
    ['gate', { adapter: ID, as: 'a@b@c' }, 'settings.as: "a@b@c" is not an alias'],
    ['gate', { adapter: ID, as: 'extract', open: true, force: true }, 'force: '],
    ['gate', { adapter: ID, as: 'extract', policy: '/policy.json' }, 'settings: '],
    ['gate', { adapter: ID, as: 'extract', evidence: '/trials.json', gate: 1 }, 'settings: '],
    ['gate', { adapter: ID, as: 'extract', guards: '/guards.json', gate: 1 }, 'settings: '],
    ['gate', { adapter: ID, as: 'extract', registry: '/elsewhere' }, 'settings: '],
    [
      'train',
      { data: 'file-rows', lr: 1, learningRate: 1 },
      'learningRate: it is also given as lr',
    ],
    ['train', { data: 'file-rows', objective: 'dpo', elite: 0.5 }, 'objective: dpo learns pairs'],
    [
      'train',
      { data: 'file-rows', validation: 0.1, validationData: 'file-more' },
      'validationData: it replaces the share',
    ],
    ...['out', 'resume', 'force', 'overwrite', 'dryRun'].map(
      (name) =>
        ['train', { data: 'file-rows', [name]: true }, 'settings: there is no "'] as [
          string,
          object,
          string,
        ],
    ),
    ['run', [], 'settings: '],
    ['ablate', { settings: 'x' }, 'settings: there is no such setting'],
    ['eval', { nothing: 1 }, 'settings: '],
    ['eval', { samples: 4, k: '4,1' }, 'k: expected ascending whole numbers from 1 to 4'],
    ['eval', { samples: 4, k: '1,8' }, 'k: expected ascending whole numbers from 1 to 4'],
    ['eval', { k: 'all' }, 'settings.k: expected whole numbers such as 1,4'],
    ['eval', { context: 256, contextTokens: 256 }, 'contextTokens: it is also given as context'],
    ['eval', { keyEnv: 'HF_TOKEN' }, 'settings: there is no "keyEnv"'],
    ['eval', { insecure: true }, 'settings: there is no "insecure"'],
    ['eval', { record: '/tmp/x' }, 'settings: there is no "record"'],
    [
      'eval',
      { backend: 'paid', model: 'base' },
      'model: it has no effect with the back end openai',
    ],
    ['eval', { out: '/tmp/x' }, 'settings: there is no "out"'],
    ['eval', { registry: '/tmp/x' }, 'settings: there is no "registry"'],
  ])('%s of %j is refused', async (id, settings, message) => {
    await expect(prepare(id, settings)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    });
  });

  /** Settings with which a kind is accepted; a text is put in the place of one of them. */
  const ACCEPTED: Readonly<Record<string, object>> = {
    train: { data: 'file-rows' },
    judge: { run: 'mine' },
    'truth-train': { runs: ['truth-1'], by: 'martingale' },
    'truth-analyze': { analyzer: 'results-catalog', runs: ['truth-1'] },
    gate: { adapter: ID, as: 'extract' },
  };
  const OPENS = [
    '/etc/hostname',
    '../../package.json',
    'file:///etc/hostname',
    './task.mjs',
    'python:task:checker',
    'http://127.0.0.1:9/model.gguf',
    'hf:owner/model:q4_k_m',
    '$HOME',
    '%ISOPRO_API_KEY%',
    '$(touch opened)',
    'node',
  ];
  const texts = JOB_KINDS.flatMap(({ id, settings }) =>
    textsOf(fieldOf(settings)).map((text) => [id, text.at, text] as const),
  );

  test.each(texts)(
    'of %s: %s opens nothing that the server has not named',
    async (id, at, text) => {
      const accepted = ACCEPTED[id] ?? {};
      await expect(prepare(id, accepted)).resolves.toBeDefined();
      for (const value of OPENS) {
        const asked = withText(accepted, text, value);
        const came = await prepare(id, asked).then(
          ({ work }) => work.settings,
          (error: unknown) => error,
        );
        if (came instanceof Error) continue;
        // it is free text or a word, and goes to its own setting alone
        const isText = FREE.has(at) || (text.field.pattern !== undefined && value === 'node');
        expect([id, value, isText]).toEqual([id, value, true]);
        const without = { ...(came as object), ...(came as { sampling?: object }).sampling };
        const others = Object.entries(without).filter(
          ([name]) => name !== at.split('.').at(-1) && name !== 'sampling',
        );
        expect(JSON.stringify(others)).not.toContain(JSON.stringify(value));
      }
    },
  );

  test('it counts with weights, keys and values of the context, what training is given, and 200 MiB for the process', async () => {
    const bytesOf = async (id: string, settings: object): Promise<number> =>
      (await prepare(id, settings)).memoryBytes;
    /**
     * Of a context that nobody has stated: as many tokens as have a gibibyte of keys and values.
     */
    const whole = Math.floor(2 ** 30 / perToken) * perToken;
    const file = weights + whole + OVERHEAD;
    const download = 0.49e9 + 2 ** 30 + OVERHEAD;
    const second = (await inspectModel(other)).types.reduce((sum, { bytes }) => sum + bytes, 0);
    const grading = second + 4096 * perToken; // beside the model that it grades, in one process
    expect(await bytesOf('eval', { context: 1000 })).toBe(weights + 1000 * perToken + OVERHEAD);
    expect(await bytesOf('eval', {})).toBe(file);
    expect(await bytesOf('eval', { check: 'model:file-grader' })).toBe(file + grading);
    expect(await bytesOf('eval', { model: 'absent' })).toBe(download);
    // at least so many tokens
    expect(await bytesOf('eval', { model: 'wide' })).toBe(weights + 4096 * wideToken + OVERHEAD);
    // the job says what is wrong with it
    expect(await bytesOf('eval', { model: 'nothing' })).toBe(2 ** 30 + OVERHEAD);
    expect(await bytesOf('judge', { run: 'mine' })).toBe(file);
    expect(await bytesOf('judge', { run: 'mine', check: 'model:file-grader' })).toBe(
      file + grading,
    );
    expect(await bytesOf('train', { data: 'file-rows' })).toBe(weights + 600 * MIB + OVERHEAD);
    expect(await bytesOf('truth-train', { domain: ['urns'] })).toBe(file + 600 * MIB);
    expect(await bytesOf('truth', {})).toBe(file);
    expect(await bytesOf('truth', { contextTokens: 128 })).toBe(
      weights + 128 * perToken + OVERHEAD,
    );
    expect(await bytesOf('truth', { predictor: 'base', judge: 'absent' })).toBe(
      2 * file + download,
    );
    expect(await bytesOf('truth-analyze', { analyzer: 'results-catalog', runs: ['truth-1'] })).toBe(
      OVERHEAD,
    );
    expect(
      await bytesOf('truth-analyze', {
        analyzer: 'token-level-evidence',
        runs: ['truth-1'],
        trajectory: 't',
      }),
    ).toBe(file);
    expect(await bytesOf('gate', { adapter: ID, as: 'extract' })).toBe(file);
    expect(await bytesOf('gate', { adapter: ID, as: 'extract', force: true })).toBe(OVERHEAD);
    // as the profile of a small model says, or as it is stated
    const small = weights + 8192 * perToken + 264_000_000 + OVERHEAD;
    expect(await bytesOf('run', {})).toBe(small);
    expect(await bytesOf('run', { check: 'model:file-grader' })).toBe(small + grading);
    expect(await bytesOf('ablate', {})).toBe(small);
    const stated = {
      model: { contextTokens: 500 },
      layers: { trainerMemory: 3_000_000, boundaryMemory: 50_000 },
    };
    expect(await bytesOf('run', stated)).toBe(weights + 500 * perToken + 3_050_000 + OVERHEAD);
  });

  test('whoever asks what it would be sees names as it was asked for, and what follows from the model', async () => {
    const of = async (id: string, settings: object): Promise<unknown> =>
      (await prepare(id, settings)).resolved;
    expect(await of('train', { data: 'file-rows', rank: 2 })).toEqual({
      model: 'base',
      data: 'file-rows',
      rank: 2,
    });
    expect(await of('train', { data: 'file-rows', lr: 0.1, batch: 2, top: 1 })).toEqual({
      ...{ model: 'base', data: 'file-rows', learningRate: 0.1, batchSize: 2, topLayers: 1 },
    });
    expect(await of('train', { data: 'file-rows', validationData: 'file-more' })).toMatchObject({
      validationData: 'file-more',
    });
    expect(await of('eval', { check: 'exact' })).toEqual({
      model: 'base',
      task: 'scheduling',
      check: 'exact',
    });
    expect(await of('judge', { run: 'mine', model: 'second' })).toEqual({
      run: 'mine',
      model: 'second',
    });
    expect(await of('gate', { adapter: ID, as: 'extract' })).toEqual({
      adapter: ID,
      as: 'extract',
      problems: 100,
      model: 'base',
    });
    const forced = { adapter: ID, as: 'extract', force: true };
    expect(await of('gate', forced)).toEqual(forced);
    expect(await of('truth', { adapter: 'kind' })).toMatchObject({
      model: 'base',
      adapter: 'kind',
      problems: 20,
    });
    expect(await of('truth', {})).not.toHaveProperty('adapter');
    expect(await of('truth-train', { domain: ['urns'] })).toEqual({
      domain: ['urns'],
      model: 'base',
    });
    expect(await of('truth-train', { runs: ['truth-1'], by: 'x' })).toEqual({
      runs: ['truth-1'],
      by: 'x',
      model: 'base',
    });
    const catalog = { analyzer: 'results-catalog', runs: ['truth-1'] };
    expect(await of('truth-analyze', catalog)).toEqual(catalog);
    const causal = { analyzer: 'training-causal-effect', runs: ['truth-1'], after: ['truth-2'] };
    expect(await of('truth-analyze', causal)).toEqual(causal);
    const tokens = { analyzer: 'token-level-evidence', runs: ['truth-1'], trajectory: 't' };
    expect(await of('truth-analyze', tokens)).toEqual({ ...tokens, model: 'base' });
    expect(await of('run', {})).toMatchObject({ profile: 'small', model: { contextTokens: 8192 } });
    const ablation = (await of('ablate', { seeds: ['5'], settings: { seed: '9' } })) as {
      settings: { seed: string };
    };
    expect(ablation).toMatchObject({ seeds: ['5'] });
    expect(ablation.settings.seed).not.toBe('9');
  });

  test('names: whoever is refused is told which there are, thirty of them at most', () => {
    const said = (work: () => unknown): string => {
      try {
        return `taken: ${String(work())}`;
      } catch (error) {
        return (error as Error).message;
      }
    };
    const many = new Names(
      {
        ...names.allowed,
        models: new Map(Array.from({ length: 31 }, (_, i) => [`m${i}`, '/m'])),
        adapters: new Map(),
        tasks: new Map(),
        registry: undefined,
      },
      { isAdmin: true, adapterOf: () => null, mayRead: () => true, fileOf: () => null },
    );
    const thirty = Array.from({ length: 30 }, (_, i) => `m${i}`).join(', ');
    const long = 'x'.repeat(101);
    expect(said(() => many.model(long, 'p'))).toBe(
      `"${'x'.repeat(100)}" is not a model of this server (${thirty}); start the server with --allow-model to add it`,
    );
    expect(said(() => many.adapter('x', 'p'))).toBe(
      '"x" is neither an adapter of this server (none) nor a job of this key that produced one',
    );
    expect(many.tasks()).toEqual([...BUILT_IN_IDS]);
    expect(names.tasks()).toEqual([...BUILT_IN_IDS, 'sums']);
    expect(said(() => names.task('x', 'p'))).toBe(
      `"x" is neither a task of this server (${names.tasks().join(', ')}) nor the id of an uploaded file of rows; ` +
        `start the server with --allow-task to add it`,
    );
    expect(said(() => names.adapter('x', 'p'))).toContain('of this server (kind)');
    expect(said(() => many.registry('p'))).toBe(
      'this server has no registry; start it with --registry',
    );
    expect(said(() => names.file('x', 'p'))).toBe(
      '"x" is not a file that was uploaded with this key',
    );
    expect(names.file('file-rows', 'p')).toBe('/rows.jsonl');
    expect(said(() => names.check('model:file-large', 'p'))).toBe(
      '"model:file-large": a grader has at most 1048576 bytes',
    );
    writeFileSync(large, ' '.repeat(MIB));
    // it is no grader for another reason
    expect(said(() => names.check('model:file-large', 'p'))).not.toContain('at most');
    expect(names.check('json', 'p')).toBe('json');
    for (const check of ['json:x', 'model:x', 'command:rm'])
      expect(said(() => names.check(check, 'p'))).toBe(
        `"${check}": requests can only use checks that run no program and read no file except an upload (json:ID, model:ID)`,
      );
  });

  test('a run is named by its folder or by the job and its folder in it, by who may read it, and by no link or path', () => {
    const taken = (name: string): string | null => {
      try {
        return path.relative(runs, names.run(name, 'settings.run'));
      } catch (error) {
        expect(error).toMatchObject({ code: 'run_not_allowed', param: 'settings.run' });
        expect((error as Error).message).toBe(
          `${JSON.stringify(name.slice(0, 100))} is not a run of this key in the runs folder of this server`,
        );
        return null;
      }
    };
    for (const name of ['mine', 'job/seed-1', 'a'.repeat(201)]) expect(taken(name)).toBe(name);
    const strange = [
      'theirs',
      'job',
      'linked',
      '../runs/mine',
      'mine/.',
      './mine',
      'job/seed-1/x',
      '',
      '-x',
      'a'.repeat(202),
      'truth-1',
    ];
    for (const name of strange) expect([name, taken(name)]).toEqual([name, null]);
    expect(() => names.truthRun('mine', 'p')).toThrow(
      '"mine" is not a truth run of this key in the runs folder of this server',
    );
    expect(path.basename(names.truthRun('truth-1', 'p'))).toBe('truth-1');
  });
});

test('who may ask for each kind, and what is tried beforehand', () => {
  const rows = JOB_KINDS.map(({ id, isForAdmin = false, measure = null }) => [
    id,
    isForAdmin,
    measure,
  ]);
  expect(rows).toEqual([
    ['run', false, { dryRun: true }],
    ['train', false, { dryRun: true }],
    ['eval', false, null],
    ['judge', false, null],
    ['ablate', false, null],
    ['truth', false, null],
    ['truth-train', false, null],
    ['truth-analyze', false, null],
    ['gate', true, null],
  ]);
});

test('a job that is begun again goes on with what lies on the disk, and a result names the adapter that was made', () => {
  const place = path.join(folder, 'again');
  mkdirSync(place);
  const again = (id: string): object =>
    kindOf(id).again!({ names: undefined as never, id: 'JOB', folder: place });
  expect(again('train')).toEqual({ force: true });
  writeFileSync(path.join(place, 'adapter.gguf.state'), '');
  expect(again('train')).toEqual({ resume: true });
  expect(kindOf('gate').again!({} as never)).toEqual({ resume: true });
  expect(kindOf('run').adapterOf!({ adapter: { file: '/a' } })).toBe('/a');
  for (const id of ['train', 'truth-train'])
    expect(kindOf(id).adapterOf!({ adapter: '/a' })).toBe('/a');
  for (const id of ['run', 'train', 'truth-train'])
    for (const result of [null, {}, { adapter: null }])
      expect(kindOf(id).adapterOf!(result)).toBeNull();
});
