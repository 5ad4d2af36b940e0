/**
 * A model that can be taught by selection within seconds: it answers any prompt with one of eight
 * letters, each about as likely, and ends its turn. Two coordinates of the residual stream are
 * wired by hand, the rest is random: coordinate 0 is constant and carries the preference for
 * letters, coordinate 1 marks letter tokens and carries the end of the turn after one.
 */
import { writeFileSync } from 'node:fs';
import { encodeModel, synthesizeModel, type SyntheticModelOptions } from './synthetic.js';
import { writeAtomically } from './write-atomically.js';
import { createTrainer, loadModel, type TrainSequence } from '../../src/index.js';

export const LETTERS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const;

/** Settings of a run that teaches it one of the letters. */
export const LEARNS = {
  rollouts: 64,
  samples: 4,
  maxTokens: 4,
  stepsPerIteration: 8,
  batchSize: 8,
  learningRate: 0.005,
  warmupSteps: 2,
  rank: 4,
  topLayers: 2,
  devSize: 10,
  testSize: 20,
  threads: 1,
  profile: 'downloaded',
} as const;

/** Settings of the shortest run there is, on files of these paths. */
export const shortestRun = (task: string, model: string) => ({
  task,
  seed: '1',
  iterations: 1,
  signer: 'single-process' as const,
  profile: 'downloaded' as const,
  model: { name: model, threads: 1 },
  sampling: { rollouts: 16, maxTokens: 4 },
  optimiser: { stepsPerIteration: 1, batchSize: 4 },
  layers: { rank: 2, topLayers: 1 },
  evaluation: { devSize: 2, testSize: 2 },
});

const SIZE = 24;

/**
 * @param fragile gradients overflow wherever one of these letters is read, and nothing else does:
 * coordinate 2 marks them and opens a gate of the last
 *   feed-forward block whose other factor is zero, so that its huge weight meets a zero in every
 *   forward pass
 */
export function writeLetterModel(
  path: string,
  seed = 1n,
  fragile: readonly string[] = [],
  other: Pick<SyntheticModelOptions, 'contextLength' | 'corpus'> = {},
): void {
  const model = synthesizeModel({
    architecture: 'qwen2',
    seed,
    contextLength: 1024,
    layers: 3,
    ...other,
  });
  const { embedding, vocabularySize } = model.shape;
  const letterIds = new Set<number>(
    LETTERS.map((letter) => model.vocabulary.tokens.indexOf(letter)),
  );
  const end = model.vocabulary.tokens.indexOf('<|im_end|>');
  const edit = (name: string, change: (values: Float32Array) => void): void => {
    const { data } = model.tensors.find(({ info }) => info.name === name)!;
    const values = new Float32Array(
      data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength),
    );
    change(values);
    data.set(new Uint8Array(values.buffer));
  };
  edit('token_embd.weight', (values) => {
    for (let token = 0; token < vocabularySize; token++) {
      values[token * embedding] = SIZE;
      values[token * embedding + 1] = letterIds.has(token) ? SIZE : 0;
    }
  });
  edit('output_norm.weight', (values) => values.fill(1));
  edit('output.weight', (values) => {
    for (let token = 0; token < vocabularySize; token++) {
      const row = values.subarray(token * embedding, (token + 1) * embedding);
      for (let i = 2; i < embedding; i++) row[i]! *= 0.05;
      const [always, afterLetter] = letterIds.has(token)
        ? [1.2, -3]
        : token === end
          ? [-1, 3]
          : [-1, 0];
      row[0] = always;
      row[1] = afterLetter;
    }
  });
  for (let layer = 0; layer < model.shape.layers; layer++) {
    // rows that would write into the wired coordinates
    edit(`blk.${layer}.attn_output.weight`, (values) => values.fill(0, 0, 2 * embedding));
    edit(`blk.${layer}.ffn_down.weight`, (values) =>
      values.fill(0, 0, 2 * model.shape.feedForward),
    );
  }
  if (fragile.length > 0) {
    const marked = new Set(fragile.map((letter) => model.vocabulary.tokens.indexOf(letter)));
    const { feedForward, layers } = model.shape;
    edit('token_embd.weight', (values) => {
      for (let token = 0; token < vocabularySize; token++)
        values[token * embedding + 2] = marked.has(token) ? SIZE : 0;
    });
    for (let layer = 0; layer < layers; layer++) {
      edit(`blk.${layer}.attn_output.weight`, (values) =>
        values.fill(0, 2 * embedding, 3 * embedding),
      );
      edit(`blk.${layer}.ffn_down.weight`, (values) =>
        values.fill(0, 2 * feedForward, 3 * feedForward),
      );
    }
    edit(`blk.${layers - 1}.ffn_gate.weight`, (values) =>
      values.fill(0, 0, embedding).fill(1e7, 2, 3),
    );
    edit(`blk.${layers - 1}.ffn_up.weight`, (values) => values.fill(0, 0, embedding));
    edit(`blk.${layers - 1}.ffn_down.weight`, (values) => {
      for (let row = 3; row < embedding; row++) values[row * feedForward] = 1e36;
    });
  }
  writeAtomically(path, encodeModel(model));
}

