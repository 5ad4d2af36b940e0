/**
 * What exact beliefs cost: problems are reasoned about in a batch, beliefs are read before the
 * first step of each reasoning and after each, and beside that the reasoning alone is evaluated, as
 * a prompt is, which any reader of it has to do.
 */
import type { BranchScores, Matmul } from '../src/engine/addon.js';
import { loadModel, type Model } from '../src/engine/model.js';
import { readBeliefs } from '../src/truth-seeking/beliefs/readout.js';
import { generate } from '../src/truth-seeking/domains/domain.js';
import { SUMS_AND_CLAIMS } from '../src/truth-seeking/domains/sums-and-claims.js';
import { localReasoner } from '../src/truth-seeking/local-reasoner.js';
import { opening } from '../src/truth-seeking/modes/asking.js';
import { REASONING_MODES } from '../src/truth-seeking/modes/mode.js';
import { asBranch, type Reasoner } from '../src/truth-seeking/reasoner.js';
import type { BinaryProblem } from '../src/truth-seeking/problem.js';
import { trajectory, type Trajectory } from '../src/truth-seeking/trajectory.js';

export interface TruthBenchOptions {
  readonly modelPath: string;
  /** Of sums and claims. */
  readonly problems: number;
  /** Of each reasoning; a model's end of turn is ignored. */
  readonly tokens: number;
  /** Of each reasoning: before its first step, and after each; all steps are equally long. */
  readonly readouts: number;
  readonly seed: bigint;
  /** Default: the physical cores. */
  readonly threads?: number;
  /** Whose kernels multiply. Default: ggml's. */
  readonly matmul?: Matmul;
  readonly signal?: AbortSignal;
  readonly onProgress?: (what: 'reasoned' | 'read', done: number) => void;
}

/** Tokens are those that were evaluated. */
export interface TruthBenchResult {
  readonly problems: number;
  readonly readouts: number;
  /** Whose kernels multiplied. */
  readonly matmul: Matmul;
  /** Of sampling and reading. */
  readonly seconds: number;
  readonly processorSeconds: number;
  /**
   * Seconds of the readouts, less those of the probes' own tokens, for one second of evaluating the
   * trajectories.
   */
  readonly costOfReadouts: number;
  /** The same in processor time of the whole process. */
  readonly costOfReadoutsInProcessorTime: number;
  readonly samplingSeconds: number;
  readonly readoutSeconds: number;
  readonly readoutsPerSecond: number;
  readonly trajectoryTokens: number;
  readonly probeTokens: number;
}

/** Trajectories whose evaluation is timed beside their readout: every so many. */
const YARDSTICK = 5;
const MODE = REASONING_MODES.parse('chain-of-thought');

interface Cost {
  readonly seconds: number;
  readonly processorSeconds: number;
}

async function timed<T>(work: () => Promise<T>): Promise<Cost & { readonly result: T }> {
  const [begin, processor] = [performance.now(), process.cpuUsage()];
  const result = await work();
  const { user, system } = process.cpuUsage(processor);
  return {
    result,
    seconds: (performance.now() - begin) / 1e3,
    processorSeconds: (user + system) / 1e6,
  };
}

async function reasonings(
  model: Model,
  problems: readonly BinaryProblem[],
  policyId: string,
  options: TruthBenchOptions,
) {
  const { tokens, readouts, seed, signal, onProgress } = options;
  const prompts = problems.map((problem) => opening(problem, MODE, null));
  const step = Math.ceil(tokens / (readouts - 1));
  const found: Trajectory[] = [];
  const replies = model.generate({
    prompts: prompts.map((messages) => ({ messages })),
    sampling: { temperature: 0.25, seed },
    maxTokens: tokens,
    ignoreEndOfSequence: true,
    ...(signal && { signal }),
  });
  let done = 0;
  for await (const { promptIndex: i, tokenIds } of replies) {
    const steps = Array.from({ length: readouts - 1 }, (_, s) =>
      model.detokenize(tokenIds.slice(s * step, (s + 1) * step)),
    );
    found[i] = trajectory({
      problemId: problems[i]!.id,
      policyId,
      modeId: REASONING_MODES.format(MODE),
      seed: seed.toString(),
      prompt: prompts[i]!,
      steps: steps.map((content) => ({ content, trainable: true })),
    });
    onProgress?.('reasoned', ++done);
  }
  return found;
}

