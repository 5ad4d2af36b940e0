// refusals.mjs CALL KINDS MODE FROM TO STEP MODEL, with refusals.cpp loaded before node: makes CALL
// again and again, refusing it the FROM-th, then the next request to the system up to the TO-th,
// until a call asks for fewer. Each call has to end with its result or with a typed error, and what
// it was made on has to be as before: the same call, unrefused, gives the same result. Prints a
// line for each request, so that whoever reads knows where a process that was ended stood.
import { loadModel } from '../../dist/src/engine/model.js';
import { createTrainer } from '../../dist/src/engine/trainer.js';
import { inspectModel } from '../../dist/src/engine/inspect.js';

const [call, kinds, mode, from, to, stride, file] = process.argv.slice(2);
const CODES = new Set(['OUT_OF_MEMORY', 'SYSTEM_LIMIT']);
const sequence = {
  tokenIds: Int32Array.from({ length: 24 }, (_, i) => 3 + (i % 7)),
  labelMask: new Uint8Array(24).fill(1, 1),
};
const batch = [sequence, { ...sequence, weight: 0.5 }];
const options = { threads: 2, lora: { rank: 2 }, microBatchTokens: 24 };
const text = (value) =>
  JSON.stringify(value, (_, v) => (ArrayBuffer.isView(v) ? Array.from(v) : v));

// Of each call: `attempt` makes it, `failed` says what is wrong after it threw, `run` gives the
// result of an undisturbed one.
const withModel = (use) => async () => {
  // One thread where threads are not the point: llama.cpp's spin on a busy machine.
  const model = await loadModel(file, { threads: kinds === 't' ? 2 : 1, fixedThreads: true });
  const run = () => use(model);
  return { attempt: run, run, failed: async () => undefined, end: () => model.dispose() };
};
/** Of a trainer like the one below, beside the model file. */
const adapterFile = async () => {
  const trainer = await createTrainer({ path: file }, options);
  await trainer.step(batch);
  await trainer.exportAdapter(`${file}.lora.gguf`);
  await trainer.dispose();
  return `${file}.lora.gguf`;
};
const generate = async (model) => {
  const texts = [];
  const request = {
    prompts: [{ tokenIds: [1, 2, 3] }, { tokenIds: [4] }],
    samples: 3,
    maxTokens: 6,
    ignoreEndOfSequence: true,
    captureBoundary: 1,
    sampling: { seed: 1n },
  };
  for await (const { promptIndex, sampleIndex, tokenIds, boundary } of model.generate(request))
    texts.push(text([promptIndex, sampleIndex, tokenIds, boundary.rows]));
  return texts.sort();
};
// A call that throws leaves the trainer as it was.
const withTrainer = (use) => async () => {
  const trainer = await createTrainer({ path: file }, options);
  await trainer.step(batch);
  const before = Buffer.from(await trainer.snapshot());
  const { steps } = trainer.info;
  return {
    attempt: () => use(trainer),
    failed: async () =>
      before.equals(await trainer.snapshot()) && trainer.info.steps === steps
        ? undefined
        : 'the trainer has changed',
    run: async () => {
      await trainer.rollbackTo(before);
      const result = await use(trainer);
      const after = await trainer.snapshot();
      await trainer.rollbackTo(before);
      return [result, after];
    },
    end: () => trainer.dispose(),
  };
};
const fresh = (run) => async () => ({
  attempt: run,
  run,
  failed: async () => undefined,
  end: async () => undefined,
});
const module = 'blk.1.attn_q';
const CALLS = {
  load: fresh(async () => {
    const model = await loadModel(file, { threads: 2 });
    const { info } = model;
    await model.dispose();
    return info;
  }),
  create: fresh(async () => {
    const trainer = await createTrainer({ path: file }, options);
    const { info } = trainer;
    await trainer.dispose();
    return info;
  }),
  inspect: fresh(() => inspectModel(file)),
  generate: withModel(generate),
  score: withModel((model) => model.score([1, 2], [[3, 4, 5], [6]])),
  hidden: withModel((model) => model.hidden({ tokens: [1, 2, 3], layers: [0, 1], reduce: 'rows' })),
  adapter: withModel(async (model) => {
    const adapter = await model.loadAdapter(adapterPath);
    try {
      await model.setAdapter(adapter);
      return await generate(model);
    } finally {
      process.env.REFUSE = '';
      await model.setAdapter(null);
      adapter.dispose();
    }
  }),
  // A context of many tokens, cancelled as soon as it decodes: what its refused calls leave behind
  // would add up.
  cancelled: withModel(async (model) => {
    const cancellation = new AbortController();
    setTimeout(() => cancellation.abort(), 20);
    const request = {
      prompts: [{ tokenIds: [1, 2, 3] }],
      samples: 60,
      maxTokens: 500,
      ignoreEndOfSequence: true,
      signal: cancellation.signal,
    };
    try {
      for await (const rollout of model.generate(request)) void rollout;
    } catch (error) {
      if (error.code !== 'ABORTED') throw error;
    }
    return 'cancelled';
  }),
  tokenize: withModel(async (model) => model.tokenize('some text of several words')),
  step: withTrainer((trainer) => trainer.step(batch)),
  evaluate: withTrainer((trainer) => trainer.evaluate(batch)),
  captureBoundary: withTrainer((trainer) => trainer.captureBoundary(batch)),
  raiseRank: withTrainer((trainer) => trainer.raiseRank(module, 4)),
  recycle: withTrainer((trainer) => trainer.recycleDirections(module, [1])),
  importAdapter: withTrainer((trainer) => trainer.importAdapter(adapterPath)),
  snapshot: withTrainer((trainer) => trainer.snapshot()),
};

const adapterPath = await adapterFile();
const subject = await CALLS[call]();
const expected = text(await subject.run());
const resident = () => process.memoryUsage.rss() / 2 ** 20;
const before = resident();
let request = Number(from);
for (; request <= Number(to); request += Number(stride)) {
  console.log(`request ${request}`);
  process.env.REFUSE = `${kinds} ${request} ${mode}`;
  const error = await subject.attempt().then(
    () => undefined,
    (failure) => failure,
  );
  process.env.REFUSE = '';
  const refused = Number(process.env.REFUSED);
  const wrong = (what) => console.log(`WRONG ${request}: ${what}`);
  if (error !== undefined) {
    if (error.name !== 'IsoproError' || !CODES.has(error.code))
      wrong(`${error.code} ${error.stack}`);
    if (refused === 0) wrong('it failed although nothing was refused');
    const state = await subject.failed();
    if (state !== undefined) wrong(`${state} after ${error.message}`);
    console.log(`${error.code} ${error.message}`);
  }
  if (text(await subject.run()) !== expected) wrong('another result afterwards');
  if (refused === 0) break;
}
await subject.end();
console.log(`resident ${Math.round(resident() - before)} MB more`);
console.log(`done ${request}`);
