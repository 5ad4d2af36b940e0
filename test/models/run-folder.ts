/**
 * A run folder with the records of a run, without a model: as long, as broken and as hostile as a
 * test wants it.
 */
import { hash } from 'node:crypto';
import { canonicalJson } from '../../src/canonical-json.js';
import { EventLog } from '../../src/log/event-log.js';
import type { LogPayload } from '../../src/log/payload.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { DEFAULT_RULES } from '../../src/monitor/rules.js';
import { Random } from '../../src/random.js';
import {
  MANIFEST_FORMAT,
  startDigests,
  writeManifest,
  type RunStart,
} from '../../src/run-folder/manifest.js';
import { makeRunFolder, runPaths } from '../../src/run-folder/paths.js';
import {
  adapterStateRecord,
  gateRecord,
  submissionRecord,
} from '../../src/run-folder/course-records.js';
import { RUN_STREAMS, type NewRunRecord } from '../../src/run-folder/streams.js';

export interface RunFolderOptions {
  readonly folder: string;
  /** Of the signer. */
  readonly home: string;
  readonly runId?: string;
  readonly tiers?: readonly {
    readonly id: string;
    readonly title?: string;
    readonly trains?: boolean;
    readonly group?: string;
  }[];
  readonly iterations?: number;
  /** Rollouts of each trained tier in each iteration. */
  readonly rollouts?: number;
  /** Problems of each tier in both sets. */
  readonly problems?: number;
  /** Distinguishes the problems of two sets. */
  readonly setName?: string;
  readonly reply?: (i: number) => string;
  readonly prompt?: string;
  /** Further members of each rollout's verdict. */
  readonly verdict?: object;
  readonly names?: {
    readonly model?: string;
    readonly task?: string;
    readonly policy?: string;
    readonly stopped?: string;
    readonly violation?: string;
  };
  /** Where the run was killed; `end` by default. */
  readonly until?: 'start' | 'before' | 'iterations' | 'end';
  /** Chance to solve a test problem after the run. */
  readonly skill?: number;
  readonly seed?: bigint;
  readonly settings?: RunStart['settings'];
  /** Sums that the run writes beside its verdicts: what a reader must not believe. */
  readonly claimed?: object;
  /** Of the model; default: one that is nowhere. */
  readonly modelSha256?: string;
  /** Tokens of every prompt of a rollout. */
  readonly promptIds?: readonly number[];
  /** Tokens of every reply of a rollout. */
  readonly tokenIds?: readonly number[];
  /** Tokens of the reply to a dev problem in an iteration; by default the log holds none. */
  readonly devReply?: (iteration: number) => readonly number[];
  /** Of the adapter that is submitted; default: of none that is there. */
  readonly adapterSha256?: string;
  /** An evaluation that lacks its set's last problem. */
  readonly cutShort?: { readonly set: 'dev' | 'test'; readonly when: string };
}

export const EXAMPLE_TIERS: NonNullable<RunFolderOptions['tiers']> = [
  { id: 'T0', title: 'warm-up' },
  { id: 'T1' },
  { id: 'T2' },
  { id: 'T3' },
  { id: 'T4sr', group: 'T4' },
  { id: 'T4rd', group: 'T4' },
  { id: 'T4sd', group: 'T4' },
  { id: 'T5', title: 'never trained on', trains: false },
];

const sha = (text: string): string => hash('sha256', text);
const plain = (value: unknown): LogPayload => JSON.parse(JSON.stringify(value)) as LogPayload;