const VERIFIER =
  "{ kind: ({ L0: 'c', L1: 'cd', L2: 'b' })[problem.tier].includes(answer) ? 'pass' : 'fail', violations: [], metrics: {} }";

export interface LetterTask {
  /** The verdict's expression. */
  readonly verifier?: string;
  /** Problems of a tier. */
  readonly numbers?: number;
  /** Further members, as they stand in the file. */
  readonly members?: string;
}

/**
 * Members of a task of one tier, which passes with c or d. A run and its judge ask the task's
 * thread for the 120 held-out problems of every tier, which of three tiers takes most of a second.
 */
export const ONE_TIER = "  tiers: [{ id: 'L1' }],\n";

/** A task file for it of one tier: a to d pass. */
export const ONE_TIER_TASK = `export default {
  id: 'letters', version: '1', tiers: [{ id: 'only' }],
  generate: (tier, seed) => ({ number: Number(seed % 100000n) }),
  prompt: ({ number }) => [{ role: 'user', content: \`\${number}: say a letter\` }],
  parse: (text) => (/^[a-h]$/.test(text) ? { ok: true, answer: text } : { ok: false, category: 'form', detail: 'one letter from a to h' }),
  verify: (problem, answer) => ({ kind: 'abcd'.includes(answer) ? 'pass' : 'fail' }),
};
`;

/** A task file for it: L0 passes with c, L1 with c or d; L2, which is not trained on, with b. */
export function writeLetterTask(
  path: string,
  { verifier = VERIFIER, numbers = 100_000, members = '' }: LetterTask = {},
): void {
  writeFileSync(
    path,
    `export default {
  id: 'letters', version: '1',
  tiers: [{ id: 'L0' }, { id: 'L1' }, { id: 'L2', trains: false }],
  generate: (tier, seed) => ({ number: Number(seed % ${numbers}n) }),
  prompt: (problem, style) => [{ role: 'user', content: \`tier \${problem.tier} \${problem.number}: say a letter\` }],
  parse: (text) =>
    /^[a-h]$/.test(text) ? { ok: true, answer: text } : { ok: false, category: 'format', detail: 'one letter from a to h' },
  verify: (problem, answer) => (${verifier}),
  trivialPolicies: { always_c: () => 'c' },
${members}};
`,
  );
}

/**
 * A letter model taught by likelihood to answer with c, its own weights changed: what another one
 * can learn from.
 * @param model path of the letter model that it is made from
 */
export async function writeLetterTeacher(path: string, model: string): Promise<void> {
  await using student = await loadModel(model, { threads: 1 });
  const batch: TrainSequence[] = [];
  for (let i = 0; i < 8; i++) {
    const { tokenIds: asked } = student.renderChat([
      { role: 'user', content: `tier L${i % 2} ${i}: say a letter` },
    ]);
    const tokenIds = Int32Array.from([...asked, student.tokenize('c')[0]!, student.info.eot]);
    batch.push({
      tokenIds,
      labelMask: Uint8Array.from(tokenIds, (_, t) => (t >= asked.length ? 1 : 0)),
    });
  }
  await using trainer = await createTrainer(student, {
    lora: { rank: 4 },
    optimiser: { learningRate: 0.01 },
    threads: 1,
  });
  for (let step = 0; step < 12; step++) await trainer.step(batch);
  await trainer.exportModel(path);
}
