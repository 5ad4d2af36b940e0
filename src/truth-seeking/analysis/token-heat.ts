/** Log-probability of each token of a reasoning, for the model that wrote it. */
import { z } from 'zod';
import { requireCapability, type Reasoner } from '../reasoner.js';
import type { Trajectory } from '../trajectory.js';

export const tokenHeatSchema = z.strictObject({
  trajectoryId: z.string(),
  policyId: z.string(),
  /** Nats, at temperature 1; null for what the policy never says. */
  tokens: z.array(z.strictObject({ text: z.string(), logprob: z.number().max(0).nullable() })),
});
export type TokenHeat = z.output<typeof tokenHeatSchema>;

/**
 * Scores the tokens of the steps as the belief readout reads them, each step tokenised on its own
 * with the blank line after it.
 * @param pieceOf text of a token
 * @throws IsoproError BACKEND_INCAPABLE; errors of the reasoner, such as CONTEXT_OVERFLOW
 */
export async function tokenHeat(
  reasoner: Reasoner,
  of: Trajectory,
  pieceOf: (id: number) => string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<TokenHeat> {
  requireCapability(reasoner, 'logprobs');
  const ids = of.steps.flatMap(({ content }) => Array.from(reasoner.textIds(`${content}\n\n`)));
  const scores =
    ids.length === 0 ? [] : await reasoner.score(reasoner.promptIds(of.prompt), [ids], options);
  // rounding leaves a certain token a little above 0
  const logprobs = Array.from(scores[0] ?? [], (value) =>
    Number.isFinite(value) ? Math.min(0, value) : null,
  );
  return {
    trajectoryId: of.id,
    policyId: reasoner.id,
    tokens: ids.map((id, i) => ({ text: pieceOf(id), logprob: logprobs[i]! })),
  };
}
