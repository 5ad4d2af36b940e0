/**
 * Adapters in PEFT's format, merged models, and what is refused. The safetensors reader and the row
 * order here are the test's own.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { covered } from '../models/covered.js';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
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
import {
  convertAdapter,
  createTrainer,
  inspectAdapter,
  inspectModel,
  loadModel,
  mergeAdapter,
  Random,
  type Trainer,
  type TrainSequence,
} from '../../src/index.js';
import { arrayOf, text } from '../../src/embedded/gguf.js';
import { weakenAdapter } from '../../src/engine/adapter-files.js';
import { prepareAdapter } from '../../src/engine/adapter-use.js';
import { writeAtomically } from '../models/write-atomically.js';
import { synthesizeAdapter, writeSyntheticAdapter } from '../models/adapter.js';
import {
  ARCHITECTURES,
  type Architecture,
  encodeModel,
  writeSyntheticModel,
  type TensorType,
} from '../models/synthetic.js';
import { TRAITS } from '../../src/embedded/architecture.js';

const FULL = process.env.ISOPRO_FULL === '1';
/** The table of architectures names each that was shown. */
const EXPERTS: readonly string[] = ['qwen3moe', 'gpt-oss'];
const ALL = FULL || process.env.ISOPRO_COVERED !== undefined;
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-adapters-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = (name: string): string => path.join(folder, name);
const hash = (at: string): string => createHash('sha256').update(readFileSync(at)).digest('hex');

function sequences(
  count: number,
  length: number,
  vocabulary: number,
  seed: bigint,
): TrainSequence[] {
  const random = new Random(seed);
  return Array.from({ length: count }, () => ({
    tokenIds: Int32Array.from({ length }, () => random.nextInteger(0, vocabulary - 1)),
    labelMask: Uint8Array.from({ length }, (_, t) => (t === 0 ? 0 : 1)),
  }));
}

async function code(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'nothing',
    (error: { code?: string; message: string }) => error.code ?? error.message,
  );
}

/** Ranks, scales and sets of modules that differ, with B other than 0. */
async function trained(
  at: string,
  vocabulary: number,
  architecture: Architecture = 'llama',
): Promise<Trainer> {
  const fused = TRAITS[architecture].fused === true;
  const trainer = await createTrainer(
    { path: at },
    {
      lora: { rank: { q: 4, k: 4, v: fused ? 4 : 2, down: 3 } },
      threads: 1,
      optimiser: { learningRate: 0.01 },
    },
  );
  for (let i = 0; i < 2; i++) await trainer.step(sequences(2, 16, vocabulary, BigInt(i)));
  await trainer.raiseRank(fused ? 'blk.0.attn_qkv' : 'blk.0.attn_q', 6);
  await trainer.rescale(fused ? 'blk.1.attn_qkv' : 'blk.1.attn_k', 0.3);
  return trainer;
}

interface Stored {
  readonly dtype: string;
  readonly shape: number[];
  readonly values: Float32Array;
}

function literalSafetensors(at: string): Record<string, Stored> {
  const bytes = readFileSync(at);
  const length = Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  expect((8 + length) % 8).toBe(0);
  expect(header.__metadata__).toEqual({ format: 'pt' });
  delete header.__metadata__;
  return Object.fromEntries(
    Object.entries(header).map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [begin, end],
        },
      ]) => [
        name,
        {
          dtype,
          shape,
          values: new Float32Array(
            bytes.buffer.slice(
              bytes.byteOffset + 8 + length + begin,
              bytes.byteOffset + 8 + length + end,
            ),
          ),
        },
      ],
    ),
  );
}

