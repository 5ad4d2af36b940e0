/**
 * A wider sibling of the embedded model: each feed-forward block has twice the units, and the
 * function is the same (Chen, Goodfellow and Shlens 2016, arXiv 1511.05641 §2.2, "Net2WiderNet").
 * What it can learn further, the embedded model can then be taught.
 */
import { readFileSync, rmSync } from 'node:fs';
import { planTensors, hyperParameters } from '../../src/embedded/architecture.js';
import { alignUp, DEFAULT_ALIGNMENT, encodeHeader, layOut, text } from '../../src/embedded/gguf.js';
import { writeAtomically } from './write-atomically.js';
import { drawExample } from '../../src/embedded/corpus.js';
import { followHeuristic, type HeuristicName } from '../../src/embedded/heuristics.js';
import { SHAPE } from '../../src/embedded/initial-model.js';
import { learnVocabulary } from '../../src/embedded/vocabulary.js';
import { createTrainer, loadModel, Random, type TrainSequence } from '../../src/index.js';
import { schedulingPrompt } from '../../src/tasks/scheduling/prompt.js';

/**
 * Tensors of an F32 file of the embedded shape, in the order of `planTensors`: they are the end of
 * the file.
 */
function readTensors(file: string, vocabularySize: number): Map<string, Float32Array> {
  const plans = planTensors({ ...SHAPE, vocabularySize });
  const counts = plans.map(({ dimensions }) =>
    dimensions.reduce((product, dimension) => product * dimension, 1),
  );
  const bytes = readFileSync(file);
  let at =
    bytes.length - counts.reduce((sum, count) => sum + alignUp(4 * count, DEFAULT_ALIGNMENT), 0);
  return new Map(
    plans.map(({ name }, i) => {
      const values = new Float32Array(
        bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + at + 4 * counts[i]!),
      );
      at += alignUp(4 * counts[i]!, DEFAULT_ALIGNMENT);
      return [name, values];
    }),
  );
}

/**
 * Each unit stands twice and its output is shared between the two, unequally: with equal shares
 * both would have the same gradient for ever. Writes F32.
 */
export async function writeWider(file: string): Promise<void> {
  const narrow = `${file}.narrow`;
  {
    await using trainer = await createTrainer({ path: 'tiny' }, { lora: { rank: 1 }, threads: 1 });
    await trainer.exportModel(narrow, { type: 'f32' });
  }
  const vocabulary = learnVocabulary();
  const known = readTensors(narrow, vocabulary.size);
  rmSync(narrow);
  const [random, units] = [new Random(1n), SHAPE.feedForward];
  const shares = Float32Array.from({ length: units }, () => 0.25 + 0.5 * random.nextDouble());
  const shape = { ...SHAPE, vocabularySize: vocabulary.size, feedForward: 2 * units };
  const tensors = planTensors(shape).map(({ name, dimensions }) => {
    const values = known.get(name)!;
    if (name.endsWith('ffn_gate.weight') || name.endsWith('ffn_up.weight'))
      return { name, dimensions, values: Float32Array.from([...values, ...values]) };
    if (!name.endsWith('ffn_down.weight')) return { name, dimensions, values };
    const wide = new Float32Array(2 * values.length);
    for (const [i, value] of values.entries()) {
      const [row, unit] = [Math.floor(i / units), i % units];
      const first = Math.fround(value * shares[unit]!);
      wide[2 * units * row + unit] = first;
      wide[2 * units * row + units + unit] = value - first;
    }
    return { name, dimensions, values: wide };
  });
  const infos = layOut(
    tensors.map(({ name, dimensions, values }) => ({
      name,
      dimensions,
      typeId: 0,
      bytes: values.byteLength,
    })),
  );
  const cache = { key: 'isopro.kv_cache_type', value: text('q8_0') };
  writeAtomically(file, [
    encodeHeader(
      [...hyperParameters(shape, 'wider than tiny', 0), cache, ...vocabulary.metadata],
      infos,
    ),
    ...tensors.flatMap(({ values }) => [
      new Uint8Array(values.buffer),
      new Uint8Array(alignUp(values.byteLength, DEFAULT_ALIGNMENT) - values.byteLength),
    ]),
  ]);
}

/**
 * Trains all weights of a file of `writeWider` to answer every problem by one procedure, on
 * problems that no set holds.
 */
export async function writeWiderTeacher(
  file: string,
  wider: string,
  heuristic: HeuristicName,
  steps: number,
): Promise<void> {
  await using model = await loadModel(wider, { threads: 1 });
  await using trainer = await createTrainer(model, {
    allWeights: true,
    optimiser: { learningRate: 5e-4, beta2: 0.99 },
    threads: 1,
  });
  for (let step = 0; step < steps; step++) {
    const batch = Array.from({ length: 8 }, (_, i): TrainSequence => {
      const { problem } = drawExample(7n, 8 * step + i, 1);
      const prompt = model.renderChat(schedulingPrompt(problem, 'cot')).tokenIds;
      const tokenIds = Int32Array.from([
        ...prompt,
        ...model.tokenize(followHeuristic(heuristic, problem).text),
        model.info.eos,
      ]);
      return {
        tokenIds,
        labelMask: Uint8Array.from(tokenIds, (_token, at) => Number(at >= prompt.length)),
      };
    });
    await trainer.step(batch);
  }
  await trainer.exportModel(file, { type: 'q8_0' });
}
