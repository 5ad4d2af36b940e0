/** In which way a policy reasons, with the options of each way. */
import { z } from 'zod';
import { specs, type Spec } from '../spec.js';

/**
 * Sources of the questions before the main one: a fixed list about finding out what is true; the
 * same domain; other domains; a generator that writes all at once, or one after the other with the
 * answers so far.
 */
export const QUESTION_SOURCES = [
  'fixed-sequence',
  'iid',
  'stationary-ood',
  'generator-preset',
  'generator-adaptive',
] as const;
export type QuestionSource = (typeof QUESTION_SOURCES)[number];

/** Instructions for a generator. */
export const INSTRUCTIONS = [
  'curriculum',
  'contradiction-seeking',
  'synergistic',
  'socratic',
] as const;
export type Instruction = (typeof INSTRUCTIONS)[number];

const FORMS = {
  /** One reply; one step, or two where a model marks its reasoning. */
  direct: z.strictObject({}),
  /** One reply, split at blank lines; what is beyond the last step belongs to it. */
  'chain-of-thought': z.strictObject({ steps: z.int().min(1).max(64).default(8) }),
  /** One policy argues for both options in turn. */
  'self-debate': z.strictObject({ turns: z.int().min(1).max(32).default(4) }),
  /** Other questions first, which stay in view. */
  'bootstrap-interview': z.strictObject({
    questions: z.int().min(1).max(16).default(3),
    source: z.enum(QUESTION_SOURCES).default('iid'),
    instructions: z.enum(INSTRUCTIONS).default('curriculum'),
    /** Domains of stationary-ood. */
    domains: z.array(z.string().regex(/^[\w-]+$/)).default([]),
  }),
  /**
   * A length that is asked for, a budget that ends what is longer, and a word to go on with what is
   * shorter.
   */
  'length-control': z.strictObject({
    tokens: z.int().min(1).max(65_536).default(128),
    /** Part of the length by which a reply may be longer or shorter. */
    tolerance: z.number().min(0).max(1).default(0.25),
  }),
} as const;

export const REASONING_MODES = specs('mode', FORMS);
export type ReasoningMode = Spec<typeof FORMS>;
export type ReasoningModeOf<N extends ReasoningMode['name']> = Extract<
  ReasoningMode,
  { readonly name: N }
>;
