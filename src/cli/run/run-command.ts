import type { CommandModule } from 'yargs';
import { runDefaults } from '../../operations/reply-source.js';
import { shownValue, type Flag } from '../../operations/flags.js';
import {
  distill,
  run,
  selfImprove,
  type LoopOutcome,
  type LoopRequest,
  type LoopResult,
} from '../../operations/run.js';
import type { TerminalStyle } from '../../text/terminal-style.js';
import { withProfile } from '../../training/profile.js';
import {
  DATA_DEFAULTS,
  PROFILES,
  readSettingsFile,
  resolveSettings,
  type RunSettingsInput,
} from '../../training/settings.js';
import {
  operationCommand,
  progressScreen,
  type OperationCommand,
  type Screen,
} from '../operation-command.js';
import { pageBeside } from './live-page.js';
import { dryRunText } from './run-plan.js';
import { person } from './person.js';
import { RunScreen } from './run-screen.js';
import { comparisonText, endedAlready, resultText } from './run-table.js';
import { plannedWork } from '../../operations/planned-work.js';

/** No rollout passed in any iteration. */
const NOTHING_ACCEPTED = 3;

const OTHERS: Readonly<Record<string, RunSettingsInput>> = {
  embedded: PROFILES.embedded,
  small: PROFILES.small,
  'rows of data': DATA_DEFAULTS,
};

/** Defaults of a setting that depend on the model or on the task. */
export const otherDefaults = (flag: Flag): string =>
  Object.entries(OTHERS)
    .map(([of, settings]) => [of, run.flags.valueOf(settings, flag)])
    .filter(([, value]) => value !== undefined)
    .map(([of, value]) => `; ${String(of)}: ${shownValue(value)}`)
    .join('');

const isResult = (outcome: LoopOutcome): outcome is LoopResult => 'accepted' in outcome;

async function outcomeText(
  outcome: LoopOutcome,
  { stated }: LoopRequest,
  style: TerminalStyle,
): Promise<string> {
  if ('methods' in outcome) return comparisonText(outcome);
  if (!isResult(outcome)) return dryRunText(outcome, style);
  const settings = resolveSettings(await withProfile(stated));
  return [
    ...(outcome.nothingRun ? [endedAlready(outcome.folder)] : []),
    resultText(outcome, settings, await runDefaults(settings.model.name)),
    ...(outcome.published === undefined ? [] : [`\npublished as ${outcome.published}\n`]),
  ].join('');
}

/** Screen of a run in which a person decides: lines of progress, and no drawing over a question. */
function deciding(): Screen {
  const progress = progressScreen();
  const { ask, close } = person(process.stdin, process.stderr);
  return {
    tell: progress.tell,
    ask,
    [Symbol.dispose]: () => {
      progress[Symbol.dispose]();
      close();
    },
  };
}

/** A way of running the loop. */
const loopCommand = (
  operation: typeof run,
  examples: OperationCommand<typeof run>['examples'],
): CommandModule =>
  operationCommand(operation, {
    examples,
    otherDefaults,
    readFile: readSettingsFile,
    terminal: {
      ui: {
        type: 'boolean',
        default: false,
        describe: 'show the run in a browser while it works (`isopro-native ui`)',
      },
    },
    beside: async ({ stated, out }, { ui }) =>
      ui === true ? pageBeside(resolveSettings(stated).model.name, out) : null,
    screen: ({ stated, dryRun }) => {
      const settings = resolveSettings(stated);
      if (settings.monitor.policy === 'human' && process.stdin.isTTY === true) return deciding();
      return new RunScreen({
        title: `${settings.model.name} on ${settings.task}`,
        ...(dryRun ? {} : { planned: plannedWork(settings) }),
      });
    },
    interrupted: [
      'the run',
      'Completed work was kept: the same command continues from the last checkpoint.',
    ],
    text: outcomeText,
    exitCode: (outcome) => (isResult(outcome) && outcome.accepted === 0 ? NOTHING_ACCEPTED : 0),
    epilogue:
      'After an interruption, the same command continues the run. Exit code 3: the run ended, and no iteration had a rollout to train on.',
  });

export const runCommand = loopCommand(run, [
  ['$0 run', 'the embedded model on scheduling, a few minutes'],
  ['$0 run --model qwen2.5-3b --seed 123 --out runs/qwen', 'a downloaded model'],
  [
    '$0 run --mode all',
    'the loop compared with zero-shot, few-shot, multi-turn, chained calls, best-of-k, majority and pass@k',
  ],
  ['$0 run --mode isopro zero-shot best-of-k', 'the loop compared with two of them'],
  ['$0 run --task ./my-task.ts --iterations 3 --dry-run', 'cost estimate for a task of your own'],
]);

export const selfImproveCommand = loopCommand(selfImprove, [
  ['$0 self-improve --iterations 3', 'three rounds on the embedded model'],
  [
    '$0 self-improve --model smollm2-135m --task extract --no-accumulate',
    'train each round on its own samples only, as in the paper',
  ],
]);

export const distillCommand = loopCommand(distill, [
  [
    '$0 distill --model smollm2-135m --teacher smollm2-360m --task extract',
    'a larger model of the same family',
  ],
  [
    '$0 distill --model smollm2-135m --teacher smollm2-135m --teacher-examples 4 --task extract',
    'the same model with solved examples',
  ],
]);
