import { loadModel } from '../../engine/model.js';
import { modelOfRecord } from '../../engine/model-files.js';
import { requireTarget } from '../../files.js';
import { given } from '../../given.js';
import { tokenHeat, type TokenHeat } from '../../truth-seeking/analysis/token-heat.js';
import {
  tokenEvidence,
  type TokenEvidence,
} from '../../truth-seeking/analysis/token-level-evidence.js';
import { localReasoner } from '../../truth-seeking/local-reasoner.js';
import { readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import { defineCommand } from '../command.js';
import { interruption, print, printJson } from '../output.js';
import { Progress } from '../progress.js';
import { readCount, text } from '../option.js';
import { requireAdapter, runPositional } from './flags.js';

interface Measuring {
  readonly tokens: number;
  readonly every: number;
  readonly model: string | undefined;
  readonly adapter: string | undefined;
}

/**
 * Measures the first trajectories on two-option questions: the log-probability of each token, and
 * what moved the belief.
 */
async function measured(
  { start, state }: TruthRun,
  { tokens, every, model: named, adapter: file }: Measuring,
  signal: AbortSignal,
) {
  const [heat, evidence]: [TokenHeat[], TokenEvidence[]] = [[], []];
  if (tokens === 0) return { heat, evidence };
  const { config } = start;
  requireAdapter(config, { model: named, adapter: file });
  await using model = await loadModel(named ?? (await modelOfRecord(config.model)), {
    signal,
    ...(config.threads === 0 ? {} : { threads: config.threads, fixedThreads: true }),
    ...given({ contextTokens: config.contextTokens }),
    ...(config.matmul === undefined
      ? {}
      : { matmul: config.matmul === 'own' ? 'auto' : config.matmul }),
  });
  const adapter = file === undefined ? null : await model.loadAdapter(file);
  const policy = await localReasoner(model, { adapter });
  const pieceOf = (id: number): string => model.detokenize(Int32Array.of(id));
  const asked = state.trajectories
    .filter(({ trajectory: { problemId } }) => state.problem(problemId)?.kind === 'binary')
    .slice(0, tokens);
  using progress = new Progress({ label: 'tokens', total: asked.length, unit: 'trajectories' });
  for (const [done, { trajectory }] of asked.entries()) {
    const problem = state.problem(trajectory.problemId);
    if (problem?.kind !== 'binary') continue;
    heat.push(await tokenHeat(policy, trajectory, pieceOf, { signal }));
    evidence.push(await tokenEvidence(policy, problem, trajectory, { every, signal }));
    progress.update(done + 1);
  }
  return { heat, evidence };
}

export const truthReportCommand = defineCommand({
  command: 'report <run>',
  describe:
    'Write an HTML page of a run: beliefs by step, calibration, changes of belief, single trajectories',
  builder: (yargs) =>
    yargs
      .positional('run', runPositional)
      .option('out', {
        type: 'string',
        requiresArg: true,
        default: 'truth.html',
        describe: 'file to write',
      })
      .option('against', text('folder of a run to compare with'))
      .option(
        'reader',
        text(
          'whose beliefs: logprob, judge, self, stated, or the start of a reader id; default: the first of the run',
        ),
      )
      .option('tokens', {
        type: 'number',
        requiresArg: true,
        default: 0,
        describe: 'trajectories to measure token by token; loads the model',
      })
      .option('every', {
        type: 'number',
        requiresArg: true,
        default: 4,
        describe: 'words between two belief readings',
      })
      .option('model', text("model that measures tokens; default: the run's model"))
      .option('adapter', text('LoRA adapter in GGUF for the model that measures tokens'))
      .epilogue('The page opens offline and loads nothing from the network.')
      .example('$0 truth report runs/urns --tokens 4', 'truth.html'),
  handler: async ({ run: folder, out, against, reader, json, ...measuring }) => {
    readCount('tokens', measuring.tokens, 0);
    readCount('every', measuring.every, 1);
    requireTarget(out);
    const signal = interruption();
    const tokens = await measured(readTruthRun(folder), measuring, signal);
    const { writeTruthReport } = await import('../../report/truth-page.js');
    const bytes = await writeTruthReport(folder, {
      file: out,
      tokens,
      reader,
      signal,
      ...given({ against }),
    });
    if (json) printJson({ out, bytes });
    else print(`${out}\n`);
  },
});
