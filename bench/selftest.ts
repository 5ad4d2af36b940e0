/**
 * `doctor --selftest`: whether this machine computes what it should, and how fast, in a form that
 * can be sent to someone who does not have such a machine. Models are synthetic, so that nothing is
 * downloaded and every machine does the same.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { IsoproError } from '../src/errors.js';
import { diagnose, type Finding } from '../src/engine/diagnosis.js';
import { loadModel, type Model } from '../src/engine/model.js';
import { createTrainer } from '../src/engine/trainer.js';
import { requirePackage } from '../src/optional-package.js';
import { peerGreedy } from './peer/node-llama-cpp.js';
import {
  writeSyntheticModel,
  type Architecture,
  type SyntheticModelOptions,
} from '../test/models/synthetic.js';

export interface SelftestStep {
  readonly name: string;
  readonly status: 'ok' | 'fail' | 'skipped';
  readonly detail: string;
  readonly seconds: number;
}

export interface SelftestReport {
  readonly findings: readonly Finding[];
  readonly steps: readonly SelftestStep[];
  readonly ok: boolean;
}

export interface SelftestOptions {
  readonly signal?: AbortSignal;
  /** Default true: decoding speed too, which is most of the work on a slow processor. */
  readonly speed?: boolean;
  /** Called before each step. */
  readonly onStep?: (name: string, index: number, count: number) => void;
}

/** A step says what it found, or throws what went wrong. */
interface Step {
  readonly name: string;
  readonly run: () => Promise<string>;
}

const PROMPT = 'Once upon a time';
const TOKENS = 24;
/**
 * Largest difference, in nats, between a log-probability while sampling in a batch and the same one
 * scored afterwards.
 */
const SCORE_TOLERANCE = 1e-3;
const BENCH_SHAPE: SyntheticModelOptions = {
  architecture: 'qwen2',
  type: 'Q4_K',
  layers: 8,
  embedding: 512,
  feedForward: 1536,
  heads: 8,
  keyValueHeads: 2,
  seed: 3n,
};

/**
 * How far the loss may fall from what the gradient's length foretells: second-order terms, and f32
 * sums.
 */
const SLOPE_TOLERANCE = 0.01;

/** Between them they use every kernel. */
const CHECKED = ['llama', 'qwen2', 'qwen3', 'gemma2'] as const;

class Mismatch extends Error {}

function expectEqual(what: string, ours: readonly number[], theirs: readonly number[]): void {
  const at = ours.findIndex((id, position) => id !== theirs[position]);
  if (ours.length !== theirs.length || at !== -1) {
    throw new Mismatch(
      `${what}: the ids part at position ${at === -1 ? Math.min(ours.length, theirs.length) : at} (${ours.join(' ')} against ` +
        `${theirs.join(' ')})`,
    );
  }
}

async function sample(model: Model, samples: number, temperature: number, tokens = TOKENS) {
  const rollouts = [];
  const request = {
    prompts: [{ tokenIds: model.tokenize(PROMPT) }],
    samples,
    sampling: { temperature, seed: 7n },
    maxTokens: tokens,
    ignoreEndOfSequence: true,
  };
  for await (const rollout of model.generate(request)) rollouts.push(rollout);
  return rollouts.sort((a, b) => a.sampleIndex - b.sampleIndex);
}

async function greedyIds(file: string, gpuLayers: number): Promise<number[]> {
  const model = await loadModel(file, { threads: 1, fixedThreads: true, gpuLayers });
  try {
    return [...(await sample(model, 1, 0))[0]!.tokenIds];
  } finally {
    await model.dispose();
  }
}

async function greedyIdsOfNodeLlamaCpp(file: string): Promise<number[]> {
  requirePackage('node-llama-cpp', 'Comparing with node-llama-cpp');
  const { getLlama, LlamaLogLevel } = await import('node-llama-cpp');
  const llama = await getLlama({ build: 'never', gpu: false, logLevel: LlamaLogLevel.disabled });
  try {
    return await peerGreedy(llama, file, PROMPT, TOKENS);
  } finally {
    await llama.dispose();
  }
}

async function parity(file: string): Promise<string> {
  expectEqual(
    'greedy decoding against node-llama-cpp',
    await greedyIds(file, 0),
    await greedyIdsOfNodeLlamaCpp(file),
  );
  return `${TOKENS} greedy tokens as node-llama-cpp`;
}

/**
 * That a row's values do not depend on the calls that it shares is a property of the processor's
 * kernels, which `score` relies on: one row a call, and calls that several sizes of request are cut
 * in.
 */
async function scoreAgreement(file: string): Promise<string> {
  const model = await loadModel(file, { threads: 1, fixedThreads: true });
  try {
    let worst = 0;
    for (const samples of [1, 8, 19, 61]) {
      const rollouts = await sample(model, samples, 1);
      const again = await sample(model, samples, 1);
      for (const [index, rollout] of rollouts.entries())
        expectEqual(
          `sample ${index} the second time`,
          [...rollout.tokenIds],
          [...again[index]!.tokenIds],
        );
      const scored = await model.score(
        model.tokenize(PROMPT),
        rollouts.map(({ tokenIds }) => tokenIds),
        { stepwise: samples === 1 },
      );
      for (const [index, { logprobs }] of rollouts.entries()) {
        logprobs.forEach((value, position) => {
          worst = Math.max(worst, Math.abs(value - scored[index]![position]!));
        });
      }
    }
    const difference = `log-probabilities of sampling and scoring differ by up to ${worst.toExponential(1)} nats`;
    if (!(worst <= SCORE_TOLERANCE))
      throw new Mismatch(
        `this processor does not compute rows alike in calls of different sizes: ${difference}`,
      );
    return `1 to 61 samples twice the same; ${worst === 0 ? 'scored as they were sampled, bit for bit' : difference}`;
  } finally {
    await model.dispose();
  }
}

