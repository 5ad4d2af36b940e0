/**
 * All of it, stage by stage and timed: a run is trained, published, held against the base by a
 * gate, promoted and served; a version that was spoilt is forced into its place for a share of the
 * keys, canary problems show it, and the one before is put back.
 */
import path from 'node:path';
import { createTrainer } from '../src/engine/trainer.js';
import { resolveModel } from '../src/engine/model-files.js';
import { makeFolder } from '../src/files.js';
import { ModelHost } from '../src/host/model-host.js';
import { measureCanary } from '../src/operations/gates/measure-canary.js';
import { measureGate } from '../src/operations/gates/measure-gate.js';
import type { MeasureOptions } from '../src/operations/gates/measure-versions.js';
import { publishFile, publishRun } from '../src/operations/publish.js';
import { run } from '../src/operations/tracked-run.js';
import { Random } from '../src/random.js';
import { openGate, Registry, serveAdapters, type RegistryOptions } from '../src/registry/index.js';
import { writeRegistryPage, type Stage } from '../src/report/registry-page.js';
import { readManifest } from '../src/run-folder/manifest.js';
import { readResult } from '../src/training/result.js';
import type { RunSettingsInput } from '../src/training/settings.js';

export interface PromotionOptions {
  /** Made where it is missing: the run, the registry and promotion.html. */
  readonly folder: string;
  /** Of the run. */
  readonly settings: RunSettingsInput;
  /** A run that ended, in place of one that is trained here. */
  readonly trained?: string;
  /** Path, alias or URI of the base, where the run's name of it is none. */
  readonly model?: string;
  readonly task?: string;
  /** At most, of the gate. */
  readonly problems: number;
  /** At most, of the canary. */
  readonly canaryProblems: number;
  /** Requests to the service, half of them before the regression. */
  readonly requests: number;
  readonly threads?: number;
  readonly registry?: RegistryOptions;
  readonly signal?: AbortSignal;
  readonly onStage?: (stage: Stage) => void;
}

export interface PromotionResult {
  readonly stages: readonly Stage[];
  readonly seconds: number;
  /** Of the gate. */
  readonly decision: string;
  /**
   * The versions by their ids: what was promoted, what was forced into its place, what is in use at
   * the end.
   */
  readonly promoted: string;
  readonly spoilt: string;
  readonly inUse: string | null;
  /** Canary problems until the version before was put back; null where it was not. */
  readonly problemsToRollback: number | null;
  readonly report: string;
}

/** Of the keys that the spoilt version gets. */
const SHARE = 0.25;
const KEYS = Array.from({ length: 40 }, (_, i) => `user-${i}`);

/**
 * An adapter that was trained towards noise at fifty times a sensible rate: what it answers is
 * worth nothing.
 */
async function writeSpoilt(
  model: string,
  vocabulary: number,
  file: string,
  threads: number | undefined,
): Promise<void> {
  await using trainer = await createTrainer(
    { path: model },
    {
      lora: { rank: 4, layers: { top: 1 } },
      optimiser: { learningRate: 0.01 },
      ...(threads === undefined ? {} : { threads }),
    },
  );
  const random = new Random(1n);
  const sequences = Array.from({ length: 4 }, () => ({
    tokenIds: Int32Array.from({ length: 48 }, () => random.nextInteger(0, vocabulary - 1)),
    labelMask: Uint8Array.from({ length: 48 }, (_, i) => Number(i > 0)),
  }));
  for (let step = 0; step < 12; step++) await trainer.step(sequences);
  await trainer.exportAdapter(file);
}

