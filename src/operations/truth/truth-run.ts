/** Measures whether reasoning moves the beliefs of a model towards the truth. */
import path from 'node:path';
import { z } from 'zod';
import { given } from '../../given.js';
import { Registry } from '../../registry/registry.js';
import { nameAdapter } from '../../lookup/adapter-reference.js';
import { shellWord } from '../../shell-word.js';
import { slopeWithoutNoiseIn } from '../../truth-seeking/analysis/slope-without-noise.js';
import { truthConfig, type TruthConfig } from '../../truth-seeking/run/config.js';
import { openReasoners } from '../../truth-seeking/run/open-reasoners.js';
import type { ResultRecord } from '../../truth-seeking/run/records.js';
import { runTruth, type TruthResult } from '../../truth-seeking/run/evaluation-run.js';
import { Flags } from '../flags.js';
import { output, REGISTRY } from '../members.js';
import { contextOf, memoryOf } from '../memory.js';
import { operation, WrongSetting } from '../operation.js';
import { resolvedNames } from '../requests.js';
import { recompute, recomputeRules } from './recompute.js';
import { tellDownload, tellTruth } from './progress.js';

export const EACH_HELP = 'include the scores of every trajectory in the JSON';

const settings = truthConfig.extend({
  recompute,
  registry: REGISTRY,
  each: z.boolean().default(false).describe(EACH_HELP),
  out: output
    .optional()
    .describe('run folder')
    .meta({ defaultText: 'runs/truth-…, named after the settings' }),
});

const flags = { order: ['policy', 'model', 'adapter', 'predictor', 'judge'] };
const DEFAULTS: Readonly<Record<string, unknown>> = settings.parse({});

/** Settings that differ from the defaults. */
const changed = (from: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(from).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(DEFAULTS[name]),
    ),
  );

export interface TruthDocument {
  readonly runId: string;
  readonly folder: string;
  readonly trajectories: number;
  readonly failures: number;
  readonly readouts: number;
  readonly trajectoriesSha256: string;
  readonly results: readonly object[];
}

/**
 * A run's scores with their details, and counts.
 * @param each with the scores of every trajectory
 */
export const truthDocument = (
  { runId, folder, state }: Pick<TruthResult, 'runId' | 'folder' | 'state'>,
  each: boolean,
): TruthDocument => ({
  runId,
  folder,
  trajectories: state.trajectories.length,
  failures: state.failures.length,
  readouts: state.readouts,
  trajectoriesSha256: state.trajectoriesSha256,
  results: state.results.map((found: ResultRecord) => {
    const { kind: _, replaces: __, perTrajectory, ...result } = found;
    const withoutNoise = slopeWithoutNoiseIn(found);
    return {
      ...result,
      ...(withoutNoise !== null && { withoutNoise }),
      ...(each && { perTrajectory: Object.fromEntries(perTrajectory) }),
    };
  }),
});

/** Replaces the name of an adapter by its file, which a run or a registry may have. */
async function withAdapterFile(
  config: TruthConfig,
  registry: string | undefined,
): Promise<TruthConfig> {
  if (config.adapter === undefined) return config;
  const { file } = await nameAdapter(config.adapter, new Registry(given({ folder: registry })));
  return { ...config, adapter: file };
}

export const truthRun = operation({
  id: 'truth run',
  title:
    'Let a model or a person reason about problems, read the beliefs after each step, and score how they move',
  settings,
  flags,
  async run(
    { recompute: again, registry, each, out, ...asked },
    { signal, tell, ask },
  ): Promise<TruthDocument & { readonly command: string }> {
    if (asked.policy === 'human' && ask === undefined)
      throw new WrongSetting('policy: human needs a terminal, and there is none here');
    const config = await withAdapterFile(asked, registry);
    await using policies = await openReasoners(config, {
      ...given({ ask }),
      signal,
      onDownload: tellDownload(tell, config.model),
    });
    const result = await runTruth(config, {
      policies,
      recompute: recomputeRules(again),
      signal,
      ...given({ out }),
      onProgress: tellTruth(tell),
    });
    const words = new Flags(settings, flags).words({
      ...changed(config),
      out: out ?? result.folder,
    });
    return {
      ...truthDocument(result, each),
      /** The command line that does the same. */
      command: ['npx isopro-native truth run', ...words.map(shellWord)].join(' '),
    };
  },
  job: {
    kind: 'truth',
    title: 'Whether reasoning moves the beliefs of a model towards the truth',
    button: 'Truth',
    makesRun: true,
    resolve(asked, names) {
      const all = { ...settings.parse(asked), model: asked.model };
      const { model, ...things } = resolvedNames(settings, all, names);
      return { model: model as string, ...changed(things) };
    },
    local: ({ names, id }) => ({ out: path.join(names.allowed.runs, id) }),
    async memoryBytes({ model, predictor, judge, contextTokens }) {
      const models = [model, predictor, judge].filter((each) => each !== undefined);
      const sizes = await Promise.all(
        models.map((each) => memoryOf(each, contextTokens ?? contextOf(each))),
      );
      return sizes.reduce((sum, size) => sum + size, 0);
    },
    shown(asked, _, names) {
      const { policy: __, ...all } = settings.parse(asked);
      return { ...all, model: asked.model ?? names.allowed.model };
    },
  },
});
