/** Settings that several operations have. */
import { z } from 'zod';
import { MATMUL_HELP, MATMULS } from '../engine/addon.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { CHECK_HELP } from '../tasks/data/check.js';
import {
  EXAMPLES_HELP,
  STOP_HELP,
  SYSTEM_HELP,
  TASK_HELP,
  TRUNCATED_HELP,
  VERIFY_SECONDS_HELP,
} from '../training/settings.js';

export const count = (most: number, least = 1) => z.int().min(least).max(most);

/** A decimal 64-bit number, or a number that Node can hold. */
export const seedText = z
  .string()
  .regex(/^\d{1,20}$/, { error: 'expected a whole number of 0 or more', abort: true })
  .refine((text) => BigInt(text) < 1n << 64n, 'expected a number below 2^64');

const text = z.string().min(1).max(10_000);

/** A model by an alias, the path of a GGUF file, or an hf: URI. */
export const modelName = z
  .string()
  .min(1)
  .describe('GGUF file, alias, or hf: URI')
  .meta({ names: 'model' });
export const embeddedByDefault = modelName.default(EMBEDDED_MODEL);

/** An adapter by its file, its run, or its name in a registry. */
export const adapterName = z
  .string()
  .min(1)
  .describe(
    'LoRA adapter: a GGUF file, a run (folder or start of its id), or a name in the registry',
  )
  .meta({ names: 'adapter' });

export const taskName = z.string().min(1).describe(TASK_HELP).meta({ names: 'task' });
export const check = z.string().min(1).describe(CHECK_HELP).meta({ names: 'check' });

/** Which task it is, how its replies are judged, and how it is asked. */
export const taskMembers = {
  task: taskName.default('scheduling'),
  check: check.optional(),
  answerTag: z
    .string()
    .regex(/^[A-Za-z][\w-]{0,30}$/, 'expected a name such as answer')
    .optional()
    .describe('for data: the answer is the text between <tag> and </tag>'),
  verifySeconds: z.number().gt(0).max(3600).optional().describe(VERIFY_SECONDS_HELP),
  system: text.optional().describe(SYSTEM_HELP),
  examples: count(64).optional().describe(EXAMPLES_HELP),
  stop: z.array(z.string().min(1).max(200)).min(1).max(16).optional().describe(STOP_HELP),
  judgeTruncated: z.boolean().optional().describe(TRUNCATED_HELP),
} as const;

export const threads = count(1024, 0).describe('threads; 0: the physical cores');
export const matmul = z.enum(MATMULS).describe(MATMUL_HELP);

/** A file or folder that is written: a job has a place of its own. */
export const output = z.string().min(1).meta({ local: true });

/** Folder of a registry. */
export const REGISTRY = z
  .string()
  .min(1)
  .optional()
  .describe('folder of the registry')
  .meta({ local: true, defaultText: '$ISOPRO_HOME/registry' });

export const verifierThreads = count(1024)
  .optional()
  .describe(
    'threads that judge replies in parallel, for a slow verifier; results do not depend on it',
  )
  .meta({ defaultText: '1' });
