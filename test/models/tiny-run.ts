/**
 * An honest run in small: real model file, trainer, evaluator, witness and log; and the same run
 * signed again with something changed.
 */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel, type Model } from '../../src/engine/model.js';
import { createTrainer, type StepStatistics } from '../../src/engine/trainer.js';
import { localBackend } from '../../src/backends/local.js';
import { evaluateHistory } from '../../src/monitor/evaluate-rules.js';
import { executeDecision } from '../../src/monitor/remedies.js';
import { ruleConfig } from '../../src/monitor/rules.js';
import {
  decisionRecord,
  effectRecord,
  evaluationRecord,
  iterationRecords,
} from '../../src/run-folder/monitor-records.js';
import { TrainerExecutor } from '../../src/trainees/lora/executor.js';
import { scripted } from '../../src/trainees/lora/scripted.js';
import { LORA, type LoraIteration as Iteration } from '../../src/trainees/lora/trainee.js';
import { evaluationSet, wholeSets } from '../../src/evaluation/evaluation-set.js';
import { evaluateGreedy } from '../../src/evaluation/greedy.js';
import { judgePolicies } from '../../src/evaluation/policies.js';
import { measureProbe } from '../../src/evaluation/probe.js';
import { EventLog } from '../../src/log/event-log.js';
import type { LogSigner } from '../../src/log/signer.js';
import { openWitnessKey, witnessFile } from '../../src/log/witness-key.js';
import { WitnessStore } from '../../src/log/witness-store.js';
import { codeVersion, machineClass } from '../../src/run-folder/machine.js';
import {
  MANIFEST_FORMAT,
  startDigests,
  writeManifest,
  type RunManifest,
  type RunStart,
} from '../../src/run-folder/manifest.js';
import { makeRunFolder } from '../../src/run-folder/paths.js';
import type { AdmissionSettings, Sample } from '../../src/algorithms/algorithm.js';
import { algorithmOf } from '../../src/algorithms/index.js';
import { heldOutReading, RolloutTally } from '../../src/run-folder/derived-figures.js';
import {
  adapterStateRecord,
  adapterTargets,
  probeRecord,
  submissionRecord,
  type AdapterTargets,
} from '../../src/run-folder/course-records.js';
import {
  devReplyRecord,
  heldOutRecord,
  policiesRecord,
} from '../../src/run-folder/evaluation-records.js';
import { openTask } from '../../src/tasks/open-task.js';
import type { OpenTask } from '../../src/tasks/task.js';
import { ReplayBuffer } from '../../src/algorithms/replay-buffer.js';
import { trainSequence } from '../../src/algorithms/sequences.js';
import { chunks } from '../../src/algorithms/steps.js';
import { Undrawn } from '../../src/evaluation/exclusions.js';
import { allocate } from '../../src/rollouts/allocation.js';
import { answer, samplingOf } from '../../src/rollouts/answer.js';
import { planRollouts, type PlannedProblem } from '../../src/rollouts/plan.js';
import { pairedChange, verdictsByTier } from '../../src/statistics/index.js';
import { decided } from './rule-history.js';
import { encodeModel, synthesizeModel } from './synthetic.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';

/**
 * Whatever is asked, the answer is "ok"; a model with random weights never gives it. The verifier
 * can be made to find nothing, as on a machine that is too slow for it.
 */
const TASK = `export default {
  id: 'say-ok', version: '1', tiers: [{ id: 'long' }],
  generate: (tier, seed) => {
    const word = (_, i) => ((seed >> BigInt(8 * i)) & 255n).toString(36);
    return { words: Array.from({ length: 3 }, word) };
  },
  prompt: ({ words }) => [{ role: 'user', content: words.join(' ') }],
  parse: (text) => ({ ok: true, answer: text.trim(), form: 'text' }),
  verify: (problem, answer) =>
    process.env.SAY_OK_SLOW === answer
      ? { kind: 'none', reason: 'it took longer' }
      : { kind: answer === 'ok' ? 'pass' : 'fail' },
  trivialPolicies: { silent: () => '' },
};
`;

