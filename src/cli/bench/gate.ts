import { benchGate, SCENARIOS } from '../../../bench/gate.js';
import { print, printJson, UsageError } from '../output.js';
import { number, readSeed, text } from '../option.js';
import { command } from '../command.js';

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`.padStart(9);

export const benchGateCommand = command({
  command: 'gate',
  describe: 'Simulate gate campaigns: rate of false promotions, and power on better candidates',
  options: {
    campaigns: number('simulated campaigns per scenario, of eight candidates each', 4096),
    seed: text('64-bit seed', '0'),
  },
  examples: [['$0 bench gate --json', 'figures as JSON']],
  handler: ({ campaigns, seed, json }) => {
    if (!Number.isInteger(campaigns) || campaigns < 1 || campaigns > 1_000_000)
      throw new UsageError('--campaigns takes a whole number from 1 to 1000000');
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
      `campaigns that promoted a candidate that is no better (bound of the default policy: ${percent(result.bound).trim()})\n` +
        `${' '.repeat(10)}${SCENARIOS.map((scenario) => scenario.padStart(11)).join('')}\n${rows.join('')}` +
        `better candidates promoted\neffect  problems  default    naive  peeking\n${power.join('')}`,
    );
  },
});
