/** What the commands of the registry have in common. */
import { requireAlias } from '../registry/names.js';
import { Registry } from '../registry/registry.js';
import type { MeasureOptions } from '../operations/gates/measure-versions.js';
import { interruption, UsageError } from './output.js';
import type { Progress } from './progress.js';

export const registryOption = {
  type: 'string',
  requiresArg: true,
  describe: 'folder of the registry',
  defaultDescription: '$ISOPRO_HOME/registry',
} as const;

/** Of the commands that write. */
export const clockOption = {
  type: 'boolean',
  default: false,
  describe: 'write although the clock lies behind the last event',
} as const;

export const aliasOption = {
  type: 'string',
  requiresArg: true,
  describe:
    'SCENARIO, SCENARIO@ALIAS or SCENARIO/ROLE/ENVIRONMENT@ALIAS; without @ALIAS the champion',
} as const;

export interface RegistryFlags {
  readonly registry?: string | undefined;
  readonly acceptClock?: boolean | undefined;
  readonly key?: string | undefined;
  readonly signer?: string | undefined;
}

export const registryOf = ({
  registry: folder,
  acceptClock,
  key,
  signer,
}: RegistryFlags): Registry =>
  new Registry({
    ...(folder === undefined ? {} : { folder }),
    ...(acceptClock === undefined ? {} : { acceptClock }),
    ...(key === undefined ? {} : { keyFile: key }),
    ...(signer === undefined ? {} : { witness: signer === 'witness' }),
  });

/** Of the commands that ask two versions fresh problems. */
export const measureFlags = {
  model: {
    type: 'string',
    requiresArg: true,
    describe: 'base for --problems',
    defaultDescription: 'by the name on record',
  },
  task: {
    type: 'string',
    requiresArg: true,
    describe: 'task for --problems',
    defaultDescription: 'the scenario',
  },
  threads: {
    type: 'number',
    requiresArg: true,
    describe: 'for --problems; default: the physical cores',
  },
} as const;

/** `--problems` with what goes with it. */
export function measureOptionsOf(
  {
    problems,
    model,
    task,
    threads,
  }: {
    problems: number;
    model?: string | undefined;
    task?: string | undefined;
    threads?: number | undefined;
  },
  progress: Progress,
): MeasureOptions {
  return {
    problems,
    signal: interruption(),
    onProgress: ({ done, total }) => progress.update(done, { total }),
    ...(model === undefined ? {} : { model }),
    ...(task === undefined ? {} : { task }),
    ...(threads === undefined ? {} : { threads }),
  };
}

/** How long a version is on probation where nobody says. */
const PROBATION_PROBLEMS = 100;

/** Of --canary or --share, and --probation. @throws UsageError */
export function probationTerms(
  share: number | undefined,
  problems: number | undefined,
  now: { readonly share: number; readonly problems: number } | null = null,
): { readonly share: number; readonly problems: number } {
  const terms = {
    share: share ?? now?.share ?? 1,
    problems: problems ?? now?.problems ?? PROBATION_PROBLEMS,
  };
  if (!(terms.share > 0 && terms.share <= 1))
    throw new UsageError(`a share lies above 0 and is 1 at most, got ${terms.share}`);
  if (!(Number.isSafeInteger(terms.problems) && terms.problems > 0))
    throw new UsageError(`--probation: expected a whole number above 0, got ${terms.problems}`);
  return terms;
}

/** @throws UsageError */
export function aliasOf(text: string): ReturnType<typeof requireAlias> {
  try {
    return requireAlias(text);
  } catch (error) {
    throw new UsageError(`${(error as Error).message}: give ${aliasOption.describe}.`);
  }
}

/** Microseconds since 1970 as a person reads them. */
export const timeText = (us: number): string =>
  new Date(us / 1000).toISOString().replace(/\.\d+Z$/, 'Z');

/** @throws UsageError */
export function timeOf(text: string): number {
  const ms = text === 'now' ? Date.now() : Date.parse(text);
  if (!Number.isFinite(ms) || ms < 0)
    throw new UsageError(
      `--at: ${text} is no date; give one such as 2026-11-22, 2026-11-22T14:30Z or now`,
    );
  return ms * 1000;
}
