/**
 * Finds and loads the C++ addon and registers llama.cpp's back ends; the typed face of what
 * native/addon.cpp exports.
 */
import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { offAbort, onAbort } from '../abort.js';
import { abortError, ERRORS, IsoproError, withReason, type ErrorCode } from '../errors.js';
import { readJson, unreadable } from '../files.js';
import type {
  CheckedTrainerOptions,
  PlannedTarget,
  TrainSequenceCopy,
} from './training-request.js';

export interface NativeCancellation {
  cancel(): void;
}

export interface NativeAdapter {
  /** Whether it acts from its invocation tokens on; false once it is disposed. */
  readonly activated: boolean;
  dispose(): void;
}

export const MATMULS = ['ggml', 'own', 'auto'] as const;
export type Matmul = (typeof MATMULS)[number];
/** Values of `info.matmul` of a loaded model. */
export const KERNELS = ['ggml', 'own'] as const;
export const MATMUL_HELP =
  'matrix kernels: ggml, own (most formats of 4 to 8 bits on x86), or auto (own where supported)';

export interface NativeModelInfo {
  architecture: string;
  name: string;
  chatTemplate: string;
  vocabularySize: number;
  layers: number;
  embeddingSize: number;
  trainedContext: number;
  /** Type of the cached keys and values: f32, f16, bf16 or q8_0. */
  kvType: string;
  kvBytesPerToken: number;
  /** Bytes that a sequence takes whatever its length: the state of a recurrent model, else 0. */
  stateBytes: number;
  /**
   * True if each sample is evaluated by itself, because what the model keeps of a text cannot be
   * shared: its prompt is evaluated for it alone, and no prefix of it is kept.
   */
  evaluatesAlone: boolean;
  parameters: number;
  bytes: number;
  quantisation: string;
  threads: number;
  /**
   * Whose kernels multiply with the weights (LoadModelOptions.matmul): `own` where at least one
   * matrix of the file is theirs.
   */
  matmul: (typeof KERNELS)[number];
  /**
   * Version of the bits of this model's logits, where every operation of its graph is computed by
   * our kernels or is exact: they are then the same on every processor that runs these kernels,
   * whatever the release of llama.cpp (native/inference/own_operations.h). Null where ggml computes
   * one of them.
   */
  ownBits: number | null;
  /**
   * True if a sample of a request for several has the same bits whatever else the request asks for
   * (native/inference/context.h).
   */
  batchInvariant: boolean;
  /** Token ids; -1 where the vocabulary has none. */
  bos: number;
  eos: number;
  eot: number;
  /** Every token that ends a turn. */
  ends: readonly number[];
  addBos: boolean;
  /** Warnings of llama.cpp from loading the file. */
  warnings: readonly string[];
}

export interface NativeReplySettings {
  sampling: {
    temperature: number;
    topK: number;
    topP: number;
    minP: number;
    repeatPenalty: number;
    repeatWindow: number;
    presencePenalty: number;
    frequencyPenalty: number;
    biasedTokens: Int32Array;
    /** One a biased token. */
    biases: Float32Array;
    topLogprobs: number;
  };
  maxTokens: number;
  minTokens: number;
  stopStrings: string[];
  stopTokens: Int32Array;
  stopBefore: string;
  ignoreEndOfSequence: boolean;
  grammar: string;
  adapterScale: number;
}

export interface NativeRequest extends NativeReplySettings {
  prompts: { tokens: Int32Array; seeds: bigint[] }[];
  boundary: number;
  cellBudget: number;
  maxSequences: number;
  /** undefined: the model's own; null: the bare base. */
  adapter: NativeAdapter | null | undefined;
}

export interface NativeBatchRequest extends NativeReplySettings {
  prompt: Int32Array;
  seed: bigint;
  adapter: NativeAdapter | null;
  deterministic: boolean;
  cachePartition: string;
  rank: number;
}

/**
 * A possible token at a position, with its natural log-probability under the model's own
 * distribution.
 */
