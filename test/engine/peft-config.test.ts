/**
 * Members of PEFT's configuration: which say what is followed, which say nothing, and which make it
 * no plain LoRA.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import {
  moduleValue,
  PEFT_MEMBERS,
  readPeftConfig,
  type PeftConfig,
} from '../../src/engine/peft-config.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-peft-'));
afterAll(() => rmSync(folder, { recursive: true }));

const PLAIN = { peft_type: 'LORA', r: 8, lora_alpha: 16 };
function read(members: object): Promise<PeftConfig> {
  const file = path.join(folder, 'adapter_config.json');
  writeFileSync(file, JSON.stringify({ ...PLAIN, ...members }));
  return readPeftConfig(file);
}

/** As PEFT 0.21.2 saves a plain one. */
const SAVED = {
  alora_invocation_tokens: null,
  alpha_pattern: {},
  arrow_config: null,
  auto_mapping: null,
  base_model_name_or_path: 'base',
  bias: 'none',
  corda_config: null,
  ensure_weight_tying: false,
  eva_config: null,
  exclude_modules: null,
  fan_in_fan_out: false,
  inference_mode: true,
  init_lora_weights: true,
  kasa_config: null,
  layer_replication: null,
  layers_pattern: null,
  layers_to_transform: null,
  loftq_config: {},
  lora_alpha: 16,
  lora_bias: false,
  lora_dropout: 0.05,
  lora_ga_config: null,
  megatron_config: null,
  megatron_core: 'megatron.core',
  modules_to_save: null,
  monteclora_config: null,
  peft_type: 'LORA',
  peft_version: '0.21.2',
  qalora_group_size: 16,
  r: 8,
  rank_pattern: {},
  revision: null,
  target_modules: ['q_proj', 'v_proj'],
  target_parameters: null,
  task_type: 'CAUSAL_LM',
  trainable_token_indices: null,
  use_bdlora: null,
  use_dora: false,
  use_qalora: false,
  use_rslora: false,
  velora_config: null,
};

test('invocation tokens are read, and a list that is none is refused', async () => {
  expect((await read(SAVED)).invocationTokens).toEqual([]);
  expect((await read({ alora_invocation_tokens: [5, 6] })).invocationTokens).toEqual([5, 6]);
  for (const tokens of [[], [-1], [2 ** 31], ['5'], [0.5], 5, Array.from({ length: 257 }, () => 1)])
    await expect(read({ alora_invocation_tokens: tokens })).rejects.toMatchObject({
      code: 'ADAPTER_CORRUPT',
      message: expect.stringContaining('alora_invocation_tokens') as unknown,
    });
});

test('every member that PEFT saves is in the table', async () => {
  expect(Object.keys(SAVED).filter((name) => !Object.hasOwn(PEFT_MEMBERS, name))).toEqual([]);
  expect(await read(SAVED)).toMatchObject({
    baseName: 'base',
    rank: 8,
    alpha: 16,
    stabilised: false,
  });
});

describe('a member that changes what the factors do is refused by its name', () => {
  test.each<[string, readonly unknown[]]>([
    [
      'init_lora_weights',
      ['pissa', 'pissa_niter_16', 'olora', 'corda', 'loftq', 'lora_ga', 'mica', 'newer'],
    ],
    [
      'layer_replication',
      [
        [
          [0, 4],
          [2, 5],
        ],
      ],
    ],
    ['use_dora', [true]],
    ['use_qalora', [true]],
    ['lora_bias', [true]],
    ['bias', ['all', 'lora_only']],
    ['fan_in_fan_out', [true]],
    ['modules_to_save', [['lm_head']]],
    ['trainable_token_indices', [[1], { embed_tokens: [0] }]],
    ['target_parameters', [['experts.gate_up_proj']]],
    ['arrow_config', [{ top_k: 3 }]],
    ['kasa_config', [{}]],
    ['use_bdlora', [{ nblocks: 2 }]],
    ['corda_config', [{ corda_method: 'kpm' }]],
    ['ensure_weight_tying', [true]],
    ['a_newer_member', [true, 'on', 1, [0]]],
  ])('%s', async (name, values) => {
    for (const value of values)
      await expect(read({ [name]: value })).rejects.toThrow(
        expect.objectContaining({
          code: 'ADAPTER_CORRUPT',
          message: expect.stringContaining(`${name} is `) as unknown,
        }),
      );
  });

  test('several at once are all named', async () => {
    await expect(read({ use_dora: true, init_lora_weights: 'olora' })).rejects.toThrow(
      /use_dora is true; init_lora_weights is "olora"/,
    );
  });
});

test('a member that says nothing is let be, known or not', async () => {
  for (const value of [null, false, [], {}, '']) await read({ a_newer_member: value });
  for (const init of [false, 'gaussian', 'eva', 'orthogonal'])
    await read({ init_lora_weights: init, eva_config: { rho: 2 } });
  await read({
    layers_to_transform: [0, 1],
    exclude_modules: ['lm_head'],
    runtime_config: { ephemeral_gpu_offload: true },
  });
});

describe('patterns', () => {
  const value = async (pattern: Record<string, number>, name: string): Promise<number> =>
    moduleValue((await read({ alpha_pattern: pattern })).alphas, name, 16);

  test('name modules, or their ends', async () => {
    expect(await value({ q_proj: 4 }, 'layers.3.self_attn.q_proj')).toBe(4);
    expect(await value({ 'self_attn.q_proj': 4 }, 'layers.3.self_attn.q_proj')).toBe(4);
    expect(
      await value({ 'layers\\.3\\.self_attn\\.q_proj$': 4 }, 'layers.3.self_attn.q_proj'),
    ).toBe(4);
    expect(await value({ '^model.layers.3.mlp.up_proj': 4 }, 'layers.3.mlp.up_proj')).toBe(4);
    expect(await value({ '^layers.3.mlp.up_proj': 4 }, 'layers.3.mlp.up_proj')).toBe(16);
    expect(await value({ proj: 4 }, 'layers.3.mlp.up_proj')).toBe(16);
    expect(await value({ up_proj: 4, 'mlp.up_proj': 5 }, 'layers.3.mlp.up_proj')).toBe(4);
  });

  test.each([
    'layers\\.\\d+\\.mlp',
    '.*q_proj',
    '(q|k)_proj',
    'q_proj|k_proj',
    '[qk]_proj',
    '(a+)+$',
    'x{2}',
    '(?i)q_proj',
  ])('%s is an expression, and refused', async (key) => {
    for (const member of ['rank_pattern', 'alpha_pattern'])
      await expect(read({ [member]: { [key]: 4 } })).rejects.toThrow(/an unsupported expression/);
  });
});
