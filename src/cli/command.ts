import type {
  ArgumentsCamelCase,
  Argv,
  CommandModule,
  InferredOptionTypes,
  Options,
  PositionalOptions,
} from 'yargs';

/** A command by a builder of yargs, whose handler sees the types that the builder declares. */
export function defineCommand<Declared>(command: {
  readonly command: string;
  readonly describe: string;
  readonly builder: (yargs: Argv<{ json: boolean }>) => Argv<Declared>;
  readonly handler: (argv: ArgumentsCamelCase<Declared>) => void | Promise<void>;
}): CommandModule {
  return command as unknown as CommandModule;
}

type Table<Row> = Record<string, Row>;
type Examples = readonly (readonly [command: string, what: string])[];

interface Described {
  readonly command: string;
  readonly describe: string;
  readonly epilogue?: string;
  readonly examples?: Examples;
}

/** Values of the options of a table. */
export type Stated<Own extends Table<Options>> = ArgumentsCamelCase<InferredOptionTypes<Own>>;

/**
 * A command by its tables of arguments and options; its handler sees their types. `--json` is
 * declared once, in command-line.ts.
 */
export const command = <
  Arguments extends Table<PositionalOptions> = Record<never, never>,
  Own extends Table<Options> = Record<never, never>,
>({
  positionals = {} as Arguments,
  options = {} as Own,
  examples = [],
  epilogue,
  handler,
  ...named
}: Described & {
  readonly positionals?: Arguments;
  readonly options?: Own;
  readonly handler: (
    argv: ArgumentsCamelCase<
      InferredOptionTypes<Own> & InferredOptionTypes<Arguments> & { json: boolean }
    >,
  ) => void | Promise<void>;
}): CommandModule =>
  defineCommand({
    ...named,
    builder: (yargs) => {
      for (const [name, positional] of Object.entries(positionals))
        yargs.positional(name, positional);
      yargs.options(options);
      for (const [line, does] of examples) yargs.example(line, does);
      return epilogue === undefined ? yargs : yargs.epilogue(epilogue);
    },
    handler: handler as never,
  });

/** A command that has commands of its own. */
export const commandGroup = ({
  commands,
  examples = [],
  ...named
}: Omit<Described, 'epilogue'> & { readonly commands: readonly CommandModule[] }): CommandModule =>
  defineCommand({
    ...named,
    builder: (yargs) => {
      const help = `isopro-native ${named.command} --help`;
      yargs.command([...commands]).demandCommand(1, `Name an action; \`${help}\` lists them.`);
      for (const [line, does] of examples) yargs.example(line, does);
      return yargs;
    },
    handler: () => undefined,
  });
