/** A gate from beginning to end: problems drawn with its seed, both versions asked the same ones, a decision after every batch. */
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { localBackend } from '../backends/local.js';
import type { Adapter } from '../engine/adapter.js';
import { loadModel, type Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { wholeSets } from '../evaluation/evaluation-set.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { readJson } from '../files.js';
import { deriveSeed } from '../random.js';
import { BASE_VERSION, decideGate, openGate, type GateRequest, type GateTrials } from '../registry/gates.js';
import type { Registry } from '../registry/registry.js';
import { requireFit } from '../registry/resolve.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { isOpen, type Entry, type GateState, type RegistryState } from '../registry/state.js';
import { askingOf } from '../tasks/asking-options.js';
import { openTask } from '../tasks/open-task.js';
import { PROMPT_STYLES, type OpenTask, type Problem, type PromptStyle } from '../tasks/task.js';

type Decided = Awaited<ReturnType<typeof decideGate>>;

export interface MeasureOptions {
  /** Most problems that both are asked; the default policy may know before. */
  readonly problems: number;
  /** Path, alias or URI; default: the base by the name in the challenger's record. */
  readonly model?: string;
  /** Default: the scenario of the gate. */
  readonly task?: string;
  /** Default: as the challenger's run asked, else with a chain of thought and 512 tokens; system prompt, examples, stop strings and turns
   * are that run's. */
  readonly style?: PromptStyle;
  readonly maxTokens?: number;
  readonly maxSequences?: number;
  readonly threads?: number;
  /** Problems between two decisions. */
  readonly batch?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

export interface GateMeasurement {
  readonly gate: GateState;
  readonly decision: Decided;
  /** That both were asked. */
  readonly problems: number;
}

/** Of a run's settings as a record holds them. */
const asked = z.object({ sampling: z.object({ style: z.enum(PROMPT_STYLES), maxTokens: z.int().min(1) }) });

function askedAs({ record: { settings } }: Entry): { readonly style: PromptStyle; readonly maxTokens: number } {
  const parsed = asked.safeParse(settings);
  return parsed.success ? parsed.data.sampling : { style: 'cot', maxTokens: 512 };
}

/** A task with few problems may repeat itself; after so many draws for each one wanted there are too few. */
const DRAWS = 8;

/**
 * The gate's problems, tier by tier in turn, by its seed alone: none of the evaluation sets, and none that trials of an earlier gate name.
 * @throws IsoproError INVALID_ARGUMENT where the task cannot make so many
 */
async function drawProblems(task: OpenTask, { gate, seed }: GateState, count: number, used: ReadonlySet<string>): Promise<Problem[]> {
  if (task.rows !== undefined)
    throw new IsoproError('INVALID_ARGUMENT', `the problems of ${task.id} are rows of a file: none of them is fresh`, {
      remedy: 'Measure both versions on rows that nobody trained on, and give the trials with --evidence.',
    });
  const taken = new Set([...(await wholeSets(task)).map(({ id }) => id), ...used]);
  const problems: Problem[] = [];
  const runSeed = BigInt(`0x${seed!.slice(0, 16)}`);
  for (let sample = 0; problems.length < count && sample < DRAWS * count; sample++) {
    const tier = task.tiers[problems.length % task.tiers.length]!.id;
    const problem = await task.generate(tier, deriveSeed({ runSeed, purpose: 'gate', iteration: gate, problemId: tier, sample }));
    if (taken.has(problem.id)) continue;
    taken.add(problem.id);
    problems.push(problem);
  }
  if (problems.length < count)
    throw new IsoproError('INVALID_ARGUMENT', `${task.id} has no ${count} fresh problems: ${problems.length} were found`);
  return problems;
}

/** Problems of the trials that the registry keeps, of all gates but this one. */
function problemsUsed({ paths }: Registry, state: RegistryState, { gate }: GateState): Set<string> {
  const used = new Set<string>();
  for (const { gate: number, evidence } of state.gates) {
    if (number === gate || evidence === null || !existsSync(paths.trials(evidence))) continue;
    for (const { problem } of (readJson(paths.trials(evidence)) as GateTrials).trials) used.add(problem);
  }
  return used;
}

/** Null: the base without an adapter. */
async function loadVersion(registry: Registry, model: Model, entry: Entry | null): Promise<Adapter | null> {
  if (entry === null) return null;
  requireFit(entry.record, { baseSha256: await model.hash(), rendererId: model.rendererId });
  return model.loadAdapter(await registry.requireBytes(entry.record));
}

/**
 * Measures a gate that is open and decides it, batch by batch; begun anew after an interruption it asks the same problems.
 * @throws IsoproError REGISTRY_REFUSED where it is not open; ADAPTER_MISMATCH where the two versions have not both this base; as
 *   loadModel, openTask, decideGate
 */
export async function measureGate(registry: Registry, number: number, options: MeasureOptions): Promise<GateMeasurement> {
  const { maxSequences = 16, batch = 20, signal, onProgress } = options;
  const { state } = await registry.read();
  const gate = state.gates[number - 1];
  if (gate?.seed == null || !isOpen(gate)) throw new IsoproError('REGISTRY_REFUSED', `gate ${number} is not open`);
  const challenger = state.entries.get(gate.challenger)!;
  const incumbent = gate.incumbent === null ? null : state.entries.get(gate.incumbent)!;
  const { style = askedAs(challenger).style, maxTokens = askedAs(challenger).maxTokens } = options;
  const { turns, ...sampling } = readWrittenSettings(challenger.record.settings).sampling;
  const asking = { ...askingOf(sampling), ...(turns === undefined ? {} : { turns }) };
  await using task = await openTask(options.task ?? gate.slot.scenario, asking);
  const problems = await drawProblems(task, gate, options.problems, problemsUsed(registry, state, gate));
  await using model = await loadModel(options.model ?? challenger.record.base.name, {
    fixedThreads: true,
    ...(options.threads === undefined ? {} : { threads: options.threads }),
    ...(signal === undefined ? {} : { signal }),
  });
  using one = await loadVersion(registry, model, challenger);
  using other = await loadVersion(registry, model, incumbent);
  const versions = [
    [gate.challenger, one],
    [gate.incumbent ?? BASE_VERSION, other],
  ] as const;
  const verifier = task.source.kind === 'built-in' ? `${task.id} ${task.version}` : task.source.sha256;
  const epoch = JSON.stringify({ task: task.version, model: await model.hash(), renderer: model.rendererId, style, maxTokens, ...asking });
  const trials: GateTrials['trials'][number][] = [];
  for (let at = 0; ; at += batch) {
    const next = problems.slice(at, at + batch);
    for (const [version, adapter] of versions) {
      const { outcomes } = await evaluateGreedy(localBackend(model), task, next, {
        style,
        maxTokens,
        maxSequences,
        adapter,
        ...(signal === undefined ? {} : { signal }),
      });
      for (const { problemId: problem, kind, why } of outcomes) {
        const result = kind === 'none' ? { error: why[0]?.slice(0, 400) ?? 'no verdict' } : { score: kind === 'pass' ? 1 : 0 };
        trials.push({ version, task: task.id, epoch, verifier, problem, ...result });
      }
    }
    const decision = await decideGate(registry, number, { seed: gate.seed, trials });
    const done = at + next.length;
    onProgress?.({ done, total: problems.length });
    if (decision.decision !== 'needs-more-trials' || done === problems.length) return { gate, decision, problems: done };
  }
}

/** Opens a gate and measures it. */
export async function runGate(registry: Registry, request: GateRequest, options: MeasureOptions): Promise<GateMeasurement> {
  const { gate } = await openGate(registry, request);
  return measureGate(registry, gate, options);
}
