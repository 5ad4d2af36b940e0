/**
 * Operations: each thing that a user can request is one object with its settings, its work, its
 * progress events and its result. The command line, jobs, the page, the library and the manual all
 * read that object.
 */
import type { z } from 'zod';
import { checked } from '../engine/argument-check.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { withoutAliases } from './aliases.js';
import { declareKey } from '../keys.js';
import { Flags, type FlagOptions } from './flags.js';
import type { Names } from './names.js';

/** Types of progress events. */
export const TOLD_TYPES = ['begin', 'progress', 'iteration', 'rule', 'step', 'notice'] as const;

export interface Told {
  readonly type: (typeof TOLD_TYPES)[number];
  readonly data: unknown;
}

export interface Context {
  /** Cancels the operation; what it saved by then is complete. */
  readonly signal: AbortSignal;
  readonly tell: (told: Told) => void;
  /** Asks a person and waits for the answer; absent if there is no one to ask. */
  readonly ask?: (messages: readonly ChatMessage[], signal?: AbortSignal) => Promise<string>;
}

/** Error `setting: problem` found while an operation works; the command line names the flag. */
export class WrongSetting extends IsoproError {
  constructor(message: string) {
    super('INVALID_ARGUMENT', message);
  }
}

/** Working place of a job. */
export interface Place {
  readonly names: Names;
  /** Id of the job. */
  readonly id: string;
  /** Folder for files of the job other than runs. */
  readonly folder: string;
}

/** Properties of an operation as a job of a server (jobs/kinds). */
export interface JobOf<Input> {
  /** Kind in requests and in queue rows; default: the id of the operation. */
  readonly kind?: string;
  /** Label of its button on the page. */
  readonly button?: string;
  /** Title, if it differs from that of the operation. */
  readonly title?: string;
  /** Whether it requires a key with full access. */
  readonly isForAdmin?: boolean;
  /** Settings that a request may state, if fewer than all. */
  readonly stated?: z.ZodType;
  /** Contradictions in a request, found before any name is resolved. */
  contradictions?(stated: Input): readonly string[];
  /** Converts settings of an earlier version to the current form. */
  earlier?(given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>;
  /**
   * Replaces names of this server in a request by what they stand for. Default: every setting by
   * its `names`, and the served model if none is named.
   * @throws NotAllowed; IsoproError INVALID_ARGUMENT
   */
  resolve?(stated: Input, names: Names): Input;
  /** Local settings of a job, derived from its place. */
  local?(place: Place, stated: Input): Partial<Input>;
  /** Additional settings of a job that restarts, by the state on disk. */
  again?(place: Place): Partial<Input>;
  /** Settings that make the operation a short trial; absent if it has none. */
  readonly measure?: Partial<Input>;
  /** Upper bound of the memory of a job in bytes. @param settings as `resolve` returns them */
  memoryBytes(settings: Input): Promise<number>;
  /** Settings to show, including defaults; default: the stated ones. */
  shown?(stated: Input, resolved: Input, names: Names): Promise<unknown> | unknown;
  /** Whether it creates a run folder named after the job. */
  readonly makesRun?: boolean;
  /** File of the adapter that it produced; null if there is none. */
  adapterOf?(result: unknown): string | null;
}

export interface OperationDefinition<
  Schema extends z.ZodObject,
  Result,
  Settings = z.output<Schema>,
> {
  /** Command without the program name: `truth train`. */
  readonly id: string;
  readonly title: string;
  /** Schema of the settings, with descriptions and metadata (setting-meta.ts). */
  readonly settings: Schema;
  readonly flags?: FlagOptions;
  /**
   * Reads settings if the schema alone cannot, such as defaults that depend on other settings.
   * @throws IsoproError INVALID_ARGUMENT
   */
  read?(given: z.input<Schema>): Settings;
  /** Contradictions between members, as `member: problem`. */
  contradictions?(settings: NoInfer<Settings>): readonly string[];
  run(settings: Settings, context: Context): Promise<Result>;
  readonly job?: JobOf<z.input<Schema>>;
}

export interface Operation<
  Schema extends z.ZodObject = z.ZodObject,
  Result = unknown,
  Settings = z.output<Schema>,
  Input = z.input<Schema>,
> extends Omit<
    OperationDefinition<Schema, Result, Settings>,
    'run' | 'read' | 'contradictions' | 'flags'
  > {
  readonly flags: Flags;
  /**
   * Checks settings as a caller writes them, including earlier names.
   * @throws IsoproError INVALID_ARGUMENT naming each wrong setting
   */
  read(given: unknown): Settings;
  /** Runs the operation. @throws as `read`, and as the operation documents */
  run(given: Input, context?: Partial<Context>): Promise<Result>;
}

export function operation<Schema extends z.ZodObject, Result, Settings = z.output<Schema>>(
  definition: OperationDefinition<Schema, Result, Settings>,
): Operation<Schema, Result, Settings> {
  const { settings: schema, contradictions = () => [] } = definition;
  // made on demand: schemas are large
  let made: Flags | undefined;
  const flags = (): Flags => (made ??= new Flags(schema, definition.flags));
  const read = (given: unknown): Settings => {
    const stated = withoutAliases(flags(), given);
    const settings =
      definition.read?.(stated as z.input<Schema>) ??
      (checked(schema, stated, 'settings') as Settings);
    const problems = contradictions(settings);
    if (problems.length === 0) return settings;
    throw new IsoproError('INVALID_ARGUMENT', problems.join('; '));
  };
  return {
    ...definition,
    get flags() {
      return flags();
    },
    read,
    run: async (
      given,
      { signal = new AbortController().signal, tell = () => undefined, ...rest } = {},
    ) => {
      const settings = read(given);
      // before anything is started that could inherit it
      const { keyEnv } = settings as { readonly keyEnv?: unknown };
      if (typeof keyEnv === 'string') declareKey(keyEnv);
      return definition.run(settings, { signal, tell, ...rest });
    },
  };
}
