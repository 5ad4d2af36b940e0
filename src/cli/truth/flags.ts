/** Flags of the commands of `truth`, as yargs takes them. */
import { requireAdapter as required } from '../../operations/truth/adapter-of-run.js';
import { label } from '../../text/hostile-text.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { isOwnDomain } from '../../truth-seeking/domains/user-domain.js';
import { UsageError } from '../output.js';
import { number, readCount } from '../option.js';

/** `readCount` for an optional flag. */
export const readGivenCount = (name: string, value: number | undefined, least: number) =>
  value === undefined ? undefined : readCount(name, value, least);

export const runPositional = {
  type: 'string',
  demandOption: true,
  describe: 'folder of a `truth run`',
} as const;

export const threads = number('CPU threads; 0: the physical cores', 0);

export const split = (describe: string) =>
  ({ choices: ['train', 'test'], default: 'test', describe }) as const;

/** @throws UsageError as the operations say it, with the flag's name */
export function requireAdapter(...of: Parameters<typeof required>): void {
  try {
    required(...of);
  } catch (error) {
    throw new UsageError(`--${(error as Error).message}`);
  }
}

/** @throws UsageError where a name is neither a domain nor the file of one */
export function requireDomain(name: string): void {
  if (!isOwnDomain(name) && !DOMAINS.some(({ id }) => id === name))
    throw new UsageError(
      `Unknown domain ${label(name, 60)}; expected ${DOMAINS.map(({ id }) => id).join(', ')}.`,
    );
}