export interface TrainedRun {
  /** Holds the model, the task's file and the adapter. */
  readonly folder: string;
  readonly model: string;
  readonly task: string;
  readonly start: RunStart;
  /** What is appended before the submission, one batch a head. */
  readonly batches: readonly (readonly NewRunRecord[])[];
  readonly adapter: {
    readonly path: string;
    readonly sha256: string;
    readonly targets: AdapterTargets;
  };
  readonly after: NewRunRecord;
  readonly accuracy: { readonly before: number | null; readonly after: number | null };
  /** Tokens of the reply that passes. */
  readonly ok: readonly number[];
}

const EVALUATION = {
  style: 'plain',
  maxTokens: 6,
  maxSequences: 8,
  contextTokens: 2048,
  threads: 1,
} as const;
const ITERATIONS = 12;
/** Logged in each iteration: problems, and samples of each. */
const PROBLEMS = 6;
const SAMPLES = 4;
const DRAWN = { temperature: 1, topP: 1 } as const;
const BATCH = 8;
/** Problems of the one tier: a judge asks the task's thread for 120 of every tier, twice. */
const DEV = 8;
export const TEST = 20;

/** Every pass is the same word: nothing else is to be trained on. */
const RULES = { algorithm: { id: 'rft' }, buffer: { accept: 'passing', kind: 'classic' } } as const;

/** Synthetic models all but never end an answer; this one can learn to. */
function writeModel(path: string): void {
  const model = synthesizeModel({ architecture: 'qwen2', embedding: 32 });
  const head = model.tensors.find(({ info }) => info.name === 'output.weight')!.data;
  const rows = new Float32Array(
    head.buffer,
    head.byteOffset,
    head.byteLength / Float32Array.BYTES_PER_ELEMENT,
  );
  for (const id of model.vocabulary.controlIds)
    for (let i = 0; i < 32; i++) rows[32 * id + i]! *= 10;
  writeFileSync(path, Buffer.concat([...encodeModel(model)]));
}

const endOf = (model: Model): number => (model.info.eot >= 0 ? model.info.eot : model.info.eos);

interface Said {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly finish: string;
  readonly form: string | null;
  readonly kind: string;
  readonly violations: readonly string[];
}

/** What the base model says to a plan, by problem and sample. */
async function sampled(
  model: Model,
  task: OpenTask,
  plan: readonly PlannedProblem[],
): Promise<Said[][]> {
  const said: Said[][] = plan.map(() => []);
  const { style, maxTokens, maxSequences } = EVALUATION;
  await answer(
    {
      backend: localBackend(model),
      plan,
      ...samplingOf(task, { style, maxTokens, ...DRAWN }, maxSequences),
    },
    (reply) => {
      const { promptIndex, sampleIndex, text, tokenIds, finish } = reply.rollout;
      const { form, verdict } = reply.judgement;
      said[promptIndex]![sampleIndex] = {
        text,
        tokenIds: [...tokenIds!],
        finish,
        form,
        kind: verdict.kind,
        violations: verdict.violations.map(({ category }) => category),
      };
    },
  );
  return said;
}

/**
 * What is wrong halves with each iteration, and something always is. The first one has what the
 * base model says.
 */
async function rolloutRecords(
  model: Model,
  task: OpenTask,
  iteration: number,
  problems: readonly PlannedProblem[],
  adapterId: string | null,
): Promise<NewRunRecord[]> {
  const total = problems.length * SAMPLES;
  const passing = Math.min(total - 1, Math.round((1 - 0.5 ** (iteration - 1)) * total));
  const first = iteration === 1 ? await sampled(model, task, problems) : null;
  const made = (at: number, sample: number): Said => {
    const pass = sample * problems.length + at < passing;
    const text = pass ? 'ok' : 'no';
    const tokenIds = [...model.tokenize(text), endOf(model)];
    return {
      text,
      tokenIds,
      finish: 'stop',
      form: 'text',
      kind: pass ? 'pass' : 'fail',
      violations: [],
    };
  };
  const prompts = new Map<string, number[]>();
  for (const { problem } of problems)
    prompts.set(problem.id, [...model.renderChat(await task.prompt(problem, 'plain')).tokenIds]);
  return withFates(
    iteration,
    problems.flatMap(({ problem, seeds }, at): NewRunRecord[] => [
      {
        stream: 'rollouts',
        payload: {
          kind: 'problem',
          iteration,
          problemId: problem.id,
          tier: problem.tier,
          problem: problem as never,
          promptIds: prompts.get(problem.id)!,
        },
      },
      ...seeds.map((seed, sample): NewRunRecord => {
        const { text, tokenIds, finish, form, kind, violations } =
          first?.[at]?.[sample] ?? made(at, sample);
        return {
          stream: 'rollouts',
          payload: {
            kind: 'rollout',
            iteration,
            problemId: problem.id,
            tier: problem.tier,
            sample,
            seed: seed.toString(),
            tokenIds,
            text,
            finish,
            adapterId,
            meanLogprob: -1,
            form,
            verdict: { kind, violations },
          },
        };
      }),
    ]),
  );
}

