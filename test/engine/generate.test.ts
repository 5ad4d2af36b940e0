import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Rollout } from '../../src/engine/generation.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { collect, collectSorted, syntheticModel } from './fixtures.js';

/** Two spinning threads would crawl wherever tests share their cores with anything else. */
const ONE_THREAD = { threads: 1, fixedThreads: true };

let model: Model;
beforeAll(async () => {
  model = await loadModel(
    syntheticModel({ architecture: 'qwen2', type: 'Q8_0', seed: 3n }),
    ONE_THREAD,
  );
});
afterAll(() => model.dispose());

const prompt = (text: string): { tokenIds: Int32Array } => ({ tokenIds: model.tokenize(text) });
const tokensOf = (rollouts: { tokenIds: Int32Array }[]): number[][] =>
  rollouts.map(({ tokenIds }) => [...tokenIds]);

describe('a request', () => {
  const request = () => ({
    prompts: ['alpha', 'beta gamma', 'a longer prompt, with several words in it'].map(prompt),
    samples: 7,
    sampling: { temperature: 0.9, seed: 42n },
    maxTokens: 20,
    ignoreEndOfSequence: true,
  });

  test('gives identical token ids and order when repeated, whatever ran between', async () => {
    const first = await collect(model, request());
    await collect(model, { ...request(), samples: 3, maxTokens: 33 });
    await model.score([1, 2, 3], [[4, 5, 6]]);
    const second = await collect(model, request());
    expect(first).toHaveLength(21);
    expect(second.map(({ promptIndex, sampleIndex }) => [promptIndex, sampleIndex])).toEqual(
      first.map(({ promptIndex, sampleIndex }) => [promptIndex, sampleIndex]),
    );
    expect(tokensOf(second)).toEqual(tokensOf(first));
    expect(second.map(({ logprobs }) => [...logprobs])).toEqual(
      first.map(({ logprobs }) => [...logprobs]),
    );
  });

  test('draws each sample from its own seed: another request seed, other answers', async () => {
    const rollouts = await collectSorted(model, request());
    expect(new Set(rollouts.map(({ seed }) => seed)).size).toBe(21);
    expect(new Set(rollouts.map(({ tokenIds }) => tokenIds.join())).size).toBe(21);
    const other = await collectSorted(model, {
      ...request(),
      sampling: { temperature: 0.9, seed: 43n },
    });
    expect(tokensOf(other)).not.toEqual(tokensOf(rollouts));
  });

  test('uses the seeds that a prompt brings', async () => {
    const [a, b, c] = await collectSorted(model, {
      prompts: [{ ...prompt('alpha'), seeds: [5n, 6n, 5n] }],
      sampling: { temperature: 1 },
      maxTokens: 12,
      ignoreEndOfSequence: true,
    });
    expect([a!.seed, b!.seed, c!.seed]).toEqual(['5', '6', '5']);
    expect([...a!.tokenIds]).toEqual([...c!.tokenIds]);
    expect([...a!.tokenIds]).not.toEqual([...b!.tokenIds]);
  });

  test('queues what exceeds the cache and the 253 live sequences, without losing or repeating anything', async () => {
    await using small = await loadModel(model.path, { ...ONE_THREAD, contextTokens: 600 });
    const prompts = Array.from({ length: 40 }, (_, i) => ({
      tokenIds: small.tokenize(`prompt number ${i} `.repeat(1 + (i % 5))),
    }));
    const rollouts = await collectSorted(small, {
      prompts,
      samples: 9,
      sampling: { temperature: 0 },
      maxTokens: 10,
      ignoreEndOfSequence: true,
    });
    expect(rollouts.map(({ promptIndex, sampleIndex }) => promptIndex * 9 + sampleIndex)).toEqual(
      Array.from({ length: 360 }, (_, i) => i),
    );
    // All samples of a greedy prompt are the same text, and the same as when the prompt runs alone.
    const alone = await collectSorted(model, {
      prompts: [prompts[17]!],
      sampling: { temperature: 0 },
      maxTokens: 10,
      ignoreEndOfSequence: true,
    });
    for (const rollout of rollouts.filter(({ promptIndex }) => promptIndex === 17))
      expect([...rollout.tokenIds]).toEqual([...alone[0]!.tokenIds]);

    const many = await collect(model, {
      prompts: [prompt('alpha')],
      samples: 700,
      maxTokens: 3,
      ignoreEndOfSequence: true,
      sampling: { seed: 1n },
      maxSequences: 253,
    });
    expect(new Set(many.map(({ sampleIndex }) => sampleIndex)).size).toBe(700);
  });

  test.each([1, 2, 5])('runs at most %i sequences at once when told so', async (maxSequences) => {
    let most = 0;
    const rollouts = await collect(model, {
      ...request(),
      maxSequences,
      onProgress: ({ live }) => (most = Math.max(most, live)),
    });
    expect(rollouts).toHaveLength(21);
    expect(most).toBeLessThanOrEqual(maxSequences);
  });

  test('says the same bit for bit, whatever else is live and however many sequences the context holds', async () => {
    // Samples end at different steps, so that others take their places and the last ones move
    // together.
    const asked = {
      prompts: request().prompts,
      sampling: { seed: 9n },
      maxTokens: 40,
      stopTokens: [...model.tokenize('.,aei')],
    };
    const said = (rollouts: Awaited<ReturnType<typeof collectSorted>>): unknown[] =>
      rollouts.map(({ promptIndex, sampleIndex, tokenIds, logprobs }) => [
        promptIndex,
        sampleIndex,
        [...tokenIds],
        [...logprobs],
      ]);
    const expected = said(await collectSorted(model, { ...asked, samples: 23, maxSequences: 16 }));
    expect(
      new Set(expected.map((reply) => (reply as unknown[][])[2]!.length)).size,
    ).toBeGreaterThan(5);
    for (const maxSequences of [2, 64]) {
      expect(said(await collectSorted(model, { ...asked, samples: 23, maxSequences }))).toEqual(
        expected,
      );
    }
    // Room for one at a time, for three in one cache with a prompt, and for eight in caches of
    // their own.
    const longest = asked.prompts.reduce(
      (most, { tokenIds }) => Math.max(most, tokenIds.length),
      0,
    );
    expect(longest + asked.maxTokens).toBeLessThanOrEqual(128);
    for (const [contextTokens, live] of [
      [128, 1],
      [longest + 3 * (longest + asked.maxTokens), 3],
      [2304, 8],
    ] as const) {
      await using small = await loadModel(model.path, { ...ONE_THREAD, contextTokens });
      let most = 0;
      const onProgress = ({ live }: { live: number }): number => (most = Math.max(most, live));
      expect(
        said(await collectSorted(small, { ...asked, samples: 23, maxSequences: 16, onProgress })),
      ).toEqual(expected);
      expect(most).toBe(live);
    }
  });

  test('says the same bit for bit with two threads as with one', async () => {
    await using two = await loadModel(model.path, { threads: 2, fixedThreads: true });
    const [one, other] = [await collect(model, request()), await collect(two, request())];
    expect(tokensOf(other)).toEqual(tokensOf(one));
    expect(other.map(({ logprobs }) => [...logprobs])).toEqual(
      one.map(({ logprobs }) => [...logprobs]),
    );
  });

  test('evaluates each prompt once', async () => {
    const generation = model.generate(request());
    let result = await generation.next();
    while (result.done !== true) result = await generation.next();
    const promptTokens = request().prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    expect(result.value.promptTokens).toBe(promptTokens);
    expect(result.value.sampledTokens).toBe(21 * 20);
  });
});

