import type { ArgumentsCamelCase, Argv, CommandModule } from 'yargs';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';

/** Of the commands that load one model. */
export const modelOption = {
  type: 'string',
  default: EMBEDDED_MODEL,
  requiresArg: true,
  describe: 'path of a GGUF file, an alias, or an hf: URI',
} as const;

/**
 * A command whose handler sees the types that its builder declares. `--json` is declared once, in
 * main.ts.
 */
export function defineCommand<Options>(command: {
  readonly command: string;
  readonly describe: string;
  readonly builder: (yargs: Argv<{ json: boolean }>) => Argv<Options>;
  readonly handler: (argv: ArgumentsCamelCase<Options>) => void | Promise<void>;
}): CommandModule {
  return command as unknown as CommandModule;
}