type Sampled = Sample & { readonly problemId: string; readonly tier: string };

/**
 * An iteration's records with what their verdicts make of each rollout, whatever they said of it
 * before.
 */
export function withFates(
  iteration: number,
  records: readonly NewRunRecord[],
  rules: AdmissionSettings = RULES,
): NewRunRecord[] {
  const groups = new Map<string, { tier: string; rollouts: Sampled[] }>();
  for (const { payload } of records) {
    if (payload.kind !== 'rollout') continue;
    const rollout = payload as unknown as Sampled;
    const group = groups.get(rollout.problemId) ?? { tier: rollout.tier, rollouts: [] };
    groups.set(rollout.problemId, group);
    group.rollouts.push(rollout);
  }
  const of = algorithmOf(rules).admit([...groups.values()], {
    settings: rules,
    iteration,
    runSeed: 42n,
    contradicts: () => false,
  });
  return records.map((record) => {
    if (record.payload.kind !== 'rollout') return record;
    const { admission: _, advantage: __, weight: ___, ...payload } = record.payload;
    return { ...record, payload: { ...payload, ...of.get(record.payload as unknown as Sampled)! } };
  });
}

/**
 * Trains with the monitor and the scripted policy, a hundredfold learning rate in between, and
 * keeps everything that a run writes.
 */