export interface TokenChance {
  readonly tokenId: number;
  readonly logprob: number;
}

export interface NativeText {
  tokens: Int32Array;
  logProbabilities: Float32Array;
  sampledLogProbabilities: Float32Array;
  /** One list a token, where any were asked for. */
  top?: TokenChance[][];
  text: string;
  /** The prompt lacks the invocation tokens of the adapter: the base model answered. */
  notActivated?: true;
}

export interface NativeRollout extends NativeText {
  prompt: number;
  sample: number;
  seed: bigint;
  finish: 'stop' | 'length' | 'aborted';
  boundary: Uint16Array | null;
}

export interface NativeReply extends NativeText {
  finish: 'stop' | 'length';
  reusedTokens: number;
}

export interface NativeToken {
  token: number;
  logProbability: number;
  sampledLogProbability: number;
  top?: TokenChance[];
  text: string;
}

/**
 * Scores of one continuation, one entry per token; `ranks` and `top` are empty if `alternatives` is
 * -1.
 */
export interface NativeScores {
  logProbabilities: Float32Array;
  ranks: Int32Array;
  top: TokenChance[][];
}

/** A text that continues the first `at` tokens of a trunk; the tokens from `from` on are scored. */
export interface NativeBranch {
  at: number;
  tokens: Int32Array;
  from: number;
}

/** Cost of a part of the work; processor time is that of the whole process. */
export interface StageTime {
  readonly seconds: number;
  readonly processorSeconds: number;
}

/** Number of evaluated tokens, and the cost of evaluating them. */
export interface EvaluationCost {
  readonly tokens: number;
  readonly time: StageTime;
}

export interface BranchScores {
  /** Log-probabilities of each branch's tokens from `from` on. */
  readonly logProbabilities: readonly Float32Array[];
  readonly trunk: EvaluationCost;
  readonly branches: EvaluationCost;
  /**
   * Number of tokens of the trunk just before a branch that are evaluated again with the branch.
   */
  readonly repeatedTokens: number;
}

/** Progress of a running generation. */
export interface GenerationProgress {
  /** Rollouts. */
  finished: number;
  total: number;
  promptTokens: number;
  sampledTokens: number;
  /** Sequences in the running batch. */
  live: number;
  /** Threads that the last decode step used. */
  threads: number;
  /** Evaluating prompts, evaluating sampled tokens, and drawing them, so far. */
  prefill: StageTime;
  decode: StageTime;
  draw: StageTime;
}

export interface TensorSummary {
  readonly name: string;
  /** ggml's name: f32, q4_K, … */
  readonly type: string;
  /** `dimensions[0]` is the length of a row. */
  readonly dimensions: readonly number[];
  readonly bytes: number;
}

export interface NativeInspection {
  /** GGUF version. */
  readonly version: number;
  /** Size of the file in bytes. */
  readonly bytes: number;
  /** `general.type`; `model` where the file does not say. */
  readonly kind: string;
  /** Empty where the file names none. */
  readonly architecture: string;
  readonly name: string;
  readonly parameters: number;
  readonly vocabularySize: number;
  /** Totals by tensor type, most bytes first. */
  readonly types: readonly {
    readonly type: string;
    readonly tensors: number;
    readonly parameters: number;
    readonly bytes: number;
    /** Whose kernels multiply with these matrices where `matmul` is auto; null: all are vectors. */
    readonly kernels: (typeof KERNELS)[number] | null;
    /** The instruction set of own kernels, or the reason for ggml's. */
    readonly why: string | null;
  }[];
  /**
   * Type of the cached keys and values where `matmul` is auto and no `kvType` is given; null: the
   * file does not load.
   */
  readonly kvType: string | null;
  /** Scalars as text, arrays as their type and length, in the file's order. */
  readonly metadata: readonly (readonly [key: string, value: string])[];
  readonly tensors: readonly TensorSummary[];
  /** Warnings of llama.cpp from reading the file; empty if it does not read it. */
  readonly warnings: readonly string[];
  /**
   * Reason why `loadModel` would refuse the file, or null. Adapters are compared with a base model
   * only when they are loaded.
   */
  readonly problem: { readonly code: ErrorCode; readonly message: string } | null;
  /**
   * Reason why `createTrainer` would refuse the file: `problem`, or an operation that has no
   * backward pass; or null.
   */
  readonly trainingProblem: { readonly code: ErrorCode; readonly message: string } | null;
  /** What a sequence takes of the cache; null where the file is refused before that is known. */
  readonly cache: {
    /** Keys and values of one token, in all layers. */
    readonly valuesPerToken: number;
    /** Bytes whatever the length: the state of a recurrent model. */
    readonly stateBytes: number;
  } | null;
  /** As in NativeModelInfo. */
  readonly evaluatesAlone: boolean;
}

