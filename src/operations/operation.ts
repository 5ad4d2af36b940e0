/**
 * What a user can ask for is one object: its settings, what it does with them, what it tells on the
 * way, what it returns. The command line, a job, the page, the library and the manual read that
 * object, and none of them knows more.
 */
import type { z } from 'zod';
import { checked } from '../engine/argument-check.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { withoutAliases } from './aliases.js';
import { Flags, type FlagOptions } from './flags.js';
import type { Names } from './names.js';

/** What is told of work on its way. */
export const TOLD_TYPES = ['begin', 'progress', 'iteration', 'rule', 'step', 'notice'] as const;

export interface Told {
  readonly type: (typeof TOLD_TYPES)[number];
  readonly data: unknown;
}

export interface Context {
  /** Ends the operation; what it has kept by then is complete. */
  readonly signal: AbortSignal;
  readonly tell: (told: Told) => void;
  /** Asks a person and waits for the answer; absent: nobody is there. */
  readonly ask?: (messages: readonly ChatMessage[], signal?: AbortSignal) => Promise<string>;
}

/** `setting: what is wrong`, found while an operation works: the command line names its flag. */
export class WrongSetting extends IsoproError {
  constructor(message: string) {
    super('INVALID_ARGUMENT', message);
  }
}

/** Where a job works. */
export interface Place {
  readonly names: Names;
  /** Of the job. */
  readonly id: string;
  /** Files of the job that are no run: a folder of its own. */
  readonly folder: string;
}

/** How an operation is a job of a server (jobs/kinds). */
export interface JobOf<Input> {
  /** Its kind in requests and in the rows of a queue; default: the operation's id. */
  readonly kind?: string;
  /** Its name on a button of the page. */
  readonly button?: string;
  /** Its title, where it is not the operation's. */
  readonly title?: string;
  /** Whether only a key that may do everything may ask for it. */
  readonly isForAdmin?: boolean;
  /** What a request may state, where it is less than the settings allow. */
  readonly stated?: z.ZodType;
  /** As the operation's own, before any name is looked up: of what a request states. */
  contradictions?(stated: Input): readonly string[];
  /** Settings in a form of an earlier version become those of today. */
  earlier?(given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>;
  /**
   * What a request states, with the things in place of the names of this server; default: every
   * setting by its `names`, and the served model where none is named.
   * @throws NotAllowed; IsoproError INVALID_ARGUMENT
   */
  resolve?(stated: Input, names: Names): Input;
  /** Local settings of a job, which follow from its place. */
  local?(place: Place, stated: Input): Partial<Input>;
  /** Settings that a job has besides when it starts again, by what lies on the disk. */
  again?(place: Place): Partial<Input>;
  /** Settings with which the operation tries the work for some seconds; absent: it cannot. */
  readonly measure?: Partial<Input>;
  /** What a job takes, at most. @param settings as `resolve` gives them */
  memoryBytes(settings: Input): Promise<number>;
  /** All settings for whoever asks, with what follows from defaults; default: those stated. */
  shown?(stated: Input, resolved: Input, names: Names): Promise<unknown> | unknown;
  /** Whether it makes a run folder of the job's name. */
  readonly makesRun?: boolean;
  /** The file of the adapter that it made; null: none. */
  adapterOf?(result: unknown): string | null;
}

export interface OperationDefinition<
  Schema extends z.ZodObject,
  Result,
  Settings = z.output<Schema>,
> {
  /** The command, without the program: `truth train`. */
  readonly id: string;
  readonly title: string;
  /** Each member with a description and, where it has some, metadata (setting-meta.ts). */
  readonly settings: Schema;
  readonly flags?: FlagOptions;
  /**
   * How settings are read, where it is not by the schema alone: defaults that depend on others.
   * @throws IsoproError INVALID_ARGUMENT
   */
  read?(given: z.input<Schema>): Settings;
  /** What the schema cannot say of one member alone: `member: what is wrong`. */
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
   * Checks settings as a caller writes them, earlier names too.
   * @throws IsoproError INVALID_ARGUMENT naming each setting that is wrong
   */
  read(given: unknown): Settings;
  /** @throws as `read`, and as the operation says */
  run(given: Input, context?: Partial<Context>): Promise<Result>;
}

export function operation<Schema extends z.ZodObject, Result, Settings = z.output<Schema>>(
  definition: OperationDefinition<Schema, Result, Settings>,
): Operation<Schema, Result, Settings> {
  const { settings: schema, contradictions = () => [] } = definition;
  // Of a command that is not asked for, nothing is made: schemas are large.
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
    ) => definition.run(read(given), { signal, tell, ...rest }),
  };
}