describe('PEFT', () => {
  test.each(ARCHITECTURES)(
    '%s: written, read and written again, bit for bit',
    async (architecture) => {
      const at = file('base.gguf');
      const shape = writeSyntheticModel(at, { architecture, heads: 4, keyValueHeads: 2 });
      await using trainer = await trained(at, shape.vocabularySize, architecture);
      const batch = sequences(2, 16, shape.vocabularySize, 9n);
      const before = await trainer.evaluate(batch);
      const digest = await trainer.exportPeft(file('peft'), { baseModel: 'someone/model' });
      expect(digest).toBe(hash(file('peft/adapter_model.safetensors')));
      await using other = await createTrainer(
        { path: at },
        { lora: { rank: 1, targets: ['o'] }, threads: 1 },
      );
      await other.importAdapter(file('peft'));
      expect(other.info.targets).toEqual(trainer.info.targets);
      expect(await other.evaluate(batch)).toEqual(before);
      expect(await other.exportPeft(file('again'), { baseModel: 'someone/model' })).toBe(digest);
      expect(readFileSync(file('again/adapter_config.json'))).toEqual(
        readFileSync(file('peft/adapter_config.json')),
      );
      covered(architecture, 'export');

      // The way over GGUF multiplies unequal scales into B, which rounds.
      await convertAdapter({
        model: at,
        adapter: file('peft'),
        format: 'gguf',
        out: file('peft.gguf'),
      });
      await trainer.exportAdapter(file('direct.gguf'));
      await using third = await createTrainer({ path: at }, { lora: { rank: 1 }, threads: 1 });
      await third.importAdapter(file('peft.gguf'));
      const losses = [(await third.evaluate(batch)).loss];
      await third.importAdapter(file('direct.gguf'));
      expect((await third.evaluate(batch)).loss).toBe(losses[0]);
      expect(losses[0]).toBeCloseTo(before.loss, 5);
    },
  );

  test('what is one matrix here is one projection there', async () => {
    const shape = writeSyntheticModel(file('phi3.gguf'), { architecture: 'phi3' });
    writeSyntheticAdapter(file('phi3-adapter.gguf'), shape, { rank: 2 });
    const out = file('phi3-peft');
    await convertAdapter({
      model: file('phi3.gguf'),
      adapter: file('phi3-adapter.gguf'),
      format: 'peft',
      out,
    });
    const tensors = literalSafetensors(path.join(out, 'adapter_model.safetensors'));
    const of = (name: string): number[] =>
      tensors[`base_model.model.model.layers.0.${name}.lora_B.weight`]!.shape;
    expect(of('self_attn.qkv_proj')).toEqual([64 + 2 * 32, 2]);
    expect(of('mlp.gate_up_proj')).toEqual([256, 2]);
    expect(Object.keys(tensors)).toHaveLength(2 * 2 * 4);
    expect(JSON.parse(readFileSync(path.join(out, 'adapter_config.json'), 'utf8'))).toMatchObject({
      target_modules: ['down_proj', 'gate_up_proj', 'o_proj', 'qkv_proj'],
    });
  });

  test('names, shapes, configuration, and the rows of q and k as Hugging Face orders them', async () => {
    const interleaved = ['llama', 'smollm3', 'granite', 'mistral3'] as const;
    for (const architecture of [...interleaved, 'qwen2', 'olmo2'] as const) {
      const at = file('order.gguf');
      const shape = writeSyntheticModel(at, {
        architecture,
        layers: 2,
        heads: 4,
        keyValueHeads: 2,
        embedding: 64,
      });
      const out = file('order');
      writeSyntheticAdapter(file('order-adapter.gguf'), shape, { rank: 1, alpha: 2 });
      const bytes = readFileSync(file('order-adapter.gguf'));
      await convertAdapter({ model: at, adapter: file('order-adapter.gguf'), format: 'peft', out });
      const tensors = literalSafetensors(path.join(out, 'adapter_model.safetensors'));
      expect(Object.keys(tensors)).toHaveLength(2 * 2 * 7);
      const q = tensors['base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight']!;
      const k = tensors['base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight']!;
      const v = tensors['base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight']!;
      expect([q.shape, k.shape, v.shape]).toEqual([
        [64, 1],
        [32, 1],
        [32, 1],
      ]);
      expect(tensors['base_model.model.model.layers.0.mlp.down_proj.lora_A.weight']!.shape).toEqual(
        [1, 128],
      );

      // GGUF's B of rank 1 is a plain list of rows; heads have 16 dimensions. convert_hf_to_gguf
      // reshapes each head from [2, 8] to [8, 2] for those that derive from llama's class and
      // leaves the others.
      const { tensors: infos } = await inspectModel(file('order-adapter.gguf'));
      const data = infos.reduce((total, { bytes: size }) => total + Math.ceil(size / 32) * 32, 0);
      let offset = bytes.length - data;
      const rows: Record<string, Float32Array> = {};
      for (const { name, bytes: size } of infos) {
        rows[name] = new Float32Array(
          bytes.buffer.slice(bytes.byteOffset + offset, bytes.byteOffset + offset + size),
        );
        offset += Math.ceil(size / 32) * 32;
      }
      for (const [stored, gguf] of [
        [q, rows['blk.0.attn_q.weight.lora_b']!],
        [k, rows['blk.1.attn_k.weight.lora_b']!],
      ] as const) {
        const expected = new Float32Array(gguf.length);
        for (let head = 0; head < gguf.length / 16; head++) {
          for (let half = 0; half < 2; half++)
            for (let pair = 0; pair < 8; pair++)
              expected[head * 16 + half * 8 + pair] = gguf[head * 16 + pair * 2 + half]!;
        }
        expect(stored.values).toEqual(
          interleaved.some((name) => name === architecture) ? expected : gguf,
        );
      }
      expect(v.values).toEqual(rows['blk.1.attn_v.weight.lora_b']);
      expect(
        tensors['base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight']!.values,
      ).toEqual(rows['blk.0.attn_q.weight.lora_a']);
      expect(JSON.parse(readFileSync(path.join(out, 'adapter_config.json'), 'utf8'))).toMatchObject(
        {
          peft_type: 'LORA',
          r: 1,
          lora_alpha: 2,
          rank_pattern: {},
          alpha_pattern: {},
          use_rslora: false,
          layers_to_transform: null,
          target_modules: [
            'down_proj',
            'gate_proj',
            'k_proj',
            'o_proj',
            'q_proj',
            'up_proj',
            'v_proj',
          ],
        },
      );
    }
  });

  test('rank-stabilised scales, half precision and patterns of other writers', async () => {
    const at = file('foreign.gguf');
    writeSyntheticModel(at, { architecture: 'qwen2' });
    const out = file('foreign');
    mkdirSync(out);
    const tensor = (
      name: string,
      dtype: string,
      shape: number[],
      bytes: Buffer,
    ): { name: string; dtype: string; shape: number[]; bytes: Buffer } => ({
      name: `base_model.model.model.layers.1.self_attn.v_proj.${name}`,
      dtype,
      shape,
      bytes,
    });
    // 1.5 in F16 is 0x3e00, in BF16 0x3fc0.
    const parts = [
      tensor('lora_A.weight', 'F16', [4, 64], Buffer.alloc(512).fill(Buffer.from([0x00, 0x3e]))),
      tensor('lora_B.weight', 'BF16', [32, 4], Buffer.alloc(256).fill(Buffer.from([0xc0, 0x3f]))),
    ];
    let end = 0;
    const header = Object.fromEntries(
      parts.map(({ name, dtype, shape, bytes }) => [
        name,
        { dtype, shape, data_offsets: [end, (end += bytes.length)] },
      ]),
    );
    const json = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(json.length));
    writeFileSync(
      path.join(out, 'adapter_model.safetensors'),
      Buffer.concat([length, json, ...parts.map(({ bytes }) => bytes)]),
    );
    writeFileSync(
      path.join(out, 'adapter_config.json'),
      JSON.stringify({
        peft_type: 'LORA',
        r: 8,
        lora_alpha: 16,
        rank_pattern: { 'layers.1.self_attn.v_proj': 4 },
        alpha_pattern: { v_proj: 6 },
        use_rslora: true,
        target_modules: ['v_proj'],
      }),
    );
    await using trainer = await createTrainer({ path: at }, { threads: 1 });
    await trainer.importAdapter(out);
    expect(trainer.info.targets).toMatchObject([{ module: 'blk.1.attn_v', rank: 4, scale: 3 }]);
    // ||A|| = 1.5 sqrt(4 * 64), ||B|| = 1.5 sqrt(4 * 32); B A has 32 x 64 elements of 4 * 2.25, times 3.
    const { modules, parameters } = await inspectAdapter(out);
    expect(parameters).toBe(4 * 96);
    expect(modules[0]).toMatchObject({
      alpha: 12,
      normA: 24,
      normB: expect.closeTo(1.5 * Math.sqrt(128), 9),
      norm: expect.closeTo(27 * Math.sqrt(32 * 64), 6),
    });
  });

  (FULL ? test : test.skip)(
    'python reads what was written (numpy, or safetensors where it is installed)',
    async () => {
      const at = file('python.gguf');
      const shape = writeSyntheticModel(at, { architecture: 'llama' });
      await using trainer = await trained(at, shape.vocabularySize);
      await trainer.exportPeft(file('python'));
      const script = `
import sys, json, struct
try:
    import numpy
except ImportError:
    print('null'); sys.exit(0)
path = sys.argv[1]
try:
    from safetensors.numpy import load_file
    tensors = load_file(path)
except ImportError:
    raw = open(path, 'rb').read()
    n = struct.unpack('<Q', raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    header.pop('__metadata__', None)
    def tensor(entry):
        start, end = entry['data_offsets']
        return numpy.frombuffer(raw[8 + n:][start:end], '<f4').reshape(entry['shape'])
    tensors = {key: tensor(entry) for key, entry in header.items()}
p = 'base_model.model.model.layers.0.self_attn.q_proj.lora_'
print(json.dumps(float(numpy.linalg.norm(tensors[p + 'B.weight'] @ tensors[p + 'A.weight']))))
`;
      const { stdout, error } = spawnSync(
        'python3',
        ['-c', script, file('python/adapter_model.safetensors')],
        { encoding: 'utf8' },
      );
      const norm = error === undefined ? (JSON.parse(stdout) as number | null) : null;
      if (norm === null) return console.warn('skipped: python3 with numpy is not there');
      const module = (await inspectAdapter(file('python'))).modules.find(
        ({ name }) => name === 'blk.0.attn_q',
      )!;
      expect((module.norm * module.rank) / module.alpha).toBeCloseTo(norm, 4);
    },
  );
});

