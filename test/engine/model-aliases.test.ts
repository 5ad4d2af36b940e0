import { describe, expect, test } from '@jest/globals';
import { EMBEDDED_MODEL, MODEL_ALIASES } from '../../src/engine/model-aliases.js';
import { locateRemote } from '../../src/engine/model-location.js';

const ALIASES = Object.entries(MODEL_ALIASES);

/** Names without a number of parameters. */
const PARAMETERS: Readonly<Record<string, number>> = {
  'granite-4.0-micro': 3.4e9,
  'granite-4.0-h-micro': 3.2e9,
  'phi-4-mini': 3.8e9,
};

function parametersOf(name: string): number {
  const count = /-([\d.]+)([bm])$/.exec(name);
  return count === null ? PARAMETERS[name]! : Number(count[1]) * (count[2] === 'b' ? 1e9 : 1e6);
}

describe.each(ALIASES)('the alias %s', (name, { uri, approximateBytes, licence }) => {
  test('names one GGUF file in Q4_K_M on the hub', () => {
    expect(uri).toMatch(/^hf:[\w.-]+\/[\w.-]+-GGUF\/[\w.-]+-q4_k_m\.gguf$/i);
    expect(uri).not.toMatch(/-of-\d+\.gguf$/);
    expect(locateRemote(name)).toMatchObject({ name, url: expect.stringMatching(/^https?:/) });
  });

  test('says by its name which model the file holds', () => {
    const parts = (text: string): string[] => text.toLowerCase().split(/[^a-z0-9.]+/);
    const [, repository = '', file = ''] = uri.split('/');
    const held = parts(`${repository}-${file}`);
    for (const part of parts(name)) expect(held).toContain(part);
  });

  // embeddings are a large part of a small model, and have more bits than Q4_K_M's other matrices
  test('has 4.5 to 8 bits a parameter', () => {
    const bits = (8 * approximateBytes) / parametersOf(name);
    expect(bits).toBeGreaterThan(4.5);
    expect(bits).toBeLessThan(8);
  });

  test('has a licence by the name that the hub or SPDX gives it', () => {
    expect(['Apache-2.0', 'MIT', 'gemma', 'llama3.2', 'qwen-research']).toContain(licence);
  });
});

test('no two aliases stand for one file, and none hides the embedded model', () => {
  expect(new Set(ALIASES.map(([, { uri }]) => uri)).size).toBe(ALIASES.length);
  expect(Object.keys(MODEL_ALIASES)).not.toContain(EMBEDDED_MODEL);
});

test('makers who restrict the use of their models keep their own licences', () => {
  const of = (licence: string): string[] =>
    ALIASES.filter(([, alias]) => alias.licence === licence).map(([name]) => name);
  const named = (pattern: RegExp): string[] =>
    Object.keys(MODEL_ALIASES).filter((name) => pattern.test(name));
  expect(of('gemma')).toEqual(named(/^gemma/));
  expect(of('llama3.2')).toEqual(named(/^llama-3\.2/));
  expect(of('qwen-research')).toEqual(['qwen2.5-3b']);
});
