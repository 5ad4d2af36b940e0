/** Two versions of an adapter on the same fresh problems of a task, batch by batch. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { localBackend } from '../../backends/local.js';
import type { Adapter } from '../../engine/adapter.js';
import { loadModel, type Model } from '../../engine/model.js';
import { modelOfRecord } from '../../engine/model-files.js';
import { IsoproError } from '../../errors.js';
import { wholeSets } from '../../evaluation/evaluation-set.js';
import { evaluateGreedy } from '../../evaluation/greedy.js';
import { readJson } from '../../files.js';
import { given } from '../../given.js';
import { deriveSeed } from '../../random.js';
import { BASE_VERSION, type GateTrials } from '../../registry/gates.js';
import type { Reading } from '../../registry/ledger.js';
import type { Registry } from '../../registry/registry.js';
import { requireFit, servingOf } from '../../registry/resolve.js';
import type { Entry } from '../../registry/state.js';
import { readWrittenSettings } from '../../run-folder/written-settings.js';
import { askingOf } from '../../tasks/asking-options.js';
import { openTask } from '../../tasks/open-task.js';
import { PROMPT_STYLES, type OpenTask, type Problem, type PromptStyle } from '../../tasks/task.js';

type Trials = GateTrials['trials'];

export interface MeasureOptions {
  /** Most problems that both are asked; less may be enough. */
  readonly problems: number;
  /** Path, alias or URI; default: the base by the name in the newer version's record. */
  readonly model?: string;
  /** Default: the scenario. */
  readonly task?: string;
  /**
   * Default: as the newer version's run asked, else with a chain of thought and 512 tokens; system
   * prompt, examples, stop strings and turns are that run's.
   */
  readonly style?: PromptStyle;
  readonly maxTokens?: number;
  readonly maxSequences?: number;
  readonly threads?: number;
  /** Problems between two decisions. */
  readonly batch?: number;
  /**
   * The task's own score where its verdict has one, in place of 1 for a pass and 0 for a failure.
   */
  readonly scored?: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

/** Source of the problems. */
export interface Draw {
  /** 64 hex digits. */
  readonly seed: string;
  readonly purpose: string;
  readonly round: number;
  /** Ids of problems that are fresh no more. */
  readonly used: ReadonlySet<string>;
  /**
   * Ids of problems that both were asked before, which are not asked again; they count as asked.
   */
  readonly answered?: ReadonlySet<string>;
}

export interface Versions {
  readonly scenario: string;
  readonly newer: Entry;
  /** Null: the base without an adapter. */
  readonly older: Entry | null;
}

/** One batch of problems, both versions' trials of each. */
export interface MeasuredBatch {
  readonly trials: Trials;
  /** Tokens of each reply, its end included. */
  readonly lengths: Trials;
  /** Problems that were asked by now. */
  readonly done: number;
}

/** Settings of a run, as a record holds them. */
const asked = z.object({
  sampling: z.object({ style: z.enum(PROMPT_STYLES), maxTokens: z.int().min(1) }),
});

function askedAs({ record: { settings } }: Entry): {
  readonly style: PromptStyle;
  readonly maxTokens: number;
} {
  const parsed = asked.safeParse(settings);
  return parsed.success ? parsed.data.sampling : { style: 'cot', maxTokens: 512 };
}

/**
 * Draws per requested problem before a task counts as exhausted, because a small task repeats
 * itself.
 */
const DRAWS = 8;

/**
 * Draws problems tier by tier, by the seed alone, without evaluation problems and used ones.
 * @throws IsoproError INVALID_ARGUMENT if the task cannot make enough problems
 */
async function drawProblems(
  task: OpenTask,
  { seed, purpose, round, used }: Draw,
  count: number,
): Promise<Problem[]> {
  if (task.rows !== undefined)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the problems of ${task.id} are rows of a file, so none of them is fresh`,
      {
        remedy:
          'Measure both versions on rows that neither was trained on, and pass the trials with --evidence.',
      },
    );
  const taken = new Set([...(await wholeSets(task)).map(({ id }) => id), ...used]);
  const problems: Problem[] = [];
  const runSeed = BigInt(`0x${seed.slice(0, 16)}`);
  for (let sample = 0; problems.length < count && sample < DRAWS * count; sample++) {
    const tier = task.tiers[problems.length % task.tiers.length]!.id;
    const problem = await task.generate(
      tier,
      deriveSeed({ runSeed, purpose, iteration: round, problemId: tier, sample }),
    );
    if (taken.has(problem.id)) continue;
    taken.add(problem.id);
    problems.push(problem);
  }
  if (problems.length < count)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${task.id} needs ${count} fresh problems, but only ${problems.length} were found`,
    );
  return problems;
}

