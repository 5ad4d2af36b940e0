import type { GateState } from '../../registry/state.js';
import { promote, type Promotion } from '../../operations/gates/promote.js';
import { operationCommand } from '../operation-command.js';

/** The gate did not accept, so nothing was moved. */
const NOT_ACCEPTED = 3;

const isMove = (result: GateState | Promotion): result is Promotion => 'moved' in result;

const gateText = ({ gate, challenger, incumbent, attempt, alpha, seed }: GateState): string =>
  `gate ${gate}: ${challenger}\nagainst ${incumbent ?? 'the base without an adapter'}\n` +
  `attempt ${attempt}, alpha ${alpha.toFixed(6)}\nseed ${seed}\n`;

function promotionText({ decision, moved }: Promotion, isForced: boolean): string {
  const reasons = decision?.reasons.map((each) => `  ${each}\n`).join('');
  const said =
    decision === null ? '' : `${decision.decision} after ${decision.blocks} problems\n${reasons}`;
  if (moved === null) return said;
  const { alias, from, to } = moved;
  return `${said}${alias}: ${from ?? 'nothing'} -> ${to}${isForced ? ' (by force)' : ''}\n`;
}

export const adaptersPromoteCommand = operationCommand(promote, {
  interrupted: [
    'the promotion',
    'No alias was moved. The same command with --resume continues the gate.',
  ],
  text: (result, { force }) => (isMove(result) ? promotionText(result, force) : gateText(result)),
  exitCode: (result) => (isMove(result) && result.moved === null ? NOT_ACCEPTED : 0),
  epilogue:
    `Exit code ${NOT_ACCEPTED}: the gate did not accept, and no alias was moved. Only champion needs a gate or --force. ` +
    'Every opened gate counts as an attempt; after an interruption, --gate N --problems continues it.',
  examples: [
    [
      '$0 adapters promote sql@challenger --as sql --problems 200',
      'a gate against the champion: draw, measure, decide, move',
    ],
    ['$0 adapters promote sql@challenger --as sql --open', 'open a gate to measure elsewhere'],
    [
      '$0 adapters promote sql@challenger --as sql --gate 2 --evidence trials.json',
      'decide that gate, and promote if it accepts',
    ],
    [
      '$0 adapters promote sql@challenger --as sql --gate 2 --problems 200 --guards runs/guards-2/evidence.json',
      'with belief guards (`truth guards --gate 2`)',
    ],
    [
      '$0 adapters promote sql@challenger --as sql --problems 200 --canary 0.1',
      'start with a tenth of the keys',
    ],
    ['$0 adapters promote 3f2a9c --as sql --force --reason "the first one"', 'without a gate'],
  ],
});
