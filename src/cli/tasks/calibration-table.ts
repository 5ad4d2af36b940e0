/** Table of a calibration, for `tasks calibrate` and `run --dry-run`. */
import type { Recommendation, TierCalibration } from '../../evaluation/calibration.js';
import { formatNumber } from '../quantities.js';

const COLUMNS: readonly (readonly [
  name: string,
  of: (tier: TierCalibration) => { mean: number | null; low: number; high: number },
])[] = [
  ['pass@1', ({ passAt1 }) => passAt1],
  ['pass@k', ({ passAtAll }) => passAtAll],
  ['mixed', ({ mixed }) => mixed],
  ['format', ({ format }) => format],
];

/** Two lines a tier: per cent, and the 95 % interval below it. */
export function calibrationTable(tiers: readonly TierCalibration[], samples: number): string {
  const width = Math.max(...tiers.map(({ tier }) => tier.length), 4) + 2;
  const line = (head: string, cells: readonly string[]): string =>
    `${head.padEnd(width)}${cells.map((cell, i) => cell.padStart(i === 0 ? 9 : 8)).join('')}`.trimEnd();
  const percent = (share: number | null): string =>
    share === null ? '-' : (100 * share).toFixed(1);
  return [
    line('', [
      'problems',
      ...COLUMNS.map(([name]) => (name === 'pass@k' ? `pass@${samples}` : name)),
      'cut off',
      'tokens',
      'reply/s',
    ]),
    ...tiers.flatMap((tier) => [
      line(tier.tier, [
        String(tier.problems),
        ...COLUMNS.map(([, of]) => percent(of(tier).mean)),
        percent(tier.truncated),
        tier.tokensPerReply === null ? '-' : tier.tokensPerReply.toFixed(0),
        tier.repliesPerSecond === null ? '-' : formatNumber(tier.repliesPerSecond),
      ]),
      [
        line('', [
          '',
          ...COLUMNS.map(([, of]) =>
            of(tier).mean === null
              ? ''
              : `${(100 * of(tier).low).toFixed(0)}-${(100 * of(tier).high).toFixed(0)}`,
          ),
        ]),
        tier.trains ? tier.advice : 'held out',
      ].join('  '),
    ]),
  ].join('\n');
}

/** Flags of `run`. */
export const recommendedFlags = (settings: NonNullable<Recommendation['settings']>): string =>
  [
    ['--samples', settings.samples],
    ['--rollouts', settings.rollouts],
    ['--max-tokens', settings.maxTokens],
    ['--allocation-floor', settings.allocationFloor],
  ]
    .flatMap(([flag, value]) => (value === undefined ? [] : [`${flag} ${value}`]))
    .join(' ');