export async function writeRunFolder(
  options: RunFolderOptions,
): Promise<{ readonly folder: string; readonly rollouts: number }> {
  const {
    folder,
    home,
    runId = 'ab'.repeat(16),
    iterations = 6,
    rollouts = 24,
    problems = 20,
    setName = 'set',
    names = {},
    until = 'end',
    skill = 0.6,
    seed = 42n,
    claimed,
    cutShort,
  } = options;
  const claims = (...members: string[]): object =>
    claimed === undefined ? {} : Object.fromEntries(members.map((member) => [member, claimed]));
  const tiers = (options.tiers ?? EXAMPLE_TIERS).map(({ trains = true, ...rest }) => ({
    trains,
    ...rest,
  }));
  const random = new Random(seed);
  const ids = (set: string): [string, string][] =>
    tiers.flatMap(({ id }) =>
      Array.from({ length: problems }, (_, i): [string, string] => [
        sha(`${setName} ${set} ${id} ${i}`),
        id,
      ]),
    );
  const sets = { dev: ids('dev'), test: ids('test') };
  const setSha = {
    dev: sha(canonicalJson(sets.dev.map(([id]) => id))),
    test: sha(canonicalJson(sets.test.map(([id]) => id))),
  };
  const identity = (set: 'dev' | 'test'): RunStart['sets']['dev'] => ({
    origin: 'generated',
    file: null,
    perTier: problems,
    problems: sets[set].length,
    sha256: setSha[set],
  });
  const start: RunStart = {
    code: { version: '0.1.0', javascript: '34'.repeat(32), addon: '33'.repeat(32) },
    machine: { platform: 'linux', arch: 'x64', llamaRelease: 'b1', features: ['AVX2=1'] },
    model: {
      sha256: options.modelSha256 ?? '44'.repeat(32),
      name: names.model ?? 'tiny',
      architecture: 'qwen2',
      quantisation: 'Q8_0',
    },
    task: {
      id: names.task ?? 'scheduling',
      version: '1',
      file: /^[a-z0-9][\w-]*$/i.test(names.task ?? 'scheduling') ? null : 'f1'.repeat(32),
    },
    sets: { dev: identity('dev'), test: identity('test') },
    evaluation: {
      style: 'cot',
      maxTokens: 64,
      maxSequences: 8,
      contextTokens: 4096,
      threads: 1,
      rendererId: '55'.repeat(32),
    },
    rules: DEFAULT_RULES,
    policy: 'scripted',
    schedule: { schedule: 'constant', warmupSteps: 0, totalSteps: 0, finalFactor: 0 },
    settings: { seed: String(seed), iterations, ...options.settings },
  };
  makeRunFolder(folder);
  await writeManifest(folder, { format: MANIFEST_FORMAT, runId, start, result: null });
  const signer = new SingleProcessSigner(home);
  const log = await EventLog.create({
    streams: RUN_STREAMS,
    path: runPaths(folder).log,
    runId,
    signer,
    runConfig: start as never,
    digests: startDigests(start),
  });
  let count = 0;
  try {
    /** Harder tiers later. */
    const chance = (tier: string, progress: number): number =>
      Math.max(
        0,
        Math.min(
          1,
          skill * (1.6 * progress + 0.2 - 0.09 * tiers.findIndex(({ id }) => id === tier)),
        ),
      );
    const evaluation = (set: 'dev' | 'test', when: string, iteration: number): NewRunRecord => {
      const outcomes = sets[set].map(([id, tier]): [string, string, 'pass' | 'fail'] => [
        id,
        tier,
        random.nextDouble() < chance(tier, when === 'after' ? 1 : iteration / iterations)
          ? 'pass'
          : 'fail',
      ]);
      if (cutShort?.set === set && cutShort.when === when) outcomes.pop();
      return {
        stream: 'evaluations',
        payload: plain({
          kind: 'held_out',
          set,
          when,
          iteration,
          adapter: when === 'before' ? null : sha('adapter'),
          setSha256: setSha[set],
          outcomes,
          ...claims('summary'),
        }),
      };
    };
    if (until === 'start') return { folder, rollouts: 0 };
    log.append([evaluation('test', 'before', 0), evaluation('dev', 'before', 0)]);
    const policy = sets.test.map((_, i) => (i % 5 === 0 ? 'pass' : 'fail'));
    log.append([
      {
        stream: 'evaluations',
        payload: plain({
          kind: 'policies',
          tiers,
          outcomes: { [names.policy ?? 'earliest_start']: policy, answer_zero: policy },
          ...(claimed === undefined
            ? {}
            : { summaries: { [names.policy ?? 'earliest_start']: claimed, answer_zero: claimed } }),
        }),
      },
    ]);
    await log.checkpoint();
    if (until === 'before') return { folder, rollouts: 0 };
    const layers = 12;
    log.append([
      {
        stream: 'metrics',
        payload: plain({
          kind: 'layers',
          iteration: 1,
          method: 'activation',
          layers: [2, 7, 8, 9, 10, 11],
          scores: Array.from(
            { length: layers },
            (_, i) => 0.2 + 0.05 * i + 0.2 * random.nextDouble(),
          ),
        }),
      },
    ]);
    const targets = {
      'blk.11.attn_q': { rank: 16, scale: 2 },
      'blk.11.attn_v': { rank: 16, scale: 2 },
    };
    log.append([adapterStateRecord({ iteration: 1, digest: sha('untrained'), targets })]);
    for (let iteration = 1; iteration <= iterations; iteration++) {
      for (const { id: tier } of tiers.filter(({ trains }) => trains)) {
        const records: NewRunRecord[] = [];
        for (let i = 0; i < rollouts; i++) {
          const problemId = sha(`${iteration} ${tier} ${Math.floor(i / 4)}`);
          if (i % 4 === 0)
            records.push({
              stream: 'rollouts',
              payload: plain({
                kind: 'problem',
                iteration,
                problemId,
                tier,
                problem: { tier, jobs: 4 },
                prompt: options.prompt ?? `Schedule the jobs of tier ${tier}.`,
                promptIds: options.promptIds ?? [1, 2, 3],
              }),
            });
          const pass = random.nextDouble() < chance(tier, (iteration - 1) / iterations);
          const admitted = pass && random.nextDouble() < 0.8;
          const text =
            options.reply?.(count) ??
            `Plan: earliest deadline.\nJob A takes 2, from 0 to 2.\n<answer>A: ${i}</answer>`;
          const violations = pass ? [] : [names.violation ?? 'deadline'];
          records.push({
            stream: 'rollouts',
            payload: plain({
              kind: 'rollout',
              iteration,
              problemId,
              tier,
              sample: i % 4,
              seed: `${count}`,
              tokenIds: options.tokenIds ?? [4, 5, 6],
              text,
              finish: 'stop',
              adapterId: null,
              meanLogprob: -0.5,
              form: 'pairs',
              verdict: {
                kind: pass ? 'pass' : 'fail',
                violations,
                details: violations.map((category) => `Job A breaks the rule of ${category}.`),
                ...options.verdict,
              },
              admission: admitted ? 'admitted' : pass ? 'duplicate' : 'failed',
              weight: 0.5,
            }),
          });
          count++;
        }
        log.append(records);
      }
      const steps = 8;
      const fired = iteration % 3 === 0;
      log.append([
        ...Array.from(
          { length: steps },
          (_, i): NewRunRecord => ({
            stream: 'metrics',
            payload: {
              kind: 'step',
              iteration,
              step: (iteration - 1) * steps + i,
              loss: iteration === 1 && i === 0 ? NaN : 2 / (iteration + i / steps),
              tokens: 50,
            },
          }),
        ),
        ...sets.dev.flatMap(([problemId]): NewRunRecord[] =>
          options.devReply === undefined
            ? []
            : [
                {
                  stream: 'evaluations',
                  payload: plain({
                    kind: 'dev_reply',
                    iteration,
                    problemId,
                    finish: 'stop',
                    tokenIds: options.devReply(iteration),
                  }),
                },
              ],
        ),
        evaluation('dev', 'iteration', iteration),
        {
          stream: 'rule_evals',
          payload: plain({
            kind: 'rule_eval',
            iteration,
            rules: {
              R1: { fired, side: fired ? 'high' : 'none', value: 0.007, threshold: 0.005 },
              R3: { fired: false, side: 'none', value: null, threshold: null },
            },
            fired: fired ? ['R1'] : [],
            advisories: [],
          }),
        },
      ]);
      if (fired) {
        log.append([
          {
            stream: 'decisions',
            payload: plain({
              kind: 'decision',
              iteration,
              event_type: 'hyperparameter_change',
              cites: ['R1'],
              justification: 'R1 on its high side',
              remedy_direction: 'decrease_lr',
              edit: [],
              deferral: null,
            }),
          },
          {
            stream: 'effects',
            payload: plain({
              kind: 'effect',
              iteration,
              rule: 'R1',
              operation: { op: 'set_lr', from: 0.001, to: 0.0003 },
              executed: iteration % 2 === 1,
              measured: {},
              ...(iteration % 2 === 1 ? {} : { failure: 'the rate had changed' }),
            }),
          },
        ]);
      }
      if (iteration === 5)
        log.append([
          gateRecord({
            iteration,
            cause: 'dev accuracy fell from 40.0 % to 20.0 %',
            restored: sha('untrained'),
          }),
        ]);
      log.append([
        {
          stream: 'evaluations',
          payload: plain({
            kind: 'iteration_report',
            iteration,
            data: sha('data'),
            adapterId: sha('adapter'),
            ...claims('dev', 'rollouts', 'buffer', 'loss'),
            samplerGap: null,
            learningRate: 1e-3,
            seconds: { rollouts: 1, training: 1, evaluation: 1 },
            tokens: { sampled: 100, trained: 50 },
          }),
        },
      ]);
      await log.checkpoint();
    }
    if (until === 'iterations') return { folder, rollouts: count };
    log.append([
      submissionRecord({ adapter: options.adapterSha256 ?? sha('adapter'), targets }),
      evaluation('test', 'after', iterations),
    ]);
    await log.reveal();
    await writeManifest(folder, {
      format: MANIFEST_FORMAT,
      runId,
      start,
      result: { adapter: options.adapterSha256 ?? sha('adapter') },
    });
    await log.finish({
      stopped: names.stopped ?? 'all iterations done',
      seconds: 75,
      peakRssBytes: 3e8,
      tokens: { prompt: 10, sampled: 20, trained: 30 },
      layers: [2, 7, 8, 9, 10, 11],
      adapterIteration: iterations,
    });
    return { folder, rollouts: count };
  } finally {
    log.close();
    await signer.close();
  }
}
