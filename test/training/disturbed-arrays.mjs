// disturbed-arrays.mjs ROUNDS MODEL: calls the trainer and the model while their caller transfers
// away, shrinks, shares and refills what it handed in, each time after another delay. Prints how
// many answers were not those of a caller who leaves its arrays alone. A freed page that is read
// ends the process, which is why it has one of its own.
import { loadModel } from '../../dist/src/engine/model.js';
import { createTrainer } from '../../dist/src/engine/trainer.js';

const [rounds, file] = process.argv.slice(2);
const tokens = 400;
const model = await loadModel(file, { threads: 1 });
const trainer = await createTrainer(model, { threads: 1, lora: { layers: { top: 1 } } });
const fresh = () => ({
  tokenIds: Int32Array.from({ length: tokens }, (_, i) => 3 + (i % 50)),
  labelMask: new Uint8Array(tokens).fill(1, 1),
  advantages: new Float32Array(tokens).fill(0.5),
  oldLogprobs: new Float32Array(tokens).fill(-4),
  referenceLogprobs: new Float32Array(tokens).fill(-3),
});
const [captured] = await trainer.captureBoundary([fresh()]);
const first = await trainer.snapshot();
const objective = { kind: 'policy', klCoefficient: 0.1 };
const generated = async (tokenIds) => {
  const rollouts = [];
  const request = { prompts: [{ tokenIds }], maxTokens: 20, ignoreEndOfSequence: true };
  for await (const { tokenIds: sampled, promptIds } of model.generate(request))
    rollouts.push([...sampled], [...promptIds]);
  return rollouts;
};
const withBoundary = ({ boundary, ...sequence }) => ({
  ...sequence,
  boundary: { ...captured, rows: boundary },
});
const CALLS = {
  differentiate: (arrays) =>
    trainer.differentiate([fresh(), withBoundary(arrays), fresh()], {
      objective,
      microBatches: [1, 1, 1],
    }),
  evaluate: (arrays) => trainer.evaluate([fresh(), withBoundary(arrays)], { objective }),
  captureBoundary: ({ tokenIds, labelMask }) =>
    trainer.captureBoundary([fresh(), { tokenIds, labelMask }]),
  rollbackTo: async ({ snapshot }) => {
    // it has to wait for the evaluation
    await Promise.all([trainer.evaluate([fresh()]), trainer.rollbackTo(snapshot)]);
    return trainer.snapshot();
  },
  score: ({ tokenIds }) => model.score(tokenIds.subarray(0, 3), [tokenIds.subarray(3, 40)]),
  generate: ({ tokenIds }) => generated(tokenIds.subarray(0, 3)),
};
const given = () => ({
  ...fresh(),
  boundary: captured.rows.slice(),
  snapshot: Uint8Array.from(first),
});

const on = (make, array) => {
  const placed = new array.constructor(make(array.byteLength));
  placed.set(array);
  return placed;
};
const refill = (array) => new Uint8Array(array.buffer).fill(0x7f);
// What the caller does to an array, and how the array came to be.
const DISTURBANCES = [
  {
    make: (size) => new ArrayBuffer(size),
    disturb: (array) => refill(structuredClone(array, { transfer: [array.buffer] })),
  },
  {
    make: (size) => new ArrayBuffer(size),
    disturb: (array) => void structuredClone(array, { transfer: [array.buffer] }),
  },
  {
    make: (size) => new ArrayBuffer(size, { maxByteLength: size }),
    disturb: (array) => array.buffer.resize(0),
  },
  { make: (size) => new SharedArrayBuffer(size), disturb: refill },
  { make: (size) => new ArrayBuffer(size), disturb: refill },
];
const bytesOf = (array) => [...new Uint8Array(array.buffer, array.byteOffset, array.byteLength)];
const text = (value) =>
  JSON.stringify(value, (_, each) => (ArrayBuffer.isView(each) ? bytesOf(each) : each));

const truths = {};
for (const [name, call] of Object.entries(CALLS)) truths[name] = text(await call(given()));
let wrong = 0;
const round = async (number, name) => {
  const { make, disturb } = DISTURBANCES[number % DISTURBANCES.length];
  const arrays = Object.fromEntries(
    Object.entries(given()).map(([key, array]) => [key, on(make, array)]),
  );
  const answer = CALLS[name](arrays);
  if (number % 4 > 0)
    await new Promise((resolve) =>
      number % 4 === 1 ? setImmediate(resolve) : setTimeout(resolve, number % 16),
    );
  Object.values(arrays).forEach(disturb);
  globalThis.gc();
  const got = await answer.then(text, (error) => `${error.code ?? ''} ${error.message}`);
  if (got === truths[name]) return;
  wrong++;
  console.error(`${name}, disturbance ${number % DISTURBANCES.length}: ${got.slice(0, 200)}`);
};
for (let number = 0; number < Number(rounds); number++) {
  if (number % 2 === 0) for (const name of Object.keys(CALLS)) await round(number, name);
  else await Promise.all(Object.keys(CALLS).map((name) => round(number, name)));
}
console.log(wrong);
await trainer.dispose();
await model.dispose();