export interface NativeModel {
  load(
    options: {
      path: string;
      gpuLayers: number;
      kvType: string;
      matmul: Matmul;
      threads: number;
      fixedThreads: boolean;
    },
    cancellation: NativeCancellation,
    onProgress: (fraction: number) => void,
  ): Promise<void>;
  info(): NativeModelInfo;
  tokenize(text: string, parseControl: boolean): Int32Array;
  /** On a thread of the pool. */
  tokenizeAll(texts: string[]): Promise<Int32Array[]>;
  /** True if different texts always have different tokens; false if unknown. */
  tokenizesInjectively(): boolean;
  detokenize(tokens: Int32Array, withControl: boolean): string;
  bytes(token: number): Uint8Array;
  controlTokens(): { id: number; text: string }[];
  generate(
    request: NativeRequest,
    cancellation: NativeCancellation,
    onEvent: (event: { rollout?: NativeRollout; progress?: GenerationProgress }) => void,
  ): Promise<GenerationProgress>;
  openBatch(settings: { cells: number; maxSequences: number; prefixTokens: number }): Promise<void>;
  reply(
    request: NativeBatchRequest,
    cancellation: NativeCancellation,
    onToken: ((token: NativeToken) => void) | undefined,
  ): Promise<NativeReply>;
  score(
    prefix: Int32Array,
    continuations: Int32Array[],
    how: { cellBudget: number; stepwise: boolean; alternatives: number },
    cancellation: NativeCancellation,
  ): Promise<NativeScores[]>;
  scoreBranches(
    trunk: Int32Array,
    branches: NativeBranch[],
    how: { cellBudget: number },
    cancellation: NativeCancellation,
  ): Promise<BranchScores>;
  hiddenRows(
    tokens: Int32Array,
    boundaries: Int32Array,
    cancellation: NativeCancellation,
  ): Promise<Uint16Array[]>;
  hiddenNorms(
    tokens: Int32Array,
    layers: Int32Array,
    cancellation: NativeCancellation,
  ): Promise<{ out: number; in: number; update: number }[]>;
  /** `adapter` undefined: the model's own. */
  embed(
    tokens: Int32Array,
    adapter: NativeAdapter | null | undefined,
    cancellation: NativeCancellation,
  ): Promise<Float32Array>;
  loadAdapter(path: string): Promise<NativeAdapter>;
  setAdapter(adapter: NativeAdapter | null, scale: number): Promise<void>;
  releaseContext(): Promise<void>;
  measureOperations(): Promise<void>;
  operationTimes(): Promise<OperationTime[]>;
  dispose(): Promise<void>;
}

/** Cost of one operation of llama.cpp's graphs, as far as one kind of kernels computed it. */
export interface OperationTime {
  /** `product q4_K`, `attention`, `rms_norm` and so on. */
  readonly operation: string;
  /** `repacked`: ggml's kernels on weights that it repacked while it loaded them. */
  readonly computer: 'own' | 'ggml' | 'repacked' | 'amx' | 'gpu';
  readonly nodes: number;
  /** By the clock. */
  readonly seconds: number;
  readonly processorSeconds: number;
}

/**
 * Cost of a trainer's calls so far. `forward` is the forward pass of a step up to the output head;
 * `evaluation` is the cost of calls without a gradient.
 */
