import { describe, expect, test } from '@jest/globals';
import {
  configOf,
  DEFAULT_JUDGEMENT,
  measureHealthy,
  measureSick,
  ratesOf,
  type MeasuredRun,
} from '../models/calibration.js';

/**
 * Seeds that nothing was fitted on: 200 healthy runs in the long form (ISOPRO_FULL=1), 6 in the
 * short one.
 */
const [HEALTHY, SICK] = process.env.ISOPRO_FULL === '1' ? [200, 8] : [6, 1];

describe('real training runs without remedies', () => {
  test(`at most one healthy run in a hundred trips a rule (${HEALTHY}), and at most one sick run in ten is missed (${SICK} of each ` +
    `kind)`, async () => {
    const runs: MeasuredRun[] = [];
    for (let i = 0; i < HEALTHY; i++) runs.push(await measureHealthy(BigInt(20_001 + i)));
    for (let i = 0; i < SICK; i++) runs.push(...(await measureSick(BigInt(20_001 + i))));
    const rates = ratesOf(runs, configOf(DEFAULT_JUDGEMENT));
    expect(rates.false).toBeLessThanOrEqual(0.01 * rates.healthy);
    expect(rates.missed).toBeLessThanOrEqual(0.1 * rates.sick);
    expect(rates.sick).toBeGreaterThan(0);
  }, 3_600_000);
});