/** @throws IsoproError of whatever stage fails */
export async function benchPromotion(options: PromotionOptions): Promise<PromotionResult> {
  const {
    folder,
    settings,
    trained,
    problems,
    canaryProblems,
    requests,
    threads,
    signal,
    onStage,
  } = options;
  makeFolder(folder);
  const registry = new Registry({ folder: path.join(folder, 'registry'), ...options.registry });
  const stages: Stage[] = [];
  const end = (done: Stage): void => {
    stages.push(done);
    onStage?.(done);
  };
  const timed = async <T>(
    stage: string,
    work: () => Promise<T>,
    say: (result: T) => string,
  ): Promise<T> => {
    const started = performance.now();
    const result = await work();
    end({ stage, seconds: (performance.now() - started) / 1000, said: say(result) });
    return result;
  };
  const cancelling = signal === undefined ? {} : { signal };
  const runFolder =
    trained ?? (await run(settings, { out: path.join(folder, 'run'), ...cancelling })).folder;
  // what the run's log says that it took, whenever that was
  const { runId, seconds: trainedFor } = readResult(runFolder);
  end({
    stage: 'train',
    seconds: trainedFor,
    said: `${trained === undefined ? 'run' : 'taken from run'} ${runId}`,
  });
  const { start } = readManifest(runFolder);
  const slot = { scenario: start.task.id, role: 'default', environment: 'default' };
  const name = `${slot.scenario}@champion`;
  const measure: MeasureOptions = {
    problems,
    ...cancelling,
    ...(options.model === undefined ? {} : { model: options.model }),
    ...(options.task === undefined ? {} : { task: options.task }),
    ...(threads === undefined ? {} : { threads }),
  };
  const { path: base } = await resolveModel(options.model ?? start.model.name, { download: false });
  const published = await timed(
    'publish',
    () => publishRun(registry, runFolder),
    ({ name: of }) => of,
  );

  const { decision, gate } = await timed(
    'gate',
    async () =>
      measureGate(
        registry,
        (await openGate(registry, { slot, challenger: published.id })).gate,
        measure,
      ),
    ({ decision: { decision: word, reasons }, problems: asked }) =>
      `${word} after ${asked} problems: ${reasons.join('; ')}`,
  );
  const isAccepted = decision.decision === 'accepted';
  const by = isAccepted
    ? { gate: gate.gate }
    : { force: true, reason: `the gate said ${decision.decision}; for the sake of this run` };
  await timed(
    'promote',
    () => registry.move({ slot, id: published.id, ...by }),
    () =>
      isAccepted
        ? `by gate ${gate.gate}; no server runs, so nothing is waited for`
        : 'by force, which is on record',
  );

  await using host = new ModelHost();
  const serving = await timed(
    'serve: load',
    async () => {
      const model = await host.load(base, {
        contextTokens: 4096,
        ...(threads === undefined ? {} : { threads }),
      });
      const service = await serveAdapters(registry, {
        baseSha256: await model.hash(),
        rendererId: model.rendererId,
        names: [name],
        load: ({ file }) => model.loadAdapter(file, { probe: true }),
        unload: (adapter) => adapter.dispose(),
      });
      return { model, service };
    },
    ({ service }) => `${service.names().join(', ')} is loaded, its bytes were hashed`,
  );
  await using service = serving.service;
  /** How many requests each version answered, by what it is. */
  const ask = async (count: number): Promise<Map<string, number>> => {
    const by = new Map<string, number>();
    for (let i = 0; i < count; i++) {
      const version = await service.resolve(name, KEYS[i % KEYS.length]);
      await serving.model.generate({
        prompt: `Request ${i}`,
        adapter: version.adapter,
        maxTokens: 4,
      });
      version.release();
      by.set(version.name ?? 'the base', (by.get(version.name ?? 'the base') ?? 0) + 1);
    }
    return by;
  };
  const shown = (by: Map<string, number>): string =>
    [...by].map(([of, count]) => `${count} by ${of}`).join(', ');
  const half = Math.ceil(requests / 2);
  await timed('serve: requests', () => ask(half), shown);

  const file = path.join(folder, 'spoilt.gguf');
  const spoilt = await timed(
    'regression: train and publish',
    async () => {
      await writeSpoilt(base, serving.model.info.vocabularySize, file, threads);
      return publishFile(registry, file, {
        model: base,
        settings: start.settings as never,
        parent: published.id,
      });
    },
    ({ name: of }) => `${of}, trained towards noise`,
  );
  await timed(
    'regression: forced, on probation',
    () =>
      registry.move({
        slot,
        id: spoilt.id,
        force: true,
        reason: 'a regression, on purpose',
        probation: { share: SHARE, problems: 200 },
      }),
    () =>
      `the running server had loaded it when the name was moved; ${100 * SHARE} % of the keys get it`,
  );
  await service.look();
  await timed('regression: requests', () => ask(requests - half), shown);
  const canary = await timed(
    'canary and rollback',
    () => measureCanary(registry, { slot }, { ...measure, problems: canaryProblems, batch: 10 }),
    ({ decision: { decision: word, at }, problems: asked, moved }) =>
      moved === null
        ? `${word} after ${asked} problems`
        : `${word}: the evidence was there after ${at} problems, ${asked} were asked`,
  );
  await timed(
    'serve: after the rollback',
    async () => {
      await service.look();
      return ask(KEYS.length);
    },
    shown,
  );
  const { state } = await registry.read();
  const report = path.join(folder, 'promotion.html');
  await writeRegistryPage(registry, report, {
    title: `${start.model.name} on ${start.task.id}: from training to rollback`,
    stages,
  });
  return {
    stages,
    seconds: stages.reduce((sum, { seconds }) => sum + seconds, 0),
    decision: decision.decision,
    promoted: published.id,
    spoilt: spoilt.id,
    inUse: state.alias(slot, 'champion')?.current ?? null,
    problemsToRollback: canary.moved === null ? null : canary.decision.at,
    report,
  };
}
