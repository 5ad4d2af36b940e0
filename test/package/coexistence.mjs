// coexistence.mjs FIRST MODEL: loads both libraries into one process, FIRST (isopro or
// nodeLlamaCpp) before the other, lets each continue the same prompt greedily, cancels ours in the
// middle of a call, closes FIRST and lets the other continue once more. What node-llama-cpp's
// logger gets is its own.
const [first, file] = process.argv.slice(2);
const prompt = 'Once upon a time';
async function isopro() {
  const { loadModel } = await import('../../dist/src/engine/model.js');
  const model = await loadModel(file, { threads: 1, fixedThreads: true });
  const run = async () => {
    for await (const rollout of model.generate({
      prompts: [{ tokenIds: model.tokenize(prompt) }],
      sampling: { temperature: 0 },
      maxTokens: 16,
      ignoreEndOfSequence: true,
    })) {
      return Array.from(rollout.tokenIds);
    }
  };
  const cancel = async () => {
    const cancellation = new AbortController();
    const prompts = Array.from({ length: 8 }, () => ({ tokenIds: model.tokenize(prompt) }));
    setTimeout(() => cancellation.abort(), 20);
    try {
      for await (const _ of model.generate({
        prompts,
        samples: 4,
        sampling: { temperature: 0 },
        maxTokens: 200,
        ignoreEndOfSequence: true,
        signal: cancellation.signal,
      }));
    } catch (error) {
      return error.code;
    }
  };
  return { run, cancel, close: () => model.dispose() };
}
const said = [];
async function nodeLlamaCpp() {
  const { getLlama, LlamaLogLevel } = await import('node-llama-cpp');
  const { PEER_CONTEXT } = await import('../../dist/bench/peer/node-llama-cpp.js');
  const llama = await getLlama({
    build: 'never',
    gpu: false,
    logLevel: LlamaLogLevel.debug,
    logger: (_, line) => said.push(line),
  });
  const model = await llama.loadModel({ modelPath: file });
  const context = await model.createContext({ ...PEER_CONTEXT, contextSize: 256, threads: 1 });
  const sequence = context.getSequence();
  const run = async () => {
    const ids = [];
    await sequence.clearHistory();
    for await (const id of sequence.evaluate(model.tokenize(prompt), {
      temperature: 0,
      yieldEogToken: true,
    })) {
      ids.push(id);
      if (ids.length === 16) break;
    }
    return ids;
  };
  const another = async () =>
    (await model.createContext({ ...PEER_CONTEXT, contextSize: 256, threads: 1 })).dispose();
  return { run, another, close: () => llama.dispose() };
}
const load = { isopro, nodeLlamaCpp };
const second = first === 'isopro' ? 'nodeLlamaCpp' : 'isopro';
const sides = {};
for (const name of [first, second]) sides[name] = await load[name]();
const before = { isopro: await sides.isopro.run(), nodeLlamaCpp: await sides.nodeLlamaCpp.run() };
const settled = () => new Promise((resolve) => setTimeout(resolve, 50));
await settled();
said.length = 0;
const cancelled = await sides.isopro.cancel();
await settled();
const heardOfOurs = [...said];
await sides.nodeLlamaCpp.another();
await settled();
const heardOfItsOwn = said.length - heardOfOurs.length;
// One leaving must not take the other with it.
await sides[first].close();
const after = await sides[second].run();
await sides[second].close();
process.stdout.write(
  JSON.stringify({ before, after, second, cancelled, heardOfOurs, heardOfItsOwn }),
);
