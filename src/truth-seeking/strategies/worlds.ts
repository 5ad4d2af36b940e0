/**
 * Observable worlds of problems, the same on every machine: simulators, held-out rows, arithmetic.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { Random } from '../../random.js';
import type { Problem } from '../problem.js';

/** A question about the world, and what came about. */
export interface Observation {
  readonly question: string;
  readonly outcome: string;
}

export interface World {
  /** Observer. */
  readonly id: string;
  /** Observations of a problem; empty if it does not know the problem. */
  readonly observe: (problem: Problem) => readonly Observation[];
}

const DRAWS = 3;

const urnFacts = z.object({ urns: z.object({ redInA: z.number(), redInB: z.number() }) });

/**
 * Draws more balls from the true urn, seeded by the problem's id, so that every observer sees the
 * same.
 */
const URN_SIMULATOR: World = {
  id: 'urn-simulator',
  observe: (problem) => {
    const facts = urnFacts.safeParse(problem.about);
    if (!facts.success || problem.kind !== 'binary' || problem.correctOption === null) return [];
    const { redInA, redInB } = facts.data.urns;
    const red = problem.correctOption === 0 ? redInA : redInB;
    const random = new Random(BigInt(`0x${hash('sha256', problem.id).slice(0, 16)}`));
    return Array.from({ length: DRAWS }, (_, i) => ({
      question: `Which colour has ball ${i + 1} of those that are drawn next, and put back? Answer red or blue.`,
      outcome: random.nextDouble() < red ? 'red' : 'blue',
    }));
  },
};

const townFacts = z.object({
  heldOut: z.array(z.object({ name: z.string(), altitude: z.number(), wells: z.number() })),
});

/** Rows that the table of a small world leaves out. */
const HELD_OUT_ROWS: World = {
  id: 'held-out-rows',
  observe: ({ about }) => {
    const facts = townFacts.safeParse(about);
    return facts.success
      ? facts.data.heldOut.map(({ name, altitude, wells }) => ({
          question: `${name} is not in the table and lies at ${altitude} metres. How many wells has it? Answer with a number.`,
          outcome: String(wells),
        }))
      : [];
  },
};

const claimFacts = z.object({ a: z.int(), b: z.int(), c: z.int() });

/** Tests that a claim about a sum is put to. */
const ARITHMETIC_TESTS: World = {
  id: 'arithmetic-tests',
  observe: ({ about }) => {
    const facts = claimFacts.safeParse(about);
    if (!facts.success) return [];
    const { a, b, c } = facts.data;
    return [
      {
        question: `A program computes ${a} + ${b}. What does it print? Answer with a number.`,
        outcome: String(a + b),
      },
      {
        question: `A test asserts that ${a} + ${b} is ${c}. Answer passed or failed.`,
        outcome: a + b === c ? 'passed' : 'failed',
      },
    ];
  },
};

export const WORLDS: readonly World[] = [URN_SIMULATOR, HELD_OUT_ROWS, ARITHMETIC_TESTS];

/** The first world that knows of a problem; null where none does. */
export function observed(
  problem: Problem,
  worlds: readonly World[] = WORLDS,
): { readonly world: World; readonly observations: readonly Observation[] } | null {
  for (const world of worlds) {
    const observations = world.observe(problem);
    if (observations.length > 0) return { world, observations };
  }
  return null;
}
