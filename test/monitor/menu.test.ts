/**
 * The menu: each option can be given as an answer as it is, and does on a real trainer what it says
 * or fails with a typed error.
 */
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { createTrainer, type Trainer } from '../../src/engine/trainer.js';
import { IsoproError } from '../../src/errors.js';
import { checkDecision } from '../../src/monitor/decision.js';
import { Random } from '../../src/random.js';
import { TrainerExecutor, trainerSettings } from '../../src/trainees/lora/executor.js';
import { menu } from '../../src/trainees/lora/menu.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { MODULES } from '../models/rule-history.js';
import { randomContext } from '../models/random-context.js';
import { temporaryFolder } from '../models/signed-log.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const CONTEXTS = process.env.ISOPRO_FULL === '1' ? 10_000 : 500;
/** Contexts whose every option is executed. */
const EXECUTED = process.env.ISOPRO_FULL === '1' ? 1000 : 40;

const folder = temporaryFolder();
afterAll(folder.remove);

/** More modules than one decision can name. */
const MANY = Array.from({ length: 100 }, (_, i) => `blk.${i}.attn_k`);

test(`every option of ${CONTEXTS} random contexts passes the checker, and ids are unique and stable`, () => {
  const random = new Random(38n);
  const seen = new Map<string, Set<string>>();
  for (let i = 0; i < CONTEXTS; i++) {
    const context = randomContext(random, i % 10 === 0 ? MANY : MODULES);
    const options = menu(context);
    for (const { decision } of options) {
      const checked = checkDecision(decision, context.evaluations, LORA);
      expect(JSON.stringify(checked)).toBe(JSON.stringify(decision));
    }
    const ids = options.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(options.map(({ decision }) => JSON.stringify(decision))).size).toBe(ids.length);
    expect(ids.slice(-3)).toEqual(['defer 1', 'defer 3', 'defer 5']);
    expect(JSON.stringify(menu(structuredClone(context)))).toBe(JSON.stringify(options));
    checkDecision(scripted.decide(context), context.evaluations, LORA);
    const side = context.evaluations[0]!.rules[context.rule].side;
    const known = seen.get(`${context.rule} ${side}`) ?? new Set();
    for (const id of ids.slice(0, -3)) known.add(id);
    seen.set(`${context.rule} ${side}`, known);
  }
  const offered = [...seen].map(([at, ids]) => [at, [...ids].sort()] as const);
  expect(Object.fromEntries(offered)).toEqual({
    'R1 high': ['set_lr x1/10', 'set_lr x1/3', 'set_lr x1/5'],
    'R1 plateau': ['set_lr x1/10', 'set_lr x1/3', 'set_lr x1/5'],
    'R1 low': ['set_lr x1.5', 'set_lr x2', 'set_lr x3'],
    'R2 high': ['set_batch x2'],
    'R2 low': ['set_batch x1/2'],
    'R3 plateau': ['stop'],
    'R4 plateau': ['add_target', 'raise_rank x1.5', 'raise_rank x2', 'raise_rank x4'],
    'R5 high': ['recycle'],
    'R6 low': ['lr_mult x4', 'raise_precision', 'rebalance x4', 'rescale usual', 'rescale x4'],
    'R7 high': ['rollback', 'set_clip', 'set_lr x1/10, set_clip'],
    'R7 nonfinite': ['rollback', 'set_clip', 'set_lr x1/10, set_clip', 'skip_step'],
  });
});

test(`on a trainer every option of ${EXECUTED} contexts is executed, or fails with a typed error and the state as before`, async () => {
  const file = join(folder.path, 'tiny.gguf');
  writeSyntheticModel(file, { architecture: 'llama' });
  const create = (): Promise<Trainer> =>
    createTrainer(
      { path: file },
      {
        lora: { rank: 4, targets: ['q', 'v', 'down'] },
        optimiser: { learningRate: 1e-3 },
        threads: 1,
      },
    );
  await using trainer = await create();
  const modules = trainer.info.targets.map(({ module }) => module);
  const before = await trainer.snapshot();
  const sound = 'ab'.repeat(32);
  const probe = [{ tokenIds: Int32Array.of(1, 2, 3), labelMask: Uint8Array.of(0, 1, 1) }];
  const random = new Random(39n);
  const done = new Map<string, number>();
  for (let i = 0; i < EXECUTED; i++) {
    const drawn = randomContext(random, modules);
    // half of the contexts are this trainer's own state
    const own = trainerSettings(trainer, {
      learningRate: 1e-3,
      batchSize: 16,
      maxBatchSize: 64,
      maxGradNorm: 1,
      epsilon: 1e-8,
      bestAdapter: sound,
      lastSoundAdapter: sound,
    });
    const context = i % 2 === 0 ? { ...drawn, settings: own } : drawn;
    for (const { id, decision } of menu(context)) {
      const executor = new TrainerExecutor(trainer, {
        inForce: { learningRate: context.settings.learningRate, maxNorm: 1, epsilon: 1e-8 },
        loop: {
          setBatch: (n) => n,
          kept: (digest) => (digest === sound ? before : undefined),
          digest: async () => sound,
          stop: () => undefined,
        },
      });
      executor.begin({ probe, steps: [] });
      for (const operation of decision.edit) {
        const outcome = await executor.execute(operation).then(
          () => 'executed',
          (error: unknown) => {
            expect(error).toBeInstanceOf(IsoproError);
            return (error as IsoproError).code;
          },
        );
        done.set(`${id}: ${outcome}`, (done.get(`${id}: ${outcome}`) ?? 0) + 1);
      }
      await trainer.rollbackTo(before);
    }
  }
  expect([...done.keys()].filter((key) => !/: (executed|INVALID_ARGUMENT)$/.test(key))).toEqual([]);
  expect(
    ['set_lr x1/3', 'stop', 'add_target', 'lr_mult x4', 'rollback', 'set_clip'].filter(
      (id) => !done.has(`${id}: executed`),
    ),
  ).toEqual([]);
});