/**
 * A step of size r along the gradient must lower the loss by r times its squared norm. AdamW takes
 * such a step when its moments do not decay and epsilon is far above every gradient: r = rate /
 * epsilon. Warm-up steps first, since half of LoRA's gradient is zero while B is.
 */
async function gradientSlope(file: string): Promise<string> {
  const epsilon = 1000;
  const trainer = await createTrainer(
    { path: file },
    { seed: 1n, optimiser: { learningRate: 10, epsilon, beta1: 0, beta2: 0, maxNorm: 0 } },
  );
  try {
    const tokenIds = Int32Array.from({ length: 48 }, (_, position) => (position * 37 + 11) % 250);
    const batch = [
      { tokenIds, labelMask: Uint8Array.from(tokenIds, (_, position) => (position === 0 ? 0 : 1)) },
    ];
    for (let warmUp = 0; warmUp < 4; ++warmUp) await trainer.step(batch);
    const learningRate = 0.3;
    await trainer.setOptimiser({ learningRate, maxNorm: 0 });
    const before = (await trainer.evaluate(batch)).loss;
    const { gradNorm } = await trainer.step(batch);
    const fall = before - (await trainer.evaluate(batch)).loss;
    const ratio = fall / ((learningRate / epsilon) * gradNorm ** 2);
    if (!(Math.abs(ratio - 1) <= SLOPE_TOLERANCE))
      throw new Mismatch(
        `a step along the gradient lowered the loss by ${ratio} of what its length foretells`,
      );
    return `the loss falls by ${ratio.toFixed(4)} of what the gradient foretells`;
  } finally {
    await trainer.dispose();
  }
}

async function gpuAgreement(file: string): Promise<string> {
  expectEqual('GPU against CPU', await greedyIds(file, 1000), await greedyIds(file, 0));
  return `${TOKENS} greedy tokens as on the CPU`;
}

async function decodingSpeed(file: string): Promise<string> {
  const model = await loadModel(file);
  try {
    const speeds = [];
    for (const samples of [1, 8, 32]) {
      const begin = performance.now();
      await sample(model, samples, 1, 64);
      speeds.push(
        `${Math.round((1000 * samples * 64) / (performance.now() - begin))} at ${samples}`,
      );
    }
    return (
      `tokens/s by sequences: ${speeds.join(', ')} (${model.info.threads} threads, ${(model.info.parameters / 1e6).toFixed(0)}M ` +
      `parameters, ${model.info.quantisation})`
    );
  } finally {
    await model.dispose();
  }
}

/** @throws IsoproError ABORTED */
export async function selftest({
  signal,
  speed = true,
  onStep,
}: SelftestOptions = {}): Promise<SelftestReport> {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-selftest-'));
  try {
    const findings = await diagnose();
    const file = (architecture: Architecture): string => path.join(folder, `${architecture}.gguf`);
    for (const architecture of CHECKED)
      writeSyntheticModel(file(architecture), { architecture, type: 'Q4_K', seed: 2n });
    const bench = path.join(folder, 'bench.gguf');
    writeSyntheticModel(bench, BENCH_SHAPE);
    const steps: Step[] = [
      ...CHECKED.map((architecture) => ({
        name: `parity ${architecture}`,
        run: () => parity(file(architecture)),
      })),
      ...CHECKED.map((architecture) => ({
        name: `gradient ${architecture}`,
        run: () => gradientSlope(file(architecture)),
      })),
      { name: 'sampling and scoring', run: () => scoreAgreement(file('qwen2')) },
      ...(speed ? [{ name: 'decoding speed', run: () => decodingSpeed(bench) }] : []),
    ];
    const backends = findings.find(({ check }) => check === 'back ends')?.facts.backends as
      | { type: string }[]
      | undefined;
    if (backends?.some(({ type }) => type === 'gpu') === true)
      steps.push({ name: 'GPU', run: () => gpuAgreement(bench) });

    const results: SelftestStep[] = [];
    for (const [index, { name, run }] of steps.entries()) {
      if (signal?.aborted === true) throw new IsoproError('ABORTED', 'the selftest was cancelled');
      onStep?.(name, index, steps.length);
      const begin = performance.now();
      const outcome = await run().then(
        (detail) => ({ status: 'ok' as const, detail }),
        (error: unknown) =>
          error instanceof IsoproError && error.code === 'PACKAGE_MISSING'
            ? { status: 'skipped' as const, detail: `${error.message}. ${error.remedy}` }
            : { status: 'fail' as const, detail: (error as Error).message },
      );
      results.push({ name, ...outcome, seconds: (performance.now() - begin) / 1000 });
    }
    return {
      findings,
      steps: results,
      ok:
        results.every(({ status }) => status !== 'fail') &&
        findings.every(({ status }) => status !== 'fail'),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
