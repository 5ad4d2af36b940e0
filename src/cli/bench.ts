import type { CommandModule } from 'yargs';
import { benchGateCommand } from './bench-gate.js';
import { benchInstallCommand } from './bench-install.js';
import { benchKernelsCommand } from './bench-kernels.js';
import { benchLogCommand } from './bench-log.js';
import { benchLoopCommand } from './bench-loop.js';
import { benchPromotionCommand } from './bench-promotion.js';
import { benchRolloutCommand } from './bench-rollout.js';
import { benchServeCommand } from './bench-serve.js';
import { benchTrainCommand } from './bench-train.js';
import { benchTruthCommand } from './bench-truth.js';
import { benchVerifyCommand } from './bench-verify.js';
import { defineCommand } from './command.js';

/** Every benchmark, in the order of --help. Each is a file of its own beside this one. */
const BENCHES: CommandModule[] = [
  benchRolloutCommand,
  benchLoopCommand,
  benchServeCommand,
  benchKernelsCommand,
  benchTrainCommand,
  benchLogCommand as CommandModule,
  benchVerifyCommand,
  benchTruthCommand as CommandModule,
  benchGateCommand as CommandModule,
  benchPromotionCommand as CommandModule,
  benchInstallCommand,
];

export const benchCommand = defineCommand({
  command: 'bench',
  describe: 'Measure this machine',
  builder: (yargs) =>
    yargs
      .command(BENCHES)
      .demandCommand(1, 'Name a benchmark; `isopro-native bench --help` lists them.'),
  handler: () => undefined,
});
