import { benchGate, SCENARIOS } from '../../../bench/gate.js';
import { print, printJson, UsageError } from '../output.js';
import { number, readSeed, text } from '../option.js';
import { command } from '../command.js';

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`.padStart(9);

export const benchGateCommand = command({
  command: 'gate',
  describe:
    'False promotions of the gate in simulated campaigns of candidates that are no better, and its power on ones that are',
  options: {
    campaigns: number('simulated campaigns of eight candidates each, a scenario', 4096),
    seed: text('64-bit seed', '0'),
  },
  examples: [['$0 bench gate --json', 'figures for a program']],
  handler: ({ campaigns, seed, json }) => {
    if (!Number.isInteger(campaigns) || campaigns < 1 || campaigns > 1_000_000)
      throw new UsageError('--campaigns is a whole number from 1 to 1000000');
    const result = benchGate({ campaigns, seed: readSeed(seed) });
    if (json) return printJson(result);
    const rows = (
      [
        ['default', result.falsePromotions],
        ['sign', result.policies.sign],
        ['paired t', result.policies['paired-t']],
        ['naive', result.naive],
        ['peeking', result.peeking],
      ] as const
    ).map(
      ([name, rates]) =>
        `${name.padEnd(10)}${SCENARIOS.map((scenario) => percent(rates[scenario]).padStart(11)).join('')}\n`,
    );
    const power = result.power.map(
      ({ effect, problems, power: of, naive, peeking }) =>
        `${effect.toFixed(2).padStart(6)}${String(problems).padStart(10)}${percent(of)}${percent(naive)}${percent(peeking)}\n`,
    );
    print(
      `campaigns in which a candidate that is no better was promoted (bound of the default: ${percent(result.bound).trim()})\n` +
        `${' '.repeat(10)}${SCENARIOS.map((scenario) => scenario.padStart(11)).join('')}\n${rows.join('')}` +
        `one that is better, promoted\neffect  problems  default    naive  peeking\n${power.join('')}`,
    );
  },
});
