/** Everything that determines a run, in one document: written before its log begins, committed to in its genesis. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { canonicalJson, type Json } from '../canonical-json.js';
import { loadAddon, packageRoot } from '../engine/addon.js';
import { hashFile } from '../engine/adapter.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { RunDigests } from '../log/leaf.js';
import type { LogValue } from '../log/payload.js';
import { monitorDigests } from '../monitor/playbook.js';
import { ruleConfig } from '../monitor/rules.js';
import { deriveSeed } from '../random.js';
import { frozenSet, SET_NAMES, type SetName } from '../tasks/frozen-sets.js';
import type { OpenTask } from '../tasks/open-task.js';
import type { Problem } from '../tasks/task.js';
import { ruleConfigOf } from './monitoring.js';
import type { RunSettings } from './settings.js';

export interface Configuration {
  /** As the log's session start and the manifest hold it. */
  readonly log: { readonly [key: string]: LogValue };
  readonly problems: Readonly<Record<SetName, readonly Problem[]>>;
}

const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex');
const plain = (value: unknown): LogValue => JSON.parse(JSON.stringify(value)) as LogValue;

export async function configurationOf(settings: RunSettings, model: Model, task: OpenTask): Promise<Configuration> {
  const sets = { dev: await evaluationSet(task, 'dev', settings.devSize), test: await evaluationSet(task, 'test', settings.testSize) };
  const { version } = JSON.parse(readFileSync(path.join(packageRoot(), 'package.json'), 'utf8')) as { version: string };
  const { architecture, name, quantisation, layers, parameters } = model.info;
  const source = task.source.kind === 'file' ? { kind: 'file', sha256: task.source.sha256 } : { kind: 'built-in' };
  const { model: _, task: __, ...rest } = settings;
  return {
    problems: { dev: sets.dev.problems, test: sets.test.problems },
    log: {
      version,
      settings: plain(rest),
      model: { sha256: await model.hash(), name: settings.model.includes(path.sep) ? path.basename(settings.model) : settings.model, architecture, title: name, quantisation, layers, parameters },
      task: { id: task.id, version: task.version, source },
      renderer: model.rendererId,
      evaluationSets: Object.fromEntries(SET_NAMES.map((set) => [set, { sha256: sets[set].sha256, frozen: sets[set].frozen, perTier: set === 'dev' ? settings.devSize : settings.testSize, problems: sets[set].problems.length }])),
      rules: plain(ruleConfigOf(settings)),
      machine: { platform: process.platform, architecture: process.arch, threads: settings.threads, cpu: plain(loadAddon().addon.processorFeatures()) },
    },
  };
}

interface ProblemSet {
  readonly problems: readonly Problem[];
  /** Of the frozen file, or of the ids of the problems drawn. */
  readonly sha256: string;
  readonly frozen: boolean;
}

/** A fixed prefix of each tier of the frozen set; for a task without one, draws from seeds that no run uses. */
async function evaluationSet(task: OpenTask, name: SetName, perTier: number): Promise<ProblemSet> {
  try {
    const { problems, sha256: digest } = frozenSet(task.id, name);
    const chosen = task.tiers.flatMap((tier) => problems.filter(({ problem }) => problem.tier === tier.id).slice(0, perTier).map(({ problem }) => problem));
    return { problems: chosen, sha256: digest, frozen: true };
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
  }
  const problems: Problem[] = [];
  for (const tier of task.tiers) {
    const seen = new Set<string>();
    for (let draw = 0; seen.size < perTier && draw < 4 * perTier + 100; draw++) {
      const problem = await task.generate(tier.id, deriveSeed({ runSeed: 0n, purpose: `evaluation set ${name}`, iteration: 0, problemId: tier.id, sample: draw }));
      if (seen.has(problem.id)) continue;
      seen.add(problem.id);
      problems.push(problem);
    }
  }
  return { problems, sha256: sha256(problems.map(({ id }) => id).join('\n')), frozen: false };
}

export const sameConfiguration = (a: Configuration['log'], b: Configuration['log']): boolean => canonicalJson(a as Json) === canonicalJson(b as Json);

/** What the run's genesis commits to. */
export async function digestsOf({ log }: Configuration): Promise<RunDigests> {
  const { model, evaluationSets, rules } = log as { model: { sha256: string }; evaluationSets: Record<SetName, { sha256: string }>; rules: unknown };
  return {
    config: sha256(canonicalJson(log as Json)),
    ...monitorDigests(ruleConfig.parse(rules)),
    addon: await hashFile(loadAddon().file),
    model: model.sha256,
    dev: evaluationSets.dev.sha256,
    test: evaluationSets.test.sha256,
  };
}

const manifestSchema = z.strictObject({ format: z.literal('isopro.run.v1'), runId: z.string().regex(/^[0-9a-f]{32}$/), configuration: z.record(z.string(), z.unknown()) });
export interface Manifest {
  readonly runId: string;
  readonly configuration: Configuration['log'];
}
const fileOf = (folder: string): string => path.join(folder, 'manifest.json');

/** @throws IsoproError WRITE_FAILED */
export async function writeManifest(folder: string, { runId, configuration }: Manifest): Promise<void> {
  await writeFileAtomically(fileOf(folder), [Buffer.from(`${JSON.stringify({ format: 'isopro.run.v1', runId, configuration }, null, 2)}\n`)]);
}

/** Null where the folder holds no run. @throws IsoproError RUN_DIFFERS where what it holds is no manifest */
export async function readManifest(folder: string): Promise<Manifest | null> {
  const text = await readFile(fileOf(folder), 'utf8').catch(() => null);
  if (text === null) return null;
  try {
    return manifestSchema.parse(JSON.parse(text)) as Manifest;
  } catch (cause) {
    throw new IsoproError('RUN_DIFFERS', `${fileOf(folder)} is no manifest of a run`, { cause });
  }
}
