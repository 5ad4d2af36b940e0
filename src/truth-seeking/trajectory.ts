/**
 * Trajectories: the raw text of a reasoner on the way to an answer. Beliefs are measured later, any
 * number of times, and stored separately.
 */
import { hash } from 'node:crypto';
import { canonicalJson } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import type { Message } from './reasoner.js';
import type { Problem } from './problem.js';

export interface Step {
  readonly content: string;
  /** False of text that the policy did not write, or that it is not to be trained on. */
  readonly trainable: boolean;
}

export interface Trajectory {
  /** SHA-256 of everything else. */
  readonly id: string;
  readonly problemId: string;
  readonly policyId: string;
  /** Parses back to a reasoning mode. */
  readonly modeId: string;
  /** Decimal digits. */
  readonly seed: string;
  /** Messages to the reasoner, ending with a user's turn; the steps are its answer. */
  readonly prompt: readonly Message[];
  readonly steps: readonly Step[];
}

/** All that was said, a blank line between two steps. */
export const textOf = ({ steps }: Pick<Trajectory, 'steps'>): string =>
  steps.map(({ content }) => content).join('\n\n');

/** Makes a trajectory with the id that follows from its content. */
export function trajectory({
  problemId,
  policyId,
  modeId,
  seed,
  prompt,
  steps,
}: Omit<Trajectory, 'id'>): Trajectory {
  const content = {
    problemId,
    policyId,
    modeId,
    seed,
    prompt: prompt.map(({ role, content: text }) => ({ role, content: text })),
    steps: steps.map(({ content: text, trainable }) => ({ content: text, trainable })),
  };
  return { id: hash('sha256', canonicalJson(content)), ...content };
}

/** @throws IsoproError INVALID_ARGUMENT where a trajectory is of another problem */
export function requireAbout(of: Trajectory, { id }: Problem): void {
  if (of.problemId !== id)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `trajectory: it belongs to problem ${of.problemId.slice(0, 12)}, not to problem ${id.slice(0, 12)}`,
    );
}
