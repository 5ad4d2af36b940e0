/** Figures of a verdict in the log. */
import { z } from 'zod';
import { figuresGiven, type Figures } from '../statistics/index.js';

const fraction = z.number().min(0).max(1);
export const figureMembers = {
  score: fraction.optional(),
  forecast: z.object({ probability: fraction, outcome: z.boolean() }).optional(),
};
export const figures = z.object(figureMembers);
export const FIGURES_FIT =
  'there must be as many figures as verdicts, and a verdict of kind none must have no figures';
export const figuresFit = (
  given: readonly Figures[] | undefined,
  kinds: readonly string[],
): boolean =>
  given === undefined ||
  (given.length === kinds.length &&
    given.every((each, i) => kinds[i] !== 'none' || figuresGiven([each]).length === 0));