export interface TrainerTimes {
  readonly boundaries: StageTime;
  readonly evaluation: StageTime;
  readonly forward: StageTime;
  readonly head: StageTime;
  readonly backward: StageTime;
  readonly optimiser: StageTime;
}

export interface NativeTrainerInfo {
  architecture: string;
  layers: number;
  width: number;
  vocabulary: number;
  contextLength: number;
  /** Below it nothing is differentiated. */
  lowestTrained: number;
  /** Trained. */
  parameters: number;
  /** Whose activations are kept in a full micro-batch; the others are recomputed. */
  keptLayers: number;
  modelBytes: number;
  /** Updates so far. */
  steps: number;
  threads: number;
  /** `parameters`: of both factors. */
  targets: { module: string; rank: number; scale: number; parameters: number }[];
}

export interface NativeObjective {
  policy: boolean;
  temperature: number;
  clipLow: number;
  clipHigh: number;
  klCoefficient: number;
}

/**
 * Statistics of one adapted module, named as its tensor in GGUF (blk.3.attn_k). Formulas:
 * docs/training.md. A type instead of an interface, so that the monitor can read it as a dictionary
 * of numbers.
 */
export type ModuleStatistics = {
  /** sqrt(||gA||^2 + ||gB||^2), before clipping. */
  readonly pairGradNorm: number;
  /** s ||delta(BA)|| / ||W||. */
  readonly updateRatio: number;
  /** Fraction of directions whose mean contribution is at most 2.5 % of the module's mean. */
  readonly dormantFraction: number;
  /** Dormant directions, ascending. */
  readonly dormantDirections: readonly number[];
  /** exp(entropy of the normalised singular values of BA) / rank. */
  readonly rankUse: number;
};

/** Measured in C++ before clipping; frozen. */
export interface StepStatistics {
  /** Number of the step, from 1. */
  readonly step: number;
  readonly learningRate: number;
  /** Number of labelled tokens. */
  readonly tokens: number;
  /** Loss per labelled token. */
  readonly loss: number;
  readonly gradNorm: number;
  readonly clipped: boolean;
  /** False if something was not finite; then nothing was changed. */
  readonly applied: boolean;
  /** Names of the values that were not finite: "loss" or parameters. */
  readonly nonFinite: readonly string[];
  /** Norm of the mean gradient of each micro-batch, for the noise scale. */
  readonly microBatchNorms: readonly number[];
  readonly microBatchTokens: readonly number[];
  /** Fraction of labelled tokens whose ratio was clipped. */
  readonly clipFraction: number;
  /** Mean of the k3 estimate over tokens with a reference log-probability. */
  readonly klToReference: number;
  /**
   * Mean |log p - oldLogprob| over tokens that have one, before the update: the distance of the
   * policy from the one that sampled.
   */
  readonly oldPolicyGap: number;
  readonly modules: Readonly<Record<string, ModuleStatistics>>;
}

export interface SequenceEvaluation {
  /** Loss, summed over the labelled tokens of the sequence. */
  readonly loss: number;
  /** Mean entropy over the labelled tokens, nats. */
  readonly entropy: number;
  /**
   * Log-probabilities, [tokens], at the objective's temperature; 0 for tokens that are not
   * labelled.
   */
  readonly logprobs: Float32Array;
}

export interface Evaluation {
  /** Loss per labelled token. */
  readonly loss: number;
  readonly tokens: number;
  readonly sequences: readonly SequenceEvaluation[];
}

export type NativeEdit =
  | { kind: 'raiseRank'; module: string; rank: number }
  | ({ kind: 'addTarget' } & PlannedTarget)
  | { kind: 'recycleDirections'; module: string; directions: Int32Array }
  | { kind: 'rebalance' | 'rescale' | 'setRateFactor'; module: string; factor: number }
  | { kind: 'setOptimiser'; learningRate: number; maxNorm: number; epsilon?: number | undefined };