/** A policy whose scores are told apart by what they cost. */
function watched(
  model: Model,
  policy: Reasoner,
  onScored: (scored: BranchScores) => void,
): Reasoner {
  return {
    ...policy,
    async score(prefix, targets, options = {}) {
      const branches = targets.map((target) => asBranch(target, prefix));
      const scored = await model.scoreBranches(prefix, branches, options);
      onScored(scored);
      return scored.logProbabilities.map((each) => Float64Array.from(each));
    },
  };
}

/**
 * What the probes' own tokens have cost: those of the trunk that are evaluated again with them cost
 * a reader as much as any other.
 */
function ofProbes({ branches: { tokens, time }, repeatedTokens }: BranchScores): Cost {
  const share = tokens === 0 ? 0 : (tokens - repeatedTokens) / tokens;
  return { seconds: share * time.seconds, processorSeconds: share * time.processorSeconds };
}

export async function benchTruth(options: TruthBenchOptions): Promise<TruthBenchResult> {
  const { modelPath, problems: count, readouts, seed, threads, signal, onProgress } = options;
  await using model = await loadModel(modelPath, {
    fixedThreads: true,
    ...(threads === undefined ? {} : { threads }),
    ...(options.matmul === undefined ? {} : { matmul: options.matmul }),
  });
  const policy = await localReasoner(model, { seed });
  const problems = generate(SUMS_AND_CLAIMS, 'test', count, seed);
  // the first call reads the file
  await model.score(policy.promptIds([{ role: 'user', content: 'Hello' }]), [[0]]);
  const sampling = await timed(() => reasonings(model, problems, policy.id, options));

  let scored: BranchScores | undefined;
  const reader = watched(model, policy, (each) => (scored = each));
  const totals = {
    processorSeconds: sampling.processorSeconds,
    readoutSeconds: 0,
    trajectoryTokens: 0,
    probeTokens: 0,
  };
  const rest = { seconds: 0, processorSeconds: 0 };
  const prefill = { seconds: 0, processorSeconds: 0 };
  for (const [i, of] of sampling.result.entries()) {
    const read = await timed(() => readBeliefs(reader, problems[i]!, of, signal && { signal }));
    const { trunk, branches, repeatedTokens } = scored!;
    totals.readoutSeconds += read.seconds;
    totals.processorSeconds += read.processorSeconds;
    totals.trajectoryTokens += trunk.tokens + repeatedTokens;
    totals.probeTokens += branches.tokens - repeatedTokens;
    onProgress?.('read', i + 1);
    if (i % YARDSTICK !== 0) continue;
    const probes = ofProbes(scored!);
    const ids = [
      ...policy.promptIds(of.prompt),
      ...of.steps.flatMap(({ content }) => [...policy.textIds(`${content}\n\n`)]),
    ];
    const alone = await timed(() => model.score(ids, [[0]], signal && { signal }));
    for (const clock of ['seconds', 'processorSeconds'] as const) {
      rest[clock] += read[clock] - probes[clock];
      prefill[clock] += alone[clock];
    }
  }
  return {
    problems: count,
    readouts: count * readouts,
    matmul: model.info.matmul,
    seconds: sampling.seconds + totals.readoutSeconds,
    costOfReadouts: rest.seconds / prefill.seconds,
    costOfReadoutsInProcessorTime: rest.processorSeconds / prefill.processorSeconds,
    samplingSeconds: sampling.seconds,
    readoutsPerSecond: (count * readouts) / totals.readoutSeconds,
    ...totals,
  };
}
