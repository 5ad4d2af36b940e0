import type { CommandModule } from 'yargs';

/** Every command, in the order of --help. One file a command; no logic beyond reading flags and printing. */
export const COMMANDS: CommandModule[] = [];