/** Properties of a model that decide which adapters fit it and how PEFT orders their rows. */
export interface ModelShape {
  architecture: string;
  layers: number;
  heads: number;
  /** Number of heads of k and v. */
  keyHeads: number;
  /** q, k and v are one matrix, and gate and up another. */
  fused: boolean;
  /** Feed-forward layers are mixtures of experts. */
  experts: boolean;
}

/** One adapted matrix: y = W x + scale B A x. */
export interface AdapterModule {
  /** Name as in GGUF, without ".weight": blk.3.attn_k. */
  name: string;
  rank: number;
  inputs: number;
  outputs: number;
  scale: number;
  /** [rank, inputs] */
  a: Float32Array;
  /** B transposed, [rank, outputs] */
  b: Float32Array;
}

export interface NativeTrainer {
  open(path: string): Promise<ModelShape>;
  create(
    options: Omit<CheckedTrainerOptions, 'lora'> & { targets: readonly PlannedTarget[] },
  ): Promise<void>;
  information(): Promise<NativeTrainerInfo>;
  times(): Promise<TrainerTimes>;
  step(
    batch: TrainSequenceCopy[],
    objective: NativeObjective,
    microBatches: Int32Array,
    leastMicroBatches: number,
    apply: boolean,
    cancellation: NativeCancellation,
  ): Promise<StepStatistics>;
  evaluate(
    batch: TrainSequenceCopy[],
    objective: NativeObjective,
    adapter: boolean,
    cancellation: NativeCancellation,
  ): Promise<Evaluation>;
  captureBoundary(
    batch: TrainSequenceCopy[],
    cancellation: NativeCancellation,
  ): Promise<Uint16Array[]>;
  edit(edit: NativeEdit): Promise<void>;
  state(): Promise<Uint8Array>;
  loadState(state: Uint8Array): Promise<void>;
  /** A GGUF. */
  encodeAdapter(baseSha256: string): Promise<Uint8Array>;
  setAdapter(modules: AdapterModule[]): Promise<void>;
  factors(): Promise<AdapterModule[]>;
  /** `file` then holds the model as trained so far. */
  encodeModel(file: NativeModelFile, type: string): Promise<void>;
  releaseBuffers(): Promise<void>;
  dispose(): Promise<void>;
}

/** A model to be written, in pieces. */
export interface NativeModelFile {
  merge(modelPath: string, modules: AdapterModule[], type: string): Promise<void>;
  describe(): Promise<{ bytes: number; types: Record<string, number> }>;
  /** null at the end of the file. */
  next(): Promise<Uint8Array | null>;
  dispose(): Promise<void>;
}

export interface Addon {
  readonly llamaRelease: string;
  loadBackends(folder: string): void;
  backends(): { name: string; description: string; type: 'cpu' | 'gpu' | 'other' }[];
  /** Instruction sets that the loaded CPU back end was compiled for, by ggml's names. */
  processorFeatures(): Record<string, string>;
  /** Whether the trainer multiplies in bf16 on this processor. */
  readonly multipliesBf16: boolean;
  /** Rate of one such product over that in f32; null if there is none. Takes some 50 ms. */
  bf16Speed(): number | null;
  /** loadModel's default of threads. */
  physicalCores(): number;
  /** Without `byLlama`, llama.cpp does not see the file. */
  inspectModel(path: string, byLlama: boolean): Promise<NativeInspection>;
  /** Memory that a trial may take next to the file's own pages. */
  readonly trialBytes: number;
  /** Checks a file whose architecture has no validator, and returns true for such a file. */
  wantsTrial(path: string): Promise<boolean>;
  /** Ends this process with one of the exit codes where it is over a limit. */
  tryModel(
    path: string,
    limits: {
      readonly processorSeconds: number;
      readonly bytes: number;
      readonly processorExit: number;
      readonly memoryExit: number;
    },
  ): Promise<void>;
  readonly Cancellation: new () => NativeCancellation;
  readonly NativeModel: new () => NativeModel;
  /** Cancels and ends every job thread of this environment. */
  stopAll(): void;
  readonly NativeTrainer: new () => NativeTrainer;
  /** Factors of a GGUF adapter, in the file's order. */
  readAdapter(path: string): Promise<{
    architecture: string;
    name: string;
    baseName: string;
    baseSha256: string;
    /** Empty: the adapter acts on every token. */
    invocationTokens: Int32Array;
    modules: AdapterModule[];
  }>;
  /** A GGUF of factors that fit the model. */
  encodeAdapter(
    modelPath: string,
    modules: AdapterModule[],
    baseSha256: string,
    invocationTokens: Int32Array,
  ): Promise<Uint8Array>;
  readonly NativeModelFile: new () => NativeModelFile;
}

