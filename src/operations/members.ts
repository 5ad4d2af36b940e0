/**
 * What a setting is beside its type: how the command line spells it, under which heading its help
 * stands, and whether a request may state it. zod keeps it with the schema, and JSON Schema hands
 * it on to the flags, to the page and to the manual.
 */
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

/** What a request names in place of a file, an address or a program (names.ts). */
export type NameKind =
  | 'model'
  | 'adapter'
  | 'task'
  | 'check'
  | 'run'
  | 'truthRun'
  | 'file'
  | 'registry';

declare module 'zod' {
  interface GlobalMeta {
    /** The flag, where it is not the setting's own name; the setting's name is an alias then. */
    flag?: string;
    /** Earlier names of a setting, which are still read: in Node, over HTTP, and as flags. */
    aliases?: readonly string[];
    /** The heading of the flag in the help and in the manual. */
    group?: string;
    /** The default in words, where the schema has none. */
    defaultText?: string;
    /** An argument of the command without a flag. */
    positional?: boolean;
    /**
     * Only where the command runs: the value is or may contain a file, an address, a program, a
     * module or an environment variable, or it concerns the terminal alone.
     */
    local?: boolean;
    /** Over HTTP it is the name of one of the server's; on this machine it is the thing itself. */
    names?: NameKind;
    /** Only a key that may do everything may state it over HTTP. */
    admin?: boolean;
  }
}

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
  .describe('path of a GGUF file, an alias, or an hf: URI')
  .meta({ names: 'model' });
export const embeddedByDefault = modelName.default(EMBEDDED_MODEL);

/** An adapter by its file, its run, or its name in a registry. */
export const adapterName = z
  .string()
  .min(1)
  .describe(
    'LoRA adapter in GGUF, a run (folder or beginning of its id), or a name in the registry',
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
    .describe('of data: the answer is what is between <tag> and </tag>'),
  verifySeconds: z.number().gt(0).max(3600).optional().describe(VERIFY_SECONDS_HELP),
  system: text.optional().describe(SYSTEM_HELP),
  examples: count(64).optional().describe(EXAMPLES_HELP),
  stop: z.array(z.string().min(1).max(200)).min(1).max(16).optional().describe(STOP_HELP),
  judgeTruncated: z.boolean().optional().describe(TRUNCATED_HELP),
} as const;

export const threads = count(1024, 0).describe('0: the physical cores');
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
    'threads that judge replies at once, for a slow verifier; the result is the same with any number',
  )
  .meta({ defaultText: '1' });
