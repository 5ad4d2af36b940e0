import type { RunResult } from '../../src/training/result.js';

/**
 * What two runs with the same settings have in common: all but what depends on the clock, the
 * machine's load or the run's own name.
 * @param json what `run --json` wrote
 */
export function runFigures(json: string): unknown {
  const { test, trivialPolicies, tokens, layers, adapter, stopped, iterations, accepted } =
    JSON.parse(json) as RunResult;
  return {
    test,
    trivialPolicies,
    tokens,
    layers,
    sha256: adapter.sha256,
    iteration: adapter.iteration,
    stopped,
    accepted,
    iterations: iterations.map(({ seconds: _, ...rest }) => rest),
  };
}