describe('merging', () => {
  /**
   * Mean difference in nats of llama.cpp's log-probabilities: merged model against base with
   * adapter, and base with adapter against base.
   */
  async function difference(
    at: string,
    adapter: string,
    merged: string,
    vocabulary: number,
  ): Promise<{ gap: number; moved: number }> {
    await using base = await loadModel(at, { threads: 1 });
    await using other = await loadModel(merged, { threads: 1 });
    const tokens = sequences(1, 32, vocabulary, 4n)[0]!.tokenIds;
    const score = async (model: typeof base): Promise<Float32Array> =>
      (await model.score(tokens.slice(0, 1), [tokens.slice(1)]))[0]!;
    const bare = await score(base);
    await base.setAdapter(await base.loadAdapter(adapter));
    const [expected, actual] = [await score(base), await score(other)];
    const mean = (a: Float32Array, b: Float32Array): number =>
      a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length;
    return { gap: mean(expected, actual), moved: mean(expected, bare) };
  }

  // docs/training.md, "Merging", has what was measured.
  test.each<[TensorType, 'f32' | 'f16' | 'q8_0', number]>([
    ['F32', 'f32', 0.001],
    ['F32', 'f16', 0.01],
    ['F16', 'f16', 0.01],
    ['F32', 'q8_0', 0.2],
    ['Q4_K', 'f16', 0.15],
    ['Q6_K', 'q8_0', 0.2],
  ])(
    '%s into %s: llama.cpp computes what it computes with base and adapter',
    async (from, type, bound) => {
      const at = file('merge.gguf');
      const every = ALL || (from === 'F32' && type === 'f16');
      for (const architecture of every ? ARCHITECTURES : (['llama', 'gemma2'] as const)) {
        // rounding to eight bits sends tokens to other experts, so that no mean bounds it
        if (type === 'q8_0' && EXPERTS.includes(architecture)) continue;
        const shape = writeSyntheticModel(at, { architecture, type: from });
        writeSyntheticAdapter(file('adapter.gguf'), shape, { rank: 4, alpha: 8, magnitude: 0.1 });
        const written = await mergeAdapter({
          model: at,
          adapter: file('adapter.gguf'),
          out: file('merged.gguf'),
          type,
        });
        expect(written.sha256).toBe(hash(file('merged.gguf')));
        const { gap, moved } = await difference(
          at,
          file('adapter.gguf'),
          file('merged.gguf'),
          shape.vocabularySize,
        );
        expect(moved).toBeGreaterThan(1);
        expect([architecture, gap < bound, gap]).toEqual([architecture, true, gap]);
        covered(architecture, 'merge');
      }
    },
  );

  test('a folder of PEFT merges like the GGUF', async () => {
    const at = file('both.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama', type: 'Q8_0' });
    writeSyntheticAdapter(file('both-adapter.gguf'), shape, { rank: 4, alpha: 8 });
    await convertAdapter({
      model: at,
      adapter: file('both-adapter.gguf'),
      format: 'peft',
      out: file('both'),
    });
    const one = await mergeAdapter({
      model: at,
      adapter: file('both-adapter.gguf'),
      out: file('one.gguf'),
      type: 'q8_0',
    });
    expect(
      (
        await mergeAdapter({
          model: at,
          adapter: file('both'),
          out: file('two.gguf'),
          type: 'q8_0',
        })
      ).sha256,
    ).toBe(one.sha256);
  });

  test('an adapter that acts from the reply on keeps its tokens in every file, and is merged by nothing', async () => {
    const at = file('activated-base.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama' });
    const activated = file('activated.gguf');
    writeSyntheticAdapter(activated, shape, { invocationTokens: [5, 6, 7] });
    expect((await inspectAdapter(activated)).invocationTokens).toEqual([5, 6, 7]);
    await convertAdapter({ adapter: activated, model: at, format: 'peft', out: file('as-peft') });
    const config = JSON.parse(
      readFileSync(path.join(file('as-peft'), 'adapter_config.json'), 'utf8'),
    ) as object;
    expect(config).toMatchObject({ alora_invocation_tokens: [5, 6, 7] });
    const back = file('activated-back.gguf');
    await convertAdapter({ adapter: file('as-peft'), model: at, format: 'gguf', out: back });
    expect((await inspectAdapter(back)).invocationTokens).toEqual([5, 6, 7]);
    const weaker = file('activated-weaker.gguf');
    await weakenAdapter(activated, { model: at, strength: 0.5, out: weaker });
    expect((await inspectAdapter(weaker)).invocationTokens).toEqual([5, 6, 7]);

    const lora = { rank: 4 };
    const invocationTokens = Int32Array.of(5, 6, 7);
    await using same = await createTrainer({ path: at }, { lora, threads: 1, invocationTokens });
    await same.importAdapter(activated);
    await same.exportAdapter(file('activated-again.gguf'));
    expect((await inspectAdapter(file('activated-again.gguf'))).invocationTokens).toEqual([
      5, 6, 7,
    ]);
    await using ordinary = await createTrainer({ path: at }, { lora, threads: 1 });
    const before = await ordinary.snapshot();
    await expect(ordinary.importAdapter(activated)).rejects.toMatchObject({
      code: 'ADAPTER_MISMATCH',
      message: expect.stringContaining('from its tokens 5, 6, 7 on') as unknown,
    });
    expect(await ordinary.snapshot()).toEqual(before);
    const model = await loadModel(at, { threads: 1, contextTokens: 64 });
    (await model.loadAdapter(activated)).dispose();
    await model.dispose();

    const merged = {
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/activated\.gguf acts from the reply on/) as unknown,
    };
    for (const merging of [
      () => mergeAdapter({ adapter: activated, model: at, out: file('activated-merged.gguf') }),
      () =>
        prepareAdapter({ for: 'lm-studio', adapter: activated, model: at, out: file('studio') }),
    ])
      await expect(merging()).rejects.toMatchObject(merged);
    expect(existsSync(file('activated-merged.gguf')) || existsSync(file('studio'))).toBe(false);
    for (const program of ['llama-server', 'ollama', 'transformers'] as const)
      expect(
        (
          await prepareAdapter({
            for: program,
            adapter: activated,
            model: at,
            out: file(`for-${program}`),
          })
        ).note,
      ).toMatch(/applies it to every token/);
  });

  test('tokens that are no invocation are refused by everything that reads an adapter', async () => {
    const at = file('not-activated-base.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama' });
    const { metadata, tensors } = synthesizeAdapter(shape);
    const model = await loadModel(at, { threads: 1, contextTokens: 64 });
    await using trainer = await createTrainer({ path: at }, { lora: { rank: 4 }, threads: 1 });
    const key = 'adapter.alora.invocation_tokens';
    const many = Array.from({ length: 257 }, () => 1);
    for (const [name, value] of [
      ['text', text('x')],
      ['signed', arrayOf('int32', [1])],
      ['none', arrayOf('uint32', [])],
      ['many', arrayOf('uint32', many)],
      ['large', arrayOf('uint32', [2 ** 31])],
    ] as const) {
      const strange = file(`strange-${name}.gguf`);
      writeAtomically(strange, encodeModel({ metadata: [...metadata, { key, value }], tensors }));
      for (const reading of [
        () => inspectAdapter(strange),
        () => trainer.importAdapter(strange),
        () => model.loadAdapter(strange),
      ])
        await expect(reading()).rejects.toMatchObject({
          code: 'ADAPTER_CORRUPT',
          message: expect.stringContaining(key) as unknown,
        });
    }
    const foreign = file('strange-foreign.gguf');
    writeSyntheticAdapter(foreign, shape, { invocationTokens: [shape.vocabularySize] });
    await expect(model.loadAdapter(foreign)).rejects.toMatchObject({ code: 'ADAPTER_MISMATCH' });
    await model.dispose();
  });

  test('what does not fit is refused and the older file stays', async () => {
    const at = file('narrow.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'qwen2' });
    writeSyntheticAdapter(file('narrow-adapter.gguf'), shape);
    writeSyntheticModel(file('wide.gguf'), { architecture: 'qwen2', embedding: 128 });
    writeSyntheticModel(file('shallow.gguf'), { architecture: 'qwen2', layers: 1 });
    writeSyntheticModel(file('stranger.gguf'), { architecture: 'qwen3' });
    const place = file('place');
    mkdirSync(place);
    const out = path.join(place, 'out.gguf');
    writeFileSync(out, 'older');
    const adapter = file('narrow-adapter.gguf');
    for (const model of ['wide.gguf', 'shallow.gguf', 'stranger.gguf']) {
      expect(await code(mergeAdapter({ model: file(model), adapter, out }))).toBe(
        'ADAPTER_MISMATCH',
      );
      expect(
        await code(
          convertAdapter({
            model: file(model),
            adapter,
            out: path.join(place, 'peft'),
            format: 'peft',
          }),
        ),
      ).toBe('ADAPTER_MISMATCH');
      await using trainer = await createTrainer({ path: file(model) }, { threads: 1 });
      const before = await trainer.snapshot();
      expect(await code(trainer.importAdapter(adapter))).toBe('ADAPTER_MISMATCH');
      expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);
    }
    expect(await code(mergeAdapter({ model: at, adapter, out: at }))).toBe('INVALID_ARGUMENT');
    expect(await code(mergeAdapter({ model: at, adapter: at, out }))).toBe('ADAPTER_MISMATCH');
    expect(await code(mergeAdapter({ model: at, adapter: file('absent.gguf'), out }))).toBe(
      'MODEL_NOT_FOUND',
    );
    expect(await code(mergeAdapter({ model: adapter, adapter, out }))).not.toBe('nothing');
    expect(readFileSync(out, 'utf8')).toBe('older');
    expect(readdirSync(place)).toEqual(['out.gguf']);
  });
});