export async function trainTinyRun(folder: string): Promise<TrainedRun> {
  mkdirSync(folder, { recursive: true });
  const [modelPath, taskPath, adapterPath] = ['base.gguf', 'say-ok.mjs', 'adapter.gguf'].map(
    (name) => join(folder, name),
  ) as [string, string, string];
  writeModel(modelPath);
  writeFileSync(taskPath, TASK);
  await using model = await loadModel(modelPath, {
    threads: EVALUATION.threads,
    fixedThreads: true,
    contextTokens: EVALUATION.contextTokens,
  });
  await using task = await openTask(taskPath);
  const [dev, test] = [
    await evaluationSet(task, 'dev', DEV),
    await evaluationSet(task, 'test', TEST),
  ];
  const identity = ({
    origin,
    file,
    perTier,
    sha256,
    problems,
  }: typeof dev): RunStart['sets']['dev'] => ({
    origin,
    file,
    perTier,
    sha256,
    problems: problems.length,
  });
  const learningRate = 1e-3;
  // thresholds of a run that small: full rank and a plateau come early, and one sequence says as
  // much as eight
  const rules = ruleConfig.parse({
    r2: { noiseToBatchLow: 1e-6 },
    r3: { patience: 1000 },
    r4: { rankUse: 0.05, saturationGap: 0.05, window: 3 },
    objectiveTarget: 1,
  });
  const start: RunStart = {
    code: await codeVersion(),
    machine: machineClass([model.info]),
    model: {
      sha256: await model.hash(),
      name: 'tiny',
      architecture: model.info.architecture,
      quantisation: model.info.quantisation,
    },
    task: {
      id: task.id,
      version: task.version,
      file: task.source.kind === 'file' ? task.source.sha256 : null,
    },
    sets: { dev: identity(dev), test: identity(test) },
    evaluation: { ...EVALUATION, rendererId: model.rendererId },
    schedule: { schedule: 'constant', warmupSteps: 0, totalSteps: 0, finalFactor: 0 },
    rules,
    policy: scripted.name,
    settings: {
      seed: '42',
      iterations: ITERATIONS,
      model: { threads: EVALUATION.threads, maxSequences: EVALUATION.maxSequences },
      sampling: {
        rollouts: PROBLEMS * SAMPLES,
        samples: SAMPLES,
        maxTokens: EVALUATION.maxTokens,
        style: EVALUATION.style,
        allocation: 'uniform',
        allocationFloor: 0,
        ...DRAWN,
      },
      optimiser: { learningRate, stepsPerIteration: 8, batchSize: BATCH, warmupSteps: 0 },
      evaluation: { gate: false, gateLevel: 0.05, devSize: DEV, testSize: TEST },
      algorithm: RULES.algorithm,
      buffer: { ...RULES.buffer, tierCap: 256, newShare: 0.5, accumulate: true },
    },
  };
  const evaluate = async (
    adapter: Awaited<ReturnType<Model['loadAdapter']>> | null,
  ): Promise<Awaited<ReturnType<typeof evaluateGreedy>>> =>
    evaluateGreedy(localBackend(model), task, test.problems, { ...EVALUATION, adapter });
  const claim = (
    when: 'before' | 'after',
    adapter: string | null,
    { outcomes }: Awaited<ReturnType<typeof evaluateGreedy>>,
  ): NewRunRecord =>
    heldOutRecord({
      set: 'test',
      when,
      iteration: when === 'before' ? 0 : ITERATIONS,
      adapter,
      setSha256: test.sha256,
      outcomes: outcomes.map(({ problemId, tier, kind }) => [problemId, tier, kind]),
    });

  const before = await evaluate(null);
  /**
   * The dev problems with an adapter: replies and verdicts as records, and what the rules read of
   * them.
   */
  const evaluateDev = async (
    iteration: number,
    adapter: Awaited<ReturnType<Model['loadAdapter']>> | null,
  ) => {
    const replies: NewRunRecord[] = [];
    const { outcomes, summary } = await evaluateGreedy(localBackend(model), task, dev.problems, {
      ...EVALUATION,
      adapter,
      onReply: ({ problem, rollout: { finish, tokenIds } }) => {
        replies[dev.problems.indexOf(problem)] = devReplyRecord({
          iteration,
          problemId: problem.id,
          finish,
          tokenIds: [...tokenIds],
        });
      },
    });
    const record = heldOutRecord({
      set: 'dev',
      when: iteration === 0 ? 'before' : 'iteration',
      iteration,
      adapter: adapter?.id ?? null,
      setSha256: dev.sha256,
      outcomes: outcomes.map(({ problemId, tier, kind }) => [problemId, tier, kind]),
    });
    return {
      records: [...replies, record],
      summary,
      verdicts: verdictsByTier(outcomes, task.tiers),
    };
  };
  const devBefore = await evaluateDev(0, null);
  await using trainer = await createTrainer(model, {
    threads: 1,
    seed: 42n,
    lora: { rank: 4, targets: ['q', 'v', 'down'] },
    optimiser: { learningRate },
  });
  let batchSize = BATCH;
  const kept = new Map<string, Uint8Array>();
  let restored = '';
  const inForce = { learningRate, maxNorm: 1, epsilon: 1e-8 };
  const loop = {
    setBatch: (n: number) => (batchSize = n),
    kept: (name: string) => kept.get((restored = name)),
    digest: async () => restored,
    stop: () => undefined,
  };
  const executor = new TrainerExecutor(trainer, { inForce, loop });
  /** In force, and the states before. */
  let present = '';
  const state = async (iteration: number): Promise<NewRunRecord> => {
    present = await trainer.exportAdapter(adapterPath);
    kept.set(present, await trainer.snapshot());
    return adapterStateRecord({
      iteration,
      digest: present,
      targets: adapterTargets(trainer.info.targets),
    });
  };
  const untrained = await state(0);
  const bestAdapter = present;
  const batches: NewRunRecord[][] = [
    [
      claim('before', null, before),
      ...devBefore.records,
      policiesRecord({
        tiers: [...task.tiers],
        verdicts: await judgePolicies(task, test.problems),
      }),
      untrained,
    ],
  ];
  const history: Iteration[] = [];
  const tally = new RolloutTally();
  const buffer = new ReplayBuffer(Infinity);
  const undrawn = new Undrawn(await wholeSets(task), {
    model,
    task,
    style: EVALUATION.style,
    maxTokens: EVALUATION.maxTokens,
  });
  let best = devBefore.verdicts;
  for (let n = 1; n <= ITERATIONS; n++) {
    const counts = allocate({
      tiers: task.tiers.map(({ id }) => id),
      problems: PROBLEMS,
      records: buffer.records(n),
      floor: 1,
    });
    const plan = await planRollouts({
      task,
      runSeed: 42n,
      iteration: n,
      counts,
      samples: SAMPLES,
      excluded: undrawn,
    });
    const rollouts = await rolloutRecords(model, task, n, plan, n === 1 ? null : present);
    for (const { payload } of rollouts) {
      if (payload.kind === 'rollout') tally.take(payload as never);
      buffer.take(payload as never);
    }
    const drawn = buffer.drawClassic(42n, n).map(({ episode }) => trainSequence(episode));
    const sound = present;
    const steps: StepStatistics[] = [];
    for (const batch of chunks(drawn, batchSize))
      steps.push(await trainer.step(batch, { leastMicroBatches: 2 }));
    const parameters = Object.fromEntries(
      trainer.info.targets.map(({ module, rank }) => [module, rank * 128]),
    );
    const trainedState = await state(n);
    const evaluated = await evaluateDev(n, await model.loadAdapter(adapterPath));
    const measured: Iteration = {
      iteration: n,
      steps,
      informativeGroupFraction: tally.informative(n)!,
      objective: tally.objective(n),
      heldOut: heldOutReading(evaluated.summary, evaluated.verdicts, best),
      kl: null,
      parameters,
      executed: [],
    };
    if (pairedChange(best, evaluated.verdicts).difference >= 0) best = evaluated.verdicts;
    history.push(measured);
    const evaluations = evaluateHistory(history, rules, LORA.ruleSet);
    const modules = Object.fromEntries(
      trainer.info.targets.map(({ module, rank, scale }) => [
        module,
        { rank, scale, dormantDirections: [0] },
      ]),
    );
    const decisions = await decided(scripted, evaluations, {
      learningRate: inForce.learningRate,
      batchSize,
      maxBatchSize: 32,
      maxGradNorm: inForce.maxNorm,
      epsilon: inForce.epsilon,
      modules,
      unadapted: [],
      bestAdapter,
      lastSoundAdapter: sound,
    });
    const effects = [];
    executor.begin({ probe: drawn.slice(0, 2), steps });
    for (const decision of decisions)
      effects.push(...(await executeDecision(decision, n, executor)));
    if (n === 4) {
      // a rate that is far too high, so that rules have something to say
      const operation = {
        op: 'set_lr',
        from: inForce.learningRate,
        to: Math.min(1, inForce.learningRate * 30),
      } as const;
      effects.push({
        kind: 'effect',
        iteration: n,
        rule: 'R3',
        operation,
        executed: true,
        measured: await executor.execute(operation),
      } as const);
    }
    history[n - 1] = { ...measured, executed: [...new Set(effects.map(({ rule }) => rule))] };
    batches.push([
      ...rollouts,
      trainedState,
      ...evaluated.records,
      ...iterationRecords(measured),
      evaluationRecord(evaluations.at(-1)!),
      ...decisions.map((decision) => decisionRecord(decision, n)),
      ...effects.map(effectRecord),
      ...(effects.length === 0 ? [] : [await state(n)]),
    ]);
  }
  const sha256 = await trainer.exportAdapter(adapterPath);
  const after = await evaluate(await model.loadAdapter(adapterPath));
  return {
    folder,
    model: modelPath,
    task: taskPath,
    start,
    batches,
    adapter: { path: adapterPath, sha256, targets: adapterTargets(trainer.info.targets) },
    after: claim('after', sha256, after),
    accuracy: { before: before.summary.mean, after: after.summary.mean },
    ok: [...model.tokenize('ok'), endOf(model)],
  };
}

