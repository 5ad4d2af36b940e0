/** Members of a problem other than kind and id, as in records of a run and files of a domain. */
import { z } from 'zod';
import type { Json } from '../canonical-json.js';
import { dictionaryOf } from '../dictionary-schema.js';

/** Both are read from JSON, so that a value of it is JSON where it is there. */
const about = dictionaryOf(z.custom<Json>((value) => value !== undefined)).optional();
const option = z.literal([0, 1]);

export const binaryContent = {
  question: z.string(),
  options: z.tuple([z.string(), z.string()]),
  correctOption: option.nullable(),
  userOption: option.optional(),
  group: z.string().optional(),
  about,
};
export const openContent = { question: z.string(), reference: z.string().nullable(), about };
