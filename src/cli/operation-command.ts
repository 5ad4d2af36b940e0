/** A command of an operation: its flags, its screen, its result. */
import type { CommandModule, Options } from 'yargs';
import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import type { Flag } from '../operations/flags.js';
import { WrongSetting, type Context, type Operation, type Told } from '../operations/operation.js';
import { terminalStyle, type TerminalStyle } from '../text/terminal-style.js';
import { visible } from '../visible-text.js';
import { defineCommand } from './command.js';
import {
  interrupted,
  interruption,
  print,
  printJson,
  printJsonLine,
  printNote,
  UsageError,
} from './output.js';
import { Progress } from './progress.js';

/** Display of an operation in progress. */
export interface Screen extends Disposable {
  readonly tell: (told: Told) => void;
  readonly ask?: Context['ask'];
}

interface ToldProgress {
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  readonly unit: string;
  /** Shown behind the numbers. */
  readonly note?: string;
}

/** A line of progress for each stage, on stderr. */
export function progressScreen(): Screen {
  let [stage, line]: [string, Progress | null] = ['', null];
  return {
    tell: ({ type, data }) => {
      if (type === 'notice') {
        line?.clear();
        printNote(`${visible((data as { readonly text: string }).text)}\n`);
      }
      if (type !== 'progress') return;
      const told = data as ToldProgress;
      if (told.stage !== stage || line === null) {
        line?.[Symbol.dispose]();
        line = new Progress({ label: told.stage, unit: told.unit });
        stage = told.stage;
      }
      // A total of 0 is not known yet.
      line.update(told.done, {
        ...(told.total > 0 && { total: told.total }),
        ...stated(told, 'note'),
      });
    },
    [Symbol.dispose]: () => line?.[Symbol.dispose](),
  };
}

type Settings<Op> = Op extends { read(given: unknown): infer S } ? S : never;
type Result<Op> = Op extends { run(...given: never[]): Promise<infer R> } ? R : never;

/** Any operation: `OperationCommand` reads the types of its settings and result. */
export interface AnyOperation extends Pick<Operation, 'id' | 'title' | 'flags'> {
  read(given: unknown): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: settings as they were read from flags
  run(given: any, context?: Partial<Context>): Promise<unknown>;
}

export interface OperationCommand<Op extends AnyOperation> {
  readonly examples: readonly (readonly [command: string, what: string])[];
  readonly epilogue?: string;
  /** Settings that are not flags of this command. */
  readonly omitted?: readonly string[];
  /** Text behind the default of a flag. */
  readonly otherDefaults?: (flag: Flag) => string;
  /** Reads the settings in a file, for `--config`; absent: there is no such flag. */
  readonly readFile?: (file: string) => object;
  /** Flags that are not settings: they concern the terminal alone. */
  readonly terminal?: Readonly<Record<string, Options>>;
  /** Opens a resource that is closed when the operation ends. */
  readonly beside?: (
    settings: Settings<Op>,
    argv: Readonly<Record<string, unknown>>,
  ) => Promise<AsyncDisposable | null>;
  /** Default: a line for each stage. */
  readonly screen?: (settings: Settings<Op>) => Screen;
  /** Name of the interrupted work, and how to continue it. */
  readonly interrupted: readonly [
    what: string,
    remedy: string | ((settings: Settings<Op>) => string),
  ];
  /** With --json, events of this type are printed one per line, and the result is the last line. */
  readonly lines?: Told['type'];
  readonly text: (
    result: Result<Op>,
    settings: Settings<Op>,
    style: TerminalStyle,
  ) => string | Promise<string>;
  /** Default 0. */
  readonly exitCode?: (result: Result<Op>) => number;
}

/** `judge <run>`, of the last word of an operation's id and its arguments. */
const commandOf = ({ id, flags }: Pick<Operation, 'id' | 'flags'>): string =>
  [
    id.split(' ').at(-1),
    ...flags.all
      .filter(({ field }) => field.positional === true)
      .map(({ name, field, isRequired }) => {
        const word = field.type === 'array' ? `${name}..` : name;
        return isRequired ? `<${word}>` : `[${word}]`;
      }),
  ].join(' ');

/** @throws UsageError naming flags, where settings are wrong */
export function settingsOf<Op extends Pick<AnyOperation, 'flags' | 'read'>>(
  { flags, read }: Op,
  argv: Readonly<Record<string, unknown>>,
  file: object = {},
): { readonly given: Record<string, unknown>; readonly settings: Settings<Op> } {
  try {
    const given = flags.read(argv, file as Record<string, unknown>);
    return { given, settings: read(given) as Settings<Op> };
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
    throw new UsageError(flags.named(error.message));
  }
}

const CONFIG = {
  type: 'string',
  requiresArg: true,
  describe: 'JSON file of settings; flags take precedence',
} as const;

export const operationCommand = <Op extends AnyOperation>(
  operation: Op,
  {
    examples,
    epilogue,
    omitted = [],
    otherDefaults,
    readFile,
    terminal = {},
    beside = async () => null,
    screen: screenOf = progressScreen,
    interrupted: [what, remedy],
    lines,
    text,
    exitCode = () => 0,
  }: OperationCommand<Op>,
): CommandModule =>
  defineCommand({
    command: commandOf(operation),
    describe: operation.title,
    builder: (yargs) => {
      let described = yargs;
      for (const [name, positional] of Object.entries(operation.flags.positionals()))
        described = described.positional(name, positional) as typeof described;
      // read through the schema, not through yargs' types
      described = described.options({
        ...(readFile === undefined ? {} : { config: CONFIG }),
        ...terminal,
        ...operation.flags.options(omitted, otherDefaults),
      } as Record<never, Options>);
      for (const [line, does] of examples) described = described.example(line, does);
      return epilogue === undefined ? described : described.epilogue(epilogue);
    },
    handler: async (argv) => {
      const { config } = argv as { readonly config?: string };
      const file = config === undefined ? {} : readFile!(config);
      const { given, settings } = settingsOf(operation, argv, file);
      const signal = interruption();
      await using _ = await beside(settings, argv);
      let result: Result<Op>;
      {
        using screen = screenOf(settings);
        const tell = (told: Told): void => {
          if (argv.json && told.type === lines) printJsonLine(told.data);
          screen.tell(told);
        };
        const context = { signal, tell, ...stated(screen, 'ask') };
        result = (await operation.run(given, context).catch((error: unknown) => {
          if (error instanceof WrongSetting)
            throw new UsageError(operation.flags.named(error.message));
          throw interrupted(error, what, typeof remedy === 'string' ? remedy : remedy(settings));
        })) as Result<Op>;
      }
      if (argv.json) (lines === undefined ? printJson : printJsonLine)(result);
      else print(await text(result, settings, terminalStyle(process.stdout)));
      const code = exitCode(result);
      if (code !== 0) process.exitCode = code;
    },
  });