/** The folder that holds package.json, native/, build/ and prebuilds/. */
export function packageRoot(): string {
  let folder = path.dirname(fileURLToPath(import.meta.url));
  for (;;) {
    const manifest = path.join(folder, 'package.json');
    if (existsSync(manifest) && (readJson(manifest) as { name?: string }).name === 'isopro-native')
      return folder;
    const parent = path.dirname(folder);
    if (parent === folder)
      throw new IsoproError(
        'NATIVE_ADDON_MISSING',
        'the package folder of isopro-native was not found',
      );
    folder = parent;
  }
}

/** Returns the paths where the addon may be, in search order. */
export function addonCandidates(root = packageRoot()): string[] {
  return [
    // first: a clone that packed itself once goes on being built
    path.join(root, 'build', 'Release', 'isopro_native.node'),
    path.join(root, 'prebuilds', `${process.platform}-${process.arch}`, 'isopro_native.node'),
  ];
}

/**
 * Returns what the system refused when a library was not loaded, judged by the loader's message;
 * undefined if the library itself is at fault.
 */
function refusedLibrary(failure: Error | undefined): ErrorCode | undefined {
  const words = failure?.message ?? '';
  if (/failed to map segment|cannot map zero-fill|cannot allocate memory/i.test(words))
    return 'OUT_OF_MEMORY';
  return /too many open files/i.test(words) ? 'SYSTEM_LIMIT' : undefined;
}

/**
 * Checks that the system can open more files: ggml silently skips a back end whose file it cannot
 * open. ggml has the folder and one file open at a time.
 */