/** Problems of the trials that the registry keeps, those of guards too, but of one gate. */
export function problemsUsed(
  { paths }: Registry,
  { events }: Pick<Reading, 'events'>,
  but: number | null = null,
): Set<string> {
  const used = new Set<string>();
  for (const { event } of events) {
    const isKept =
      event.kind === 'observed' || (event.kind === 'gate_decided' && event.gate !== but);
    if (!isKept || !existsSync(paths.trials(event.evidence))) continue;
    const { trials, guards = {} } = readJson(paths.trials(event.evidence)) as {
      trials: Trials;
      guards?: Record<string, Trials>;
    };
    for (const { problem } of [trials, ...Object.values(guards)].flat()) used.add(problem);
  }
  return used;
}

/** Null: the base without an adapter. */
async function loadVersion(
  registry: Registry,
  model: Model,
  entry: Entry | null,
): Promise<Adapter | null> {
  if (entry === null) return null;
  requireFit(entry.record, await servingOf(model));
  return model.loadAdapter(await registry.requireBytes(entry.record));
}

/**
 * Asks both versions greedily, in the way that the newer one's run asked.
 * @param onBatch true: that is enough
 * @throws IsoproError ADAPTER_MISMATCH where the two have not both this base; as loadModel,
 *   openTask
 */
export async function measureVersions(
  registry: Registry,
  { scenario, newer, older }: Versions,
  draw: Draw,
  options: MeasureOptions,
  onBatch: (measured: MeasuredBatch) => Promise<boolean>,
): Promise<number> {
  const { maxSequences = 16, batch = 20, scored = false, signal, onProgress } = options;
  const { style = askedAs(newer).style, maxTokens = askedAs(newer).maxTokens } = options;
  const { turns, ...sampling } = readWrittenSettings(newer.record.settings).sampling;
  const asking = { ...askingOf(sampling), ...given({ turns }) };
  await using task = await openTask(options.task ?? scenario, asking);
  const drawn = await drawProblems(task, draw, options.problems);
  const problems = drawn.filter(({ id }) => draw.answered?.has(id) !== true);
  const before = drawn.length - problems.length;
  await using model = await loadModel(
    options.model ?? (await modelOfRecord(newer.record.base.name)),
    {
      fixedThreads: true,
      ...given({ threads: options.threads, signal }),
    },
  );
  using one = await loadVersion(registry, model, newer);
  using other = await loadVersion(registry, model, older);
  const versions = [
    [newer.id, one],
    [older?.id ?? BASE_VERSION, other],
  ] as const;
  const verifier =
    task.source.kind === 'built-in' ? `${task.id} ${task.version}` : task.source.sha256;
  const epoch = JSON.stringify({
    task: task.version,
    model: await model.hash(),
    renderer: model.rendererId,
    style,
    maxTokens,
    ...asking,
  });
  for (let at = 0; ; at += batch) {
    const next = problems.slice(at, at + batch);
    const done = before + at + next.length;
    const [trials, lengths]: [Trials[number][], Trials[number][]] = [[], []];
    for (const [version, adapter] of next.length === 0 ? [] : versions) {
      const { outcomes } = await evaluateGreedy(localBackend(model), task, next, {
        style,
        maxTokens,
        maxSequences,
        adapter,
        ...given({ signal }),
      });
      for (const { problemId: problem, kind, why, score, tokens } of outcomes) {
        const trial = { version, task: task.id, epoch, verifier, problem };
        const passed = Number(kind === 'pass');
        const result =
          kind === 'none'
            ? { error: why[0]! } // the one reason why there is no verdict
            : { score: scored ? (score ?? passed) : passed };
        trials.push({ ...trial, ...result });
        lengths.push({
          ...trial,
          ...(tokens === null ? { error: 'the reply has no token count' } : { score: tokens }),
        });
      }
    }
    const isEnough = await onBatch({ trials, lengths, done });
    onProgress?.({ done, total: drawn.length });
    if (isEnough || done === drawn.length) return done;
  }
}
