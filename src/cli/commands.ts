import type { CommandModule } from 'yargs';
import { ablateCommand } from './ablate.js';
import { adaptersCommand } from './adapters.js';
import { benchCommand } from './bench.js';
import { doctorCommand } from './doctor.js';
import { evalCommand } from './eval.js';
import { generateCommand } from './generate.js';
import { judgeCommand } from './judge.js';
import { logCommand } from './log.js';
import { modelsCommand } from './models.js';
import { reportCommand } from './report.js';
import { runCommand } from './run.js';
import { runsCommand } from './runs.js';
import { tasksCommand } from './tasks.js';
import { trainCommand } from './train.js';
import { witnessCommand } from './witness.js';

/** Every command, in the order of --help. One file a command; no logic beyond reading flags and printing. */
export const COMMANDS: CommandModule[] = [
  runCommand,
  ablateCommand,
  runsCommand,
  reportCommand,
  generateCommand,
  trainCommand,
  adaptersCommand,
  modelsCommand,
  doctorCommand,
  tasksCommand,
  benchCommand,
  evalCommand,
  judgeCommand,
  logCommand,
  witnessCommand as CommandModule,
];
