/** Lists the results: one line per run and strategy, by setup. */
import { z } from 'zod';
import { bySetup, intervalSchema, setupSchema, type ScoredRun } from './scored-run.js';

export const catalogSchema = z.strictObject({
  analyzer: z.literal('results-catalog'),
  runs: z.int(),
  results: z.int(),
  setups: z.array(
    z.strictObject({
      setup: setupSchema,
      results: z.array(
        z.strictObject({
          runId: z.string(),
          policy: z.string(),
          seed: z.string(),
          n: z.int(),
          value: z.number().nullable(),
          interval: intervalSchema.nullable(),
          skipped: z.record(z.string(), z.int()),
        }),
      ),
    }),
  ),
});
export type Catalog = z.output<typeof catalogSchema>;

export function resultsCatalog(runs: readonly ScoredRun[]): Catalog {
  const order = ({ policy, runId }: ScoredRun): string => `${policy}\n${runId}`;
  return {
    analyzer: 'results-catalog',
    runs: new Set(runs.map(({ runId }) => runId)).size,
    results: runs.length,
    setups: bySetup(runs).map(({ setup, runs: members }) => ({
      setup,
      results: [...members]
        .sort((a, b) => (order(a) < order(b) ? -1 : 1))
        .map(({ runId, policy, seed, n, value, interval, skipped }) => ({
          runId,
          policy,
          seed,
          n,
          value,
          interval,
          skipped,
        })),
    })),
  };
}