describe('sampling', () => {
  /** Draws of the first token, against the exact distribution that score gives. */
  async function firstTokens(sampling: object, count: number): Promise<Map<number, number>> {
    const rollouts = await collect(model, {
      prompts: [prompt('The first')],
      samples: count,
      maxTokens: 1,
      sampling,
      ignoreEndOfSequence: true,
    });
    const counts = new Map<number, number>();
    for (const { tokenIds } of rollouts)
      counts.set(tokenIds[0]!, (counts.get(tokenIds[0]!) ?? 0) + 1);
    return counts;
  }

  async function distribution(temperature: number): Promise<number[]> {
    const all = Array.from({ length: model.info.vocabularySize }, (_, id) => [id]);
    const logprobs = (await model.score(prompt('The first').tokenIds, all)).map(
      (row) => row[0]! / temperature,
    );
    const top = Math.max(...logprobs);
    const total = logprobs.reduce((sum, x) => sum + Math.exp(x - top), 0);
    return logprobs.map((x) => Math.exp(x - top) / total);
  }

  /**
   * Pearson's statistic over the cells that expect at least 8 draws, the rest pooled; returns
   * [statistic, degrees].
   */
  function chiSquare(
    counts: Map<number, number>,
    expected: number[],
    draws: number,
  ): [number, number] {
    let statistic = 0;
    let cells = 0;
    let restCount = draws;
    let restExpected = draws;
    expected.forEach((p, id) => {
      if (p * draws < 8) return;
      statistic += ((counts.get(id) ?? 0) - p * draws) ** 2 / (p * draws);
      restCount -= counts.get(id) ?? 0;
      restExpected -= p * draws;
      cells++;
    });
    if (restExpected >= 8) {
      statistic += (restCount - restExpected) ** 2 / restExpected;
      cells++;
    }
    return [statistic, cells - 1];
  }

  /** Upper 99.99 % quantile of chi-square by the Wilson-Hilferty approximation. */
  const quantile = (degrees: number): number =>
    degrees * (1 - 2 / (9 * degrees) + 3.719 * Math.sqrt(2 / (9 * degrees))) ** 3;

  test.each([1, 0.7, 1.6])('follows the softmax at temperature %f', async (temperature) => {
    const draws = 4000;
    const [statistic, degrees] = chiSquare(
      await firstTokens({ temperature, seed: 9n }, draws),
      await distribution(temperature),
      draws,
    );
    expect(degrees).toBeGreaterThan(5);
    expect(statistic).toBeLessThan(quantile(degrees));
  });

  /** Log-probabilities of every token after these, by the model itself. */
  async function wholeRow(ids: readonly number[]): Promise<number[]> {
    const all = Array.from({ length: model.info.vocabularySize }, (_, id) => [id]);
    return (await model.score(ids, all)).map((row) => row[0]!);
  }

  test('bias, penalties and what is held back change the distribution as they say, and topLogprobs tell the one before', async () => {
    const [end] = model.info.ends;
    const logitBias: Record<number, number> = { 33: 4, 40: -100, 50: 3, [end!]: 2 };
    const rollouts = await collect(model, {
      prompts: [prompt('The first')],
      samples: 2,
      sampling: {
        temperature: 0.8,
        presencePenalty: -1.5,
        frequencyPenalty: 0.7,
        logitBias,
        seed: 3n,
      },
      maxTokens: 8,
      minTokens: 5,
      topLogprobs: 4,
    });
    let repeated = 0;
    for (const { promptIds, tokenIds, sampledLogprobs, topLogprobs } of rollouts) {
      expect(tokenIds.length).toBeGreaterThan(5);
      expect(topLogprobs).toHaveLength(tokenIds.length);
      for (const [at, token] of tokenIds.entries()) {
        const earlier = tokenIds.subarray(0, at);
        const own = await wholeRow([...promptIds, ...earlier]);
        const likeliest = own
          .map((logprob, tokenId) => ({ tokenId, logprob }))
          .sort((a, b) => b.logprob - a.logprob || a.tokenId - b.tokenId);
        expect(topLogprobs![at]!.map(({ tokenId }) => tokenId)).toEqual(
          likeliest.slice(0, 4).map(({ tokenId }) => tokenId),
        );
        topLogprobs![at]!.forEach(({ logprob }, i) => {
          expect(logprob).toBeCloseTo(likeliest[i]!.logprob, 5);
        });
        const weights = own.map((logprob, id) => {
          const times = earlier.filter((other) => other === id).length;
          const logit = logprob + (logitBias[id] ?? 0) - 0.7 * times + (times > 0 ? 1.5 : 0);
          return at < 5 && model.info.ends.includes(id) ? 0 : Math.exp(logit / 0.8);
        });
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        expect(sampledLogprobs[at]).toBeCloseTo(Math.log(weights[token]! / total), 4);
        repeated += earlier.includes(token) ? 1 : 0;
      }
    }
    expect(repeated).toBeGreaterThan(0);
  });

  test('minTokens holds back ends, stop tokens and stop strings, and no whole document of a grammar', async () => {
    const [end] = model.info.ends;
    const reply = async (more: object): Promise<Rollout> =>
      (
        await collect(model, {
          prompts: [prompt('The first')],
          maxTokens: 12,
          sampling: { seed: 4n },
          ...more,
        })
      )[0]!;
    const ends = { sampling: { seed: 4n, logitBias: { [end!]: 100 } } };
    expect((await reply(ends)).tokenIds).toHaveLength(1);
    expect(await reply({ ...ends, minTokens: 3 })).toMatchObject({
      finish: 'stop',
      tokenIds: { length: 4 },
    });

    const whole = await reply({ ignoreEndOfSequence: true });
    const pieces = [...whole.tokenIds].map((id) => model.detokenize([id]));
    const stop = pieces[1]!;
    // The first place after three tokens where the string ends.
    const least = pieces.slice(0, 3).join('').length;
    const next = whole.text.indexOf(stop, Math.max(0, least - stop.length + 1));
    const cut = next < 0 ? whole.text : whole.text.slice(0, next);
    expect((await reply({ ignoreEndOfSequence: true, stop: [stop] })).text.length).toBeLessThan(
      cut.length,
    );
    expect((await reply({ ignoreEndOfSequence: true, stop: [stop], minTokens: 3 })).text).toBe(cut);

    const stopped = await reply({
      ignoreEndOfSequence: true,
      stopTokens: [...whole.tokenIds],
      minTokens: 4,
    });
    expect([...stopped.tokenIds.subarray(0, 4)].some((id) => whole.tokenIds.includes(id))).toBe(
      false,
    );
    expect(await reply({ grammar: 'root ::= "ab"', minTokens: 9 })).toMatchObject({
      text: 'ab',
      finish: 'stop',
    });
    await expect(reply({ minTokens: 13 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(reply({ sampling: { logitBias: { 99999999: 1 } } })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  test('alternatives are the score of a text, each with its rank and the likeliest tokens there', async () => {
    const ids = [...prompt('The first river').tokenIds];
    const [scores] = await model.score(ids.slice(0, 1), [ids.slice(1)]);
    const alternatives = await model.alternatives(ids, { count: 3 });
    expect(alternatives.map(({ tokenId, logprob }) => [tokenId, logprob])).toEqual(
      ids.slice(1).map((id, i) => [id, scores![i]]),
    );
    for (const [i, { tokenId, logprob, rank, top }] of alternatives.entries()) {
      // of another call, whose products may be rounded otherwise: ranks are counted within the row
      const row = await wholeRow(ids.slice(0, i + 1));
      expect(row[tokenId]).toBeCloseTo(logprob, 4);
      expect(top.map(({ tokenId }) => row[tokenId]!)).toEqual(
        row.toSorted((a, b) => b - a).slice(0, 3),
      );
      expect(rank).toBe(row.filter((other) => other >= row[tokenId]!).length);
    }
    await expect(model.alternatives(ids, { count: 21 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  const renormalised = (
    p: number[],
    keep: (rank: number, before: number, value: number, top: number) => boolean,
  ): number[] => {
    const order = p
      .map((value, id) => [value, id] as const)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    const kept = new Array<number>(p.length).fill(0);
    let before = 0;
    order.forEach(([value, id], rank) => {
      if (keep(rank, before, value, order[0]![0])) kept[id] = value;
      before += value;
    });
    const total = kept.reduce((sum, value) => sum + value, 0);
    return kept.map((value) => value / total);
  };

  test.each([
    ['top-k', { topK: 5 }, (rank: number) => rank < 5],
    ['top-p', { topP: 0.6 }, (_: number, before: number) => before < 0.6],
    [
      'min-p',
      { minP: 0.2 },
      (_: number, __: number, value: number, top: number) => value >= 0.2 * top,
    ],
  ] as const)(
    '%s keeps exactly the tokens it should, in proportion',
    async (_name, settings, keep) => {
      const draws = 3000;
      const expected = renormalised(await distribution(0.8), keep);
      const counts = await firstTokens({ temperature: 0.8, seed: 4n, ...settings }, draws);
      for (const id of counts.keys()) expect(expected[id]).toBeGreaterThan(0);
      const [statistic, degrees] = chiSquare(counts, expected, draws);
      expect(statistic).toBeLessThan(quantile(Math.max(1, degrees)));
    },
  );

  test.each([
    ['temperature', {}, /^/, () => true],
    ['top-k', { topK: 7 }, /^/, (rank: number) => rank < 7],
    ['top-p', { topP: 0.7 }, /^/, (_: number, before: number) => before < 0.7],
    ['a grammar', {}, /^[a-m]+$/, () => true],
    ['a grammar, then top-k', { topK: 3 }, /^[a-m]+$/, (rank: number) => rank < 3],
  ] as const)(
    'sampledLogprobs are those of the distribution that was sampled from: %s',
    async (_name, settings, form, keep) => {
      const temperature = 0.8;
      const all = await distribution(temperature);
      const masked = all.map((p, id) => (form.test(model.detokenize([id])) ? p : 0));
      const mass = masked.reduce((sum, p) => sum + p, 0);
      const expected = renormalised(
        masked.map((p) => p / mass),
        keep,
      );
      const grammar = form.source === '^' ? {} : { grammar: 'root ::= [a-m]+' };
      const request = {
        prompts: [prompt('The first')],
        samples: 200,
        maxTokens: 1,
        sampling: { temperature, seed: 6n, ...settings },
        ...grammar,
      };
      for (const { tokenIds, sampledLogprobs } of await collect(model, request)) {
        if (expected[tokenIds[0]!] === 0)
          throw new Error(`token ${tokenIds[0]!} has no probability`);
        expect(Math.abs(sampledLogprobs[0]! - Math.log(expected[tokenIds[0]!]!))).toBeLessThan(
          1e-3,
        );
      }
    },
  );

  test('sampledLogprobs are logprobs where nothing is set, and 0 at temperature 0', async () => {
    const request = {
      prompts: [prompt('x')],
      samples: 3,
      maxTokens: 12,
      ignoreEndOfSequence: true,
    };
    for (const { logprobs, sampledLogprobs } of await collect(model, request))
      expect([...sampledLogprobs]).toEqual([...logprobs]);
    for (const { logprobs, sampledLogprobs } of await collect(model, {
      ...request,
      sampling: { temperature: 0 },
    })) {
      expect([...sampledLogprobs]).toEqual(new Array(12).fill(0));
      expect(Math.max(...logprobs)).toBeLessThan(0);
    }
  });

  test('the repeat penalty keeps greedy decoding from repeating itself', async () => {
    const repeats = async (repeatPenalty: number): Promise<number> => {
      const [rollout] = await collect(model, {
        prompts: [prompt('again again again again')],
        sampling: { temperature: 0, repeatPenalty },
        maxTokens: 60,
        ignoreEndOfSequence: true,
      });
      return 60 - new Set(rollout!.tokenIds).size;
    };
    expect(await repeats(1.0)).toBeGreaterThan(await repeats(1e3));
    expect(await repeats(1e3)).toBe(0);
  });

  test('log-probabilities do not depend on temperature or truncation', async () => {
    const [rollout] = await collect(model, {
      prompts: [prompt('x')],
      sampling: { temperature: 2, topK: 3, seed: 2n },
      maxTokens: 10,
      ignoreEndOfSequence: true,
    });
    const [score] = await model.score(prompt('x').tokenIds, [rollout!.tokenIds]);
    rollout!.logprobs.forEach((value, i) => {
      expect(Math.abs(value - score![i]!)).toBeLessThan(1e-3);
    });
  });
});

describe('an answer ends', () => {
  const base = () => ({
    prompts: [prompt('Tell me')],
    sampling: { temperature: 0 },
    maxTokens: 30,
    ignoreEndOfSequence: true,
  });

  test('at a stop string, even across tokens, with the text before it and the tokens as sampled', async () => {
    const [whole] = await collect(model, base());
    expect(whole!.finish).toBe('length');
    const middle = Math.floor(whole!.text.length / 2);
    const stop = whole!.text.slice(middle, middle + 4);
    const [cut] = await collect(model, { ...base(), stop: [stop, 'never in there'] });
    expect(cut!.finish).toBe('stop');
    expect(cut!.text).toBe(whole!.text.slice(0, whole!.text.indexOf(stop)));
    expect([...cut!.tokenIds]).toEqual([...whole!.tokenIds.slice(0, cut!.tokenIds.length)]);
    expect(model.detokenize(cut!.tokenIds)).toContain(stop);
  });

  test('at a stop token, which the ids include and the text does not', async () => {
    const [whole] = await collect(model, base());
    const at = whole!.tokenIds.findIndex((id, i) => i > 3 && whole!.tokenIds.indexOf(id) === i);
    const [cut] = await collect(model, { ...base(), stopTokens: [whole!.tokenIds[at]!] });
    expect(cut!.finish).toBe('stop');
    expect([...cut!.tokenIds]).toEqual([...whole!.tokenIds.slice(0, at + 1)]);
    expect(cut!.text).toBe(model.detokenize(whole!.tokenIds.slice(0, at)));
  });

  test('at the end-of-turn token unless told to go on', async () => {
    const eot = model.info.eot >= 0 ? model.info.eot : model.info.eos;
    // A grammar that allows nothing after one letter forces the end-of-turn token.
    const [rollout] = await collect(model, {
      prompts: [prompt('Tell me')],
      grammar: 'root ::= "z"',
      maxTokens: 10,
      sampling: { temperature: 0 },
    });
    expect(rollout!.finish).toBe('stop');
    expect(rollout!.text).toBe('z');
    expect(model.detokenize([rollout!.tokenIds.at(-1)!], { withControl: true })).not.toBe('');
    expect(model.detokenize([rollout!.tokenIds.at(-1)!])).toBe('');
    expect(eot).toBeGreaterThanOrEqual(0);
  });
});

describe('grammar', () => {
  test('every answer follows it', async () => {
    const rollouts = await collect(model, {
      prompts: [prompt('a number: ')],
      samples: 12,
      sampling: { temperature: 1.2, seed: 8n },
      grammar: 'root ::= "-"? [1-9] [0-9]? [0-9]? ("." [0-9])?',
      maxTokens: 20,
    });
    for (const { text, finish } of rollouts) {
      expect(finish).toBe('stop');
      expect(text).toMatch(/^-?[1-9]\d{0,2}(\.\d)?$/);
    }
    expect(new Set(rollouts.map(({ text }) => text)).size).toBeGreaterThan(3);
  });

  test('a JSON Schema gives documents of that schema', async () => {
    const rollouts = await collect(model, {
      prompts: [prompt('json: ')],
      samples: 4,
      sampling: { temperature: 1, seed: 8n },
      jsonSchema: {
        type: 'object',
        properties: { ok: { type: 'boolean' }, kind: { enum: ['a', 'b'] } },
      },
      maxTokens: 200,
    });
    for (const { text, finish } of rollouts) {
      expect(finish).toBe('stop');
      const value = JSON.parse(text) as { ok: boolean; kind: string };
      expect(typeof value.ok).toBe('boolean');
      expect(['a', 'b']).toContain(value.kind);
    }
  });

  test.each(['root ::= (', 'root ::= other', '', 'start ::= "a"'])(
    '%j is refused',
    async (grammar) => {
      await expect(collect(model, { prompts: [prompt('x')], grammar })).rejects.toMatchObject({
        code: grammar === '' ? 'INVALID_ARGUMENT' : 'GRAMMAR_INVALID',
      });
    },
  );
});

describe('bad input is a typed error', () => {
  const good = () => ({ prompts: [prompt('x')], maxTokens: 4 });
  test.each([
    ['NaN temperature', { sampling: { temperature: NaN } }],
    ['negative temperature', { sampling: { temperature: -1 } }],
    ['infinite temperature', { sampling: { temperature: Infinity } }],
    ['topP below 0', { sampling: { topP: -0.01 } }],
    ['a negative seed', { sampling: { seed: -1n } }],
    ['maxTokens of 0', { maxTokens: 0 }],
    ['a fractional maxTokens', { maxTokens: 1.5 }],
    ['an unknown field', { temprature: 1 }],
    ['an empty stop string', { stop: [''] }],
    ['an empty prompt', { prompts: [{ tokenIds: [] }] }],
    ['a prompt of nothing', { prompts: [{}] }],
    ['token ids out of range', { prompts: [{ tokenIds: [0, 1_000_000] }] }],
    ['negative token ids', { prompts: [{ tokenIds: [-1] }] }],
    ['token ids that are not numbers', { prompts: [{ tokenIds: ['1'] }] }],
    ['a stop token out of range', { stopTokens: [1_000_000] }],
    ['a boundary above the layers', { captureBoundary: 99 }],
    ['grammar and schema together', { grammar: 'root ::= "a"', jsonSchema: { type: 'boolean' } }],
    ['a message of no known role', { prompts: [{ messages: [{ role: 'robot', content: 'x' }] }] }],
  ])('%s', async (_name, change) => {
    await expect(collect(model, { ...good(), ...change } as never)).rejects.toMatchObject({
      name: 'IsoproError',
      code: 'INVALID_ARGUMENT',
    });
  });

  test('a thousand ids in the place of a prompt are not a thousand sentences', async () => {
    const failure: unknown = await collect(model, {
      prompts: [new Int32Array(1000)],
    } as never).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/prompts\.0: .*; and more$/),
    });
    expect((failure as Error).message.length).toBeLessThan(1000);
  });

  test('a prompt that does not fit the context', async () => {
    const tokenIds = new Int32Array(model.info.trainedContext).fill(1);
    await expect(collect(model, { prompts: [{ tokenIds }], maxTokens: 1 })).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
    });
    await expect(model.score(tokenIds, [[1]])).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' });
    await expect(
      model.hidden({
        tokens: new Int32Array(model.info.trainedContext + 1).fill(1),
        layers: [0],
        reduce: 'norms',
      }),
    ).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
    });
  });

  test('score and hidden check their ids', async () => {
    await expect(model.score([], [[1]])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(model.score([1], [[-5]])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(model.score([1], [[2 ** 40]])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(model.hidden({ tokens: [1], layers: [-1], reduce: 'rows' })).rejects.toMatchObject(
      { code: 'INVALID_ARGUMENT' },
    );
    await expect(
      model.hidden({ tokens: [1], layers: [model.info.layers], reduce: 'norms' }),
    ).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await expect(
      model.hidden({ tokens: [1], layers: [0], reduce: 'sum' as 'rows' }),
    ).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});
