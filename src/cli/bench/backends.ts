import { benchBackends } from '../../../bench/backends.js';
import { resolveModel } from '../../engine/model-files.js';
import { EMBEDDED_MODEL } from '../../engine/model-aliases.js';
import { given } from '../../given.js';
import { command } from '../command.js';
import { matmulOption, number, text, threadsOption } from '../option.js';
import { print, printJson, printNote } from '../output.js';

export const benchBackendsCommand = command({
  command: 'backends',
  describe: 'Compare a model over `serve` with the same model in this process: seconds and texts',
  options: {
    model: text('GGUF file, alias or hf: URI', EMBEDDED_MODEL),
    task: text('task whose dev set is asked', 'scheduling'),
    'per-tier': number('problems per tier', 4),
    tokens: number('max tokens per answer', 96),
    batch: number('answers at once', 8),
    rounds: number('rounds in turns; medians are reported', 3),
    threads: threadsOption,
    matmul: matmulOption,
  },
  examples: [['$0 bench backends --model smollm2-135m --task extract --json', '']],
  handler: async (argv) => {
    const result = await benchBackends({
      model: (await resolveModel(argv.model)).path,
      ...given(argv, 'task', 'perTier', 'tokens', 'batch', 'rounds', 'threads', 'matmul'),
      onRound: (what) => printNote(`${what}\n`),
    });
    if (argv.json) return printJson(result);
    const { prompts, localSeconds, remoteSeconds, ratio, oneToken, parted } = result;
    print(
      `${prompts} prompts: ${localSeconds.toFixed(2)} s here, ${remoteSeconds.toFixed(2)} s over serve ` +
        `(${ratio.toFixed(2)} times); for one token each ${oneToken.localSeconds.toFixed(2)} s and ` +
        `${oneToken.remoteSeconds.toFixed(2)} s; ${parted} texts part\n`,
    );
  },
});