function requireRoomForFiles(file: string): void {
  const opened: number[] = [];
  try {
    for (const name of [path.dirname(file), file]) opened.push(openSync(name, 'r'));
  } catch (cause) {
    throw unreadable(file, cause, 'BACKEND_UNAVAILABLE');
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}

/**
 * Returns the error of loading a back end's library: ggml silently skips a library that does not
 * load.
 */
function refusedBackend(folder: string): Error | undefined {
  for (const name of readdirSync(folder).filter((entry) =>
    /^(lib)?ggml-cpu.*\.(so|dll)$/.test(entry),
  )) {
    try {
      process.dlopen({ exports: {} }, path.join(folder, name));
    } catch (cause) {
      // which it is as well where the library loads: it is no addon of Node's
      if (refusedLibrary(cause as Error) !== undefined) return cause as Error;
    }
  }
  return undefined;
}

/**
 * Tests whether the addon can be built in this folder; a package from `npm run package` has a
 * prebuilt addon and no sources.
 */
export const isSource = (root: string): boolean => existsSync(path.join(root, 'CMakeLists.txt'));

/** @param there whether an addon is there and does not load */
export function missingAddonRemedy(root: string, there: boolean): string {
  const prebuilds = path.join(root, 'prebuilds');
  if (!isSource(root) && existsSync(prebuilds))
    return (
      `This package has an addon for ${readdirSync(prebuilds).join(', ')}, but this machine is ${process.platform}-${process.arch}` +
      `${there ? ' with another C library, or lacks a library that the addon needs' : ''}. Install from a clone of the project, which ` +
      'compiles the addon.'
    );
  const installed = path.basename(path.dirname(root)) === 'node_modules';
  const build = installed
    ? `\`npm rebuild isopro-native --foreground-scripts\` in ${path.dirname(path.dirname(root))}`
    : `\`npm run build:native\` in ${root}`;
  const why = there
    ? 'The addon was built for another processor, system or C library, or a library that it needs is missing'
    : installed
      ? 'npm skipped its install script (--ignore-scripts), or the script failed'
      : 'It has not been built';
  return `${why}: run ${build}; it needs a C++ compiler, CMake and git, which \`isopro-native doctor\` looks for.`;
}

let loaded: { addon: Addon; file: string } | undefined;

/**
 * Returns the addon, loaded once per process.
 * @throws IsoproError NATIVE_ADDON_MISSING, BACKEND_UNAVAILABLE, SYSTEM_LIMIT, OUT_OF_MEMORY
 */
export function loadAddon(): { addon: Addon; file: string } {
  if (loaded !== undefined) return loaded;
  const candidates = addonCandidates();
  const require = createRequire(import.meta.url);
  let addon: Addon | undefined;
  let file = '';
  let failure: Error | undefined;
  // A prebuilt addon may be there and not load (another C library): the local build is then the one
  // to take.
  for (const candidate of candidates.filter((candidate) => existsSync(candidate))) {
    try {
      addon = require(candidate) as Addon;
      file = candidate;
      break;
    } catch (cause) {
      failure ??= new Error(`${candidate} could not be loaded: ${(cause as Error).message}`, {
        cause,
      });
    }
  }
  if (addon === undefined) {
    throw new IsoproError(
      refusedLibrary(failure) ?? 'NATIVE_ADDON_MISSING',
      failure?.message ?? `no addon found at ${candidates.join(' or ')}`,
      refusedLibrary(failure) === undefined
        ? { cause: failure, remedy: missingAddonRemedy(packageRoot(), failure !== undefined) }
        : { cause: failure },
    );
  }
  process.once('exit', () => addon.stopAll());
  requireRoomForFiles(file);
  addon.loadBackends(path.dirname(file));
  if (!addon.backends().some((backend) => backend.type === 'cpu')) {
    const refused = refusedBackend(path.dirname(file));
    throw new IsoproError(
      refusedLibrary(refused) ?? 'BACKEND_UNAVAILABLE',
      `llama.cpp found no CPU back end to load in ${path.dirname(file)}${refused === undefined ? '' : `: ${refused.message}`}`,
      refused === undefined ? {} : { cause: refused },
    );
  }
  loaded = { addon, file };
  return loaded;
}

/** Returns an error of the addon as an IsoproError; other errors are returned unchanged. */
export function fromNative(error: unknown): unknown {
  const { code, message } = error as { code?: unknown; message?: unknown };
  // Where Node-API's own glue could not make the object that would have carried a code.
  if (message === 'std::bad_alloc')
    return new IsoproError('OUT_OF_MEMORY', 'out of memory', { cause: error });
  return typeof code === 'string' && Object.hasOwn(ERRORS, code)
    ? new IsoproError(code as ErrorCode, String(message), { cause: error })
    : error;
}

/** Makes a synchronous call of the addon; its errors become IsoproErrors. */
export function typed<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw fromNative(error);
  }
}

/** Awaits a call of the addon; its errors become IsoproErrors. */
export async function settled<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise;
  } catch (error) {
    throw fromNative(error);
  }
}

/**
 * Runs a call that an AbortSignal cancels.
 * @throws IsoproError ABORTED, and whatever the call throws
 */
export async function cancellable<T>(
  addon: Addon,
  signal: AbortSignal | undefined,
  call: (cancellation: NativeCancellation) => Promise<T>,
): Promise<T> {
  if (signal?.aborted === true) throw abortError('the operation was cancelled', signal);
  const cancellation = typed(() => new addon.Cancellation());
  const abort = (): void => cancellation.cancel();
  onAbort(signal, abort);
  try {
    return await settled(call(cancellation));
  } catch (error) {
    throw withReason(error, signal);
  } finally {
    offAbort(signal, abort);
  }
}
