import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs';

/** A command whose handler sees the types that its builder declares. `--json` is declared once, in main.ts. */
export function defineCommand<Options>(command: {
  readonly command: string;
  readonly describe: string;
  readonly builder: (yargs: Argv<{ json: boolean }>) => Argv<Options>;
  readonly handler: (argv: ArgumentsCamelCase<Options>) => void | Promise<void>;
}): CommandModule {
  return command as unknown as CommandModule;
}
