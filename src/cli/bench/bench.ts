import { benchBackendsCommand } from './backends.js';
import { benchGateCommand } from './gate.js';
import { benchInstallCommand } from './install.js';
import { benchKernelsCommand } from './kernels.js';
import { benchLogCommand } from './log.js';
import { benchLoopCommand } from './loop.js';
import { benchPromotionCommand } from './promotion.js';
import { benchRolloutCommand } from './rollout.js';
import { benchServeCommand } from './serve.js';
import { benchTrainCommand } from './train.js';
import { benchTruthCommand } from './truth.js';
import { benchVerifyCommand } from './verify.js';
import { commandGroup } from '../command.js';

export const benchCommand = commandGroup({
  command: 'bench',
  describe: 'Measure this machine',
  commands: [
    benchRolloutCommand,
    benchLoopCommand,
    benchServeCommand,
    benchBackendsCommand,
    benchKernelsCommand,
    benchTrainCommand,
    benchLogCommand,
    benchVerifyCommand,
    benchTruthCommand,
    benchGateCommand,
    benchPromotionCommand,
    benchInstallCommand,
  ],
});
