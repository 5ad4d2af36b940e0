import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { getLlama, LlamaGrammar, LlamaLogLevel, type Llama } from 'node-llama-cpp';
import { loadModel, type Model } from '../../src/engine/model.js';
import { writeSyntheticModel } from '../models/synthetic.js';

// node-llama-cpp runs llama.cpp's own grammar sampler: under the same grammar, both must choose the
// same tokens.

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-grammar-'));
const file = path.join(folder, 'model.gguf');
let llama: Llama;
let model: Model;

beforeAll(async () => {
  writeSyntheticModel(file, { architecture: 'llama' });
  llama = await getLlama({
    gpu: false,
    build: 'never',
    maxThreads: 1,
    logLevel: LlamaLogLevel.error,
  });
  model = await loadModel(file, {
    threads: 1,
    fixedThreads: true,
    contextTokens: 512,
    gpuLayers: 0,
  });
});
afterAll(async () => {
  await model.dispose();
  await llama.dispose();
  rmSync(folder, { recursive: true, force: true });
});

async function theirs(grammar: string, prompt: number[], count: number): Promise<number[]> {
  const reference = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  try {
    const context = await reference.createContext({ contextSize: 512, threads: 1 });
    const { LlamaGrammarEvaluationState } = await import('node-llama-cpp');
    const state = new LlamaGrammarEvaluationState({
      model: reference,
      grammar: new LlamaGrammar(llama, { grammar }),
    });
    const tokens: number[] = [];
    for await (const token of context
      .getSequence()
      .evaluate(prompt as never, { temperature: 0, grammarEvaluationState: state })) {
      tokens.push(token);
      if (tokens.length === count) break;
    }
    return tokens;
  } finally {
    await reference.dispose();
  }
}

async function ours(
  grammar: string,
  prompt: number[],
  count: number,
): Promise<{ tokens: number[]; text: string; finish: string }> {
  for await (const rollout of model.generate({
    prompts: [{ tokenIds: prompt }],
    maxTokens: count,
    sampling: { temperature: 0 },
    grammar,
  })) {
    return { tokens: [...rollout.tokenIds], text: rollout.text, finish: rollout.finish };
  }
  throw new Error('no rollout');
}

const GRAMMARS: readonly (readonly [name: string, gbnf: string, form: RegExp])[] = [
  ['a choice', 'root ::= "yes" | "no" | "perhaps"', /^(yes|no|perhaps)$/],
  [
    'counted repetitions',
    'root ::= [a-z]{3,5} "-" ([0-9]{2} ","?){2,3} "."',
    /^[a-z]{3,5}-([0-9]{2},?){2,3}\.$/,
  ],
  ['recursion', 'root ::= "(" (root | [a-c] | "x" root)* ")"', /^\([(abcx)]*$/],
  // Not negated sets: there llama.cpp also takes bytes that no UTF-8 text contains, such as 0xf9.
  [
    'characters of several bytes',
    'root ::= [ -@]{4} [à-ÿ☃]{2} [\\u4e00-\\u9fff] "😀" "end"',
    /^[ -@]{4}[à-ÿ☃]{2}[\u4e00-\u9fff]😀end$/u,
  ],
  [
    'an object',
    'root ::= "{" ws pair ("," ws pair)* "}"\npair ::= string ":" ws value\nvalue ::= string | number\nstring ::= "\\"" [a-z ]{0,6} ' +
      '"\\"" ws\nnumber ::= "-"? [1-9] [0-9]{0,3} ws\nws ::= " "?',
    /^\{ ?".*/,
  ],
];

describe('grammars', () => {
  test.each(GRAMMARS)('%s: the same tokens as llama.cpp', async (_name, gbnf, form) => {
    const prompt = [...model.tokenize('The judge reads')];
    const { tokens, text } = await ours(gbnf, prompt, 40);
    expect(text).toMatch(form);
    const reference = await theirs(gbnf, prompt, 40);
    // node-llama-cpp does not yield the token that ends the text.
    expect(tokens.slice(0, reference.length)).toEqual(reference);
    expect(tokens.length - reference.length).toBeLessThanOrEqual(1);
    expect(reference.length).toBeGreaterThan(0);
  });

  test('sampling stays within the grammar, in every sample', async () => {
    const texts: string[] = [];
    for await (const { text, finish } of model.generate({
      prompts: [{ tokenIds: model.tokenize('Q:') }],
      samples: 32,
      maxTokens: 64,
      grammar: 'root ::= ("ab" | "b" [0-9]){1,4} "é"? "!"',
    })) {
      expect(finish).toBe('stop');
      texts.push(text);
    }
    for (const text of texts) expect(text).toMatch(/^(ab|b[0-9]){1,4}é?!$/);
    expect(new Set(texts).size).toBeGreaterThan(8);
  });

  test('a JSON Schema gives JSON of that schema', async () => {
    const jsonSchema = {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 8 },
        count: { enum: [1, 2, 3] },
        flags: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 2 },
      },
    };
    for await (const { text, finish } of model.generate({
      prompts: [{ tokenIds: model.tokenize('Q:') }],
      samples: 8,
      maxTokens: 200,
      jsonSchema,
    })) {
      if (finish !== 'stop') continue;
      const parsed = JSON.parse(text) as { name: string; count: number; flags: boolean[] };
      expect([1, 2, 3]).toContain(parsed.count);
      expect(parsed.flags.length).toBeGreaterThan(0);
      expect(typeof parsed.name).toBe('string');
    }
  });

  test('negated sets and any character give well-formed text', async () => {
    const texts: string[] = [];
    for await (const { text } of model.generate({
      prompts: [{ tokenIds: model.tokenize('Q:') }],
      samples: 16,
      maxTokens: 64,
      grammar: 'root ::= [^a-z\\n]{4} . [^\\x00-\\x7f]{2} "end"',
    }))
      texts.push(text);
    for (const text of texts) expect(text).toMatch(/^[^a-z\n]{4}.[^\0-\x7f]{2}end$/su);
    expect(texts.join('')).not.toContain('\ufffd');
  });

  test('text in a grammar never becomes a control token', async () => {
    const { tokens, text } = await ours('root ::= "<|im_start|>"', [...model.tokenize('Q:')], 32);
    expect(text).toBe('<|im_start|>');
    expect(tokens.length).toBeGreaterThan(3);
  });

  test.each([
    ['root ::= root', 'root'],
    ['root ::= (root)', 'root'],
    ['root ::= "" root', 'root'],
    ['root ::= "a" root', 'root'],
    ['root ::= "x" | a\na ::= a', 'a'],
    ['root ::= "x" a\na ::= b\nb ::= a', 'a, b, root'],
  ])('%j: rules that no text completes are refused by name', async (gbnf, rules) => {
    await expect(ours(gbnf, [...model.tokenize('Q:')], 4)).rejects.toMatchObject({
      code: 'GRAMMAR_INVALID',
      message: expect.stringMatching(
        new RegExp(`^line \\d, column \\d+: no text completes the rule ${rules}:`),
      ),
    });
  });

  test.each([
    'root ::= (',
    'root ::= root "a"',
    'root ::= "a"{5,2}',
    'other ::= "a"',
    'root ::= "🙂\\q"',
  ])('%s is a typed error', async (gbnf) => {
    await expect(ours(gbnf, [...model.tokenize('Q:')], 4)).rejects.toMatchObject({
      name: 'IsoproError',
      code: 'GRAMMAR_INVALID',
    });
  });
});