describe('damaged PEFT folders', () => {
  let at: string;
  let good: { weights: Buffer; config: Buffer; header: number };
  let trainer: Trainer;
  beforeAll(async () => {
    at = file('damage.gguf');
    const shape = writeSyntheticModel(at, { architecture: 'llama' });
    trainer = await trained(at, shape.vocabularySize);
    await trainer.exportPeft(file('good'));
    const weights = readFileSync(file('good/adapter_model.safetensors'));
    good = {
      weights,
      config: readFileSync(file('good/adapter_config.json')),
      header: Number(weights.readBigUInt64LE()),
    };
  });
  afterAll(() => trainer.dispose());

  const write = (weights: Uint8Array, config: Uint8Array | string): string => {
    const place = file('bad');
    rmSync(place, { recursive: true, force: true });
    mkdirSync(place);
    writeFileSync(path.join(place, 'adapter_model.safetensors'), weights);
    writeFileSync(path.join(place, 'adapter_config.json'), config);
    return place;
  };
  type Header = Record<string, { dtype: string; shape: number[]; data_offsets: number[] }>;
  const withHeader = (change: (header: Header, names: string[]) => void): Buffer => {
    const header = JSON.parse(good.weights.toString('utf8', 8, 8 + good.header)) as Header;
    change(
      header,
      Object.keys(header).filter((name) => name !== '__metadata__'),
    );
    const json = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(json.length));
    return Buffer.concat([length, json, good.weights.subarray(8 + good.header)]);
  };
  const lengthOf = (value: bigint): Buffer => {
    const bytes = Buffer.from(good.weights);
    bytes.writeBigUInt64LE(value);
    return bytes;
  };
  const withNaN = (): Buffer => {
    const bytes = Buffer.from(good.weights);
    bytes.writeFloatLE(NaN, bytes.length - 4);
    return bytes;
  };

  test.each<[string, () => Buffer, string]>([
    ['an empty file', () => Buffer.alloc(0), 'ADAPTER_CORRUPT'],
    ['a file of seven bytes', () => good.weights.subarray(0, 7), 'ADAPTER_CORRUPT'],
    ['a cut header', () => good.weights.subarray(0, 100), 'ADAPTER_CORRUPT'],
    ['cut tensors', () => good.weights.subarray(0, good.weights.length - 1), 'ADAPTER_CORRUPT'],
    [
      'bytes after the end',
      () => Buffer.concat([good.weights, Buffer.alloc(1)]),
      'ADAPTER_CORRUPT',
    ],
    ['a header of 2^64 - 1 bytes', () => lengthOf(2n ** 64n - 1n), 'ADAPTER_CORRUPT'],
    ['a header of 2^40 bytes', () => lengthOf(2n ** 40n), 'ADAPTER_CORRUPT'],
    ['a header that ends early', () => lengthOf(BigInt(good.header - 20)), 'ADAPTER_CORRUPT'],
    [
      'a header that is a list',
      () => Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('[]')]),
      'ADAPTER_CORRUPT',
    ],
    [
      'nothing but a header',
      () => Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('{}')]),
      'ADAPTER_CORRUPT',
    ],
    [
      'overlapping tensors',
      () => withHeader((h, [a, b]) => (h[b!]!.data_offsets = h[a!]!.data_offsets)),
      'ADAPTER_CORRUPT',
    ],
    [
      'offsets beyond the file',
      () => withHeader((h, names) => (h[names.at(-1)!]!.data_offsets[1]! += 4)),
      'ADAPTER_CORRUPT',
    ],
    [
      'negative offsets',
      () => withHeader((h, [a]) => (h[a!]!.data_offsets[0] = -4)),
      'ADAPTER_CORRUPT',
    ],
    [
      'offsets that are no integers',
      () => withHeader((h, [a]) => (h[a!]!.data_offsets[0] = 0.5)),
      'ADAPTER_CORRUPT',
    ],
    [
      'a shape of another size',
      () => withHeader((h, [a]) => (h[a!]!.shape[0]! += 1)),
      'ADAPTER_CORRUPT',
    ],
    [
      'a shape whose product overflows',
      () => withHeader((h, [a]) => (h[a!]!.shape = [2 ** 40, 2 ** 40])),
      'ADAPTER_CORRUPT',
    ],
    ['another type', () => withHeader((h, [a]) => (h[a!]!.dtype = 'I32')), 'ADAPTER_CORRUPT'],
    [
      'one factor of a pair',
      () =>
        withHeader((h, [, b]) => {
          h['base_model.model.model.layers.9.mlp.up_proj.lora_A.weight'] = h[b!]!;
          delete h[b!];
        }),
      'ADAPTER_CORRUPT',
    ],
    [
      'a foreign tensor',
      () =>
        withHeader((h, [a]) => {
          h['base_model.model.lm_head.lora_A.weight'] = h[a!]!;
          delete h[a!];
        }),
      'ADAPTER_MISMATCH',
    ],
    ['NaN', withNaN, 'NUMERIC_FAILURE'],
  ])('%s', async (_, weights, expected) => {
    const before = await trainer.snapshot();
    expect(await code(trainer.importAdapter(write(weights(), good.config)))).toBe(expected);
    expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);
  });

  test.each<[string, string, string]>([
    ['no JSON', '{"r": 4', 'ADAPTER_CORRUPT'],
    ['a list', '[]', 'ADAPTER_CORRUPT'],
    ['no rank', '{"peft_type": "LORA", "lora_alpha": 8}', 'ADAPTER_CORRUPT'],
    ['another rank', '{"peft_type": "LORA", "r": 5, "lora_alpha": 8}', 'ADAPTER_CORRUPT'],
    ['a rank of text', '{"peft_type": "LORA", "r": "4", "lora_alpha": 8}', 'ADAPTER_CORRUPT'],
    ['alpha 0', '{"peft_type": "LORA", "r": 4, "lora_alpha": 0}', 'ADAPTER_CORRUPT'],
    ['another kind of adapter', '{"peft_type": "IA3"}', 'ADAPTER_CORRUPT'],
    ['DoRA', '{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_dora": true}', 'ADAPTER_CORRUPT'],
    [
      'trained biases',
      '{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "all"}',
      'ADAPTER_CORRUPT',
    ],
    [
      'saved modules',
      '{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "modules_to_save": ["lm_head"]}',
      'ADAPTER_CORRUPT',
    ],
  ])('a configuration with %s', async (_, config, expected) => {
    expect(await code(trainer.importAdapter(write(good.weights, config)))).toBe(expected);
  });

  test('a folder without its files', async () => {
    mkdirSync(file('hollow'));
    expect(await code(trainer.importAdapter(file('hollow')))).toBe('MODEL_NOT_FOUND');
    cpSync(file('good/adapter_config.json'), file('hollow/adapter_config.json'));
    expect(await code(trainer.importAdapter(file('hollow')))).toBe('MODEL_NOT_FOUND');
    mkdirSync(file('hollow/adapter_model.safetensors'));
    expect(await code(trainer.importAdapter(file('hollow')))).toBe('MODEL_NOT_FOUND');
  });

  test('mutants load or fail with a typed error, and a failure leaves the state', async () => {
    const random = new Random(77n);
    const outcomes: Record<string, number> = {};
    for (let i = 0; i < (FULL ? 3000 : 120); i++) {
      const weights = Buffer.from(good.weights);
      const config = Buffer.from(good.config);
      for (let n = random.nextInteger(1, 3); n > 0; n--) {
        // Half of them in the header, a quarter each in the configuration and in the tensors.
        const [target, begin, end] = (
          [
            [weights, 0, 8 + good.header],
            [weights, 0, 8 + good.header],
            [config, 0, config.length],
            [weights, 8 + good.header, weights.length],
          ] as const
        )[random.nextInteger(0, 3)]!;
        target[random.nextInteger(begin, end - 1)] = random.nextInteger(0, 255);
      }
      const cut =
        random.nextInteger(0, 9) === 0 ? random.nextInteger(0, weights.length) : weights.length;
      const before = await trainer.snapshot();
      const outcome = await code(trainer.importAdapter(write(weights.subarray(0, cut), config)));
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      if (outcome === 'nothing') await trainer.rollbackTo(before);
      else expect(Buffer.from(await trainer.snapshot()).equals(before)).toBe(true);
    }
    expect(
      Object.keys(outcomes).filter(
        (outcome) =>
          !['nothing', 'ADAPTER_CORRUPT', 'ADAPTER_MISMATCH', 'NUMERIC_FAILURE'].includes(outcome),
      ),
    ).toEqual([]);
    expect(outcomes.nothing).toBeGreaterThan(0);
    expect(outcomes.ADAPTER_CORRUPT).toBeGreaterThan(0);
  });
});