/** A witness as `isopro-native witness` is one, in this process, with the key of that home. */
export function localWitness(home: string): LogSigner {
  const key = openWitnessKey(home);
  const store = new WitnessStore(witnessFile(home), (text, name) => key.sign(text, name));
  return {
    kind: 'witness',
    key: async () => ({ signer: 'witness', publicKey: key.publicKey }),
    ticket: async (runId) => store.issueTicket(runId),
    signHead: async (request) => store.signHead(request),
    reveal: async (runId, size) => store.reveal(runId, size),
    draw: async (runId, size) => store.draw(runId, size),
    heads: async (runId) => store.heads(runId),
    close: async () => store.close(),
  };
}

/**
 * What a dishonest program would do otherwise; everything it writes is signed like an honest run's.
 */
export interface Cheat {
  readonly runId?: string;
  /** What the log commits to, and what the manifest says. */
  readonly start?: (start: RunStart) => RunStart;
  readonly manifest?: (manifest: RunManifest) => RunManifest;
  readonly records?: (batch: NewRunRecord[], index: number) => NewRunRecord[];
  /** Another file is submitted; by default the probe is of the same. */
  readonly adapter?: {
    readonly path: string;
    readonly sha256: string;
    readonly targets: AdapterTargets;
  } | null;
  readonly probeOf?: string;
  readonly submission?: (record: NewRunRecord) => NewRunRecord;
  readonly probe?: (record: NewRunRecord) => NewRunRecord;
  readonly after?: (record: NewRunRecord) => NewRunRecord;
  /** Learns the nonce with the honest adapter first, drops that attempt and submits `adapter`. */
  readonly afterNonce?: boolean;
  readonly signer?: (home: string) => LogSigner;
}

