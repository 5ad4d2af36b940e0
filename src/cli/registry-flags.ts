/** Options and readers shared by the commands of the registry. */
import { given } from '../given.js';
import { requireAlias } from '../registry/names.js';
import { Registry } from '../registry/registry.js';
import { text, toggle } from './option.js';
import { UsageError } from './output.js';

export const registryOption = {
  ...text('folder of the registry'),
  defaultDescription: '$ISOPRO_HOME/registry',
};

/** Option of the commands that write. */
export const clockOption = toggle('write even if the clock is behind the last event');

export const aliasOption = text(
  'SCENARIO, SCENARIO@ALIAS or SCENARIO/ROLE/ENVIRONMENT@ALIAS; without @ALIAS the champion',
);

/** The public key that signatures are checked with. */
export const witnessKeyOption = {
  ...text('public key of the witness'),
  defaultDescription: "this machine's own",
};

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
    ...given({ folder, acceptClock, keyFile: key }),
    ...(signer === undefined ? {} : { witness: signer === 'witness' }),
  });

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
      `--at: ${text} is not a date; use a form such as 2026-11-22, 2026-11-22T14:30Z or now`,
    );
  return ms * 1000;
}
