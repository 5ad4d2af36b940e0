// terminated-workers.mjs CALL ROUNDS MODEL: ends a worker thread in the middle of CALL, ROUNDS
// times, each after another delay. What must hold is that this process is still there afterwards:
// it prints the number of rounds.
import { Worker } from 'node:worker_threads';

const [call, rounds, file] = process.argv.slice(2);
const source = (name) => JSON.stringify(new URL(`../../dist/src/${name}.js`, import.meta.url).href);
const engine = (name) => source(`engine/${name}`);
// Long enough that a worker ends inside the call, whatever the delay.
const tokens = 300;
const prelude = `
  import { parentPort } from 'node:worker_threads';
  import { loadModel } from ${engine('model')};
  import { createTrainer } from ${engine('trainer')};
  import { inspectModel } from ${engine('inspect')};
  import { ModelHost } from ${source('host/model-host')};
  const file = ${JSON.stringify(file)};
  const sequence = { tokenIds: new Int32Array(${tokens}).fill(3), labelMask: new Uint8Array(${tokens}).fill(1, 1) };
  const prompts = [{ tokenIds: [1, 2, 3] }];
  const begin = () => parentPort.postMessage('begin');
`;
const withTrainer = `const trainer = await createTrainer({ path: file }, { threads: 2 });`;
const withModel = `const model = await loadModel(file, { threads: 2 });`;
const CALLS = {
  step: `${withTrainer} begin(); for (;;) await trainer.step([sequence]);`,
  stepWithBoundary:
    `${withTrainer} const [boundary] = await trainer.captureBoundary([sequence]); begin(); for (;;) await ` +
    `trainer.step([{ ...sequence, boundary }]);`,
  load: `begin(); for (;;) await loadModel(file, { threads: 2, onProgress: () => {} });`,
  loadScoreDispose: `begin(); for (;;) { ${withModel} await model.score([1], [[2, 3], [4]]); await model.dispose(); }`,
  applyTo: `${withTrainer} ${withModel} begin(); for (;;) await trainer.applyTo(model);`,
  generate:
    `${withModel} begin(); for (;;) for await (const _ of model.generate({ prompts, samples: 8, maxTokens: 200, ` +
    `ignoreEndOfSequence: true, captureBoundary: 1, onProgress: () => {} }));`,
  reply:
    `const model = await new ModelHost().load(file, { threads: 2, maxSequences: 4, prefixTokens: 200 }); begin(); for (;;) { const ` +
    `replies = Array.from({ length: 8 }, (_, i) => model.generate({ tokenIds: [1, 2 + i], maxTokens: 60, ignoreEndOfSequence: true })); ` +
    `for await (const _ of model.stream({ tokenIds: [1], maxTokens: 40, ignoreEndOfSequence: true })); await Promise.all(replies); }`,
  hidden: `${withModel} begin(); for (;;) await model.hidden({ tokens: sequence.tokenIds, layers: [0, 1], reduce: 'rows' });`,
  export: `${withTrainer} begin(); for (;;) { await trainer.snapshot(); await trainer.exportAdapter(file + '.' + process.pid + '.lora'); }`,
  inspect: `begin(); for (;;) await Promise.all([inspectModel(file), inspectModel(file)]);`,
};

for (let round = 0; round < Number(rounds); round++) {
  const worker = new Worker(
    new URL(`data:text/javascript,${encodeURIComponent(prelude + CALLS[call])}`),
  );
  await new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  // Another point of the call each time, the same ones each run.
  await new Promise((resolve) => setTimeout(resolve, (round * 7) % 40));
  await worker.terminate();
}
console.log(rounds);