export interface SignedRun {
  readonly folder: string;
  /** Of the witness: ISOPRO_HOME. */
  readonly home: string;
}

export const RUN_ID = 'feed'.repeat(8);

/** Writes the run folder as `run` does, with a new witness and so with another nonce. */
export async function signTinyRun(
  trained: TrainedRun,
  at: string,
  cheat: Cheat = {},
): Promise<SignedRun> {
  const [folder, home] = [join(at, 'run'), join(at, 'home')];
  mkdirSync(home, { recursive: true });
  const paths = makeRunFolder(folder);
  const signer = (cheat.signer ?? localWitness)(home);
  const runId = cheat.runId ?? RUN_ID;
  const start = cheat.start?.(trained.start) ?? trained.start;
  const adapter = cheat.adapter === undefined ? trained.adapter : cheat.adapter;
  let log = await EventLog.create({
    streams: RUN_STREAMS,
    path: paths.log,
    runId,
    signer,
    runConfig: start as never,
    digests: startDigests(start),
  });
  for (const [i, batch] of trained.batches.entries()) {
    const records = cheat.records?.([...batch], i) ?? [...batch];
    if (records.length > 0) log.append(records);
    await log.checkpoint();
  }
  if (cheat.afterNonce === true) {
    const abandonedFrom = log.size;
    log.append([
      submissionRecord({ adapter: trained.adapter.sha256, targets: trained.adapter.targets }),
    ]);
    await log.reveal();
    log.close();
    log = await EventLog.resume({
      streams: RUN_STREAMS,
      path: paths.log,
      signer,
      fromIteration: ITERATIONS,
      abandonedFrom,
    });
  }
  const honest = submissionRecord({
    adapter: adapter?.sha256 ?? null,
    targets: adapter?.targets ?? {},
  });
  const after = {
    ...trained.after,
    payload: { ...trained.after.payload, adapter: adapter?.sha256 ?? null },
  };
  log.append([cheat.submission?.(honest) ?? honest, cheat.after?.(after) ?? after]);
  const nonce = await log.reveal();
  const probed =
    adapter === null ? null : { path: cheat.probeOf ?? adapter.path, sha256: adapter.sha256 };
  const probe = probeRecord(
    await measureProbe({ modelPath: trained.model, adapter: probed, nonce, threads: 1 }),
  );
  log.append([cheat.probe?.(probe) ?? probe]);
  if (adapter !== null) copyFileSync(adapter.path, paths.adapter(adapter.sha256));
  const manifest: RunManifest = {
    format: MANIFEST_FORMAT,
    runId,
    start,
    result: { adapter: adapter?.sha256 ?? null },
  };
  await writeManifest(folder, cheat.manifest?.(manifest) ?? manifest);
  await log.finish();
  await signer.close();
  return { folder, home };
}
