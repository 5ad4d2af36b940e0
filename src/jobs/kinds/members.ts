/** Settings that several kinds have. */
import { z } from 'zod';

export const count = (most: number) => z.int().min(1).max(most);
export const text = z.string().min(1).max(10_000);

export const model = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe('a model of this server; default: the one that it serves');
export const task = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe('a task of this server, or the id of an uploaded file of rows; default: scheduling');
export const check = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe(
    'how replies to rows are judged: exact, normalised, number, json, regex, contains, choice',
  );
export const maxTokens = count(100_000).optional();
export const seed = z
  .string()
  .regex(/^\d{1,20}$/)
  .optional()
  .describe('64-bit seed');
