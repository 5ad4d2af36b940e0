/** Options of commands: makers of the common kinds, and those that several commands have. */
import type { Options } from 'yargs';
import { MATMUL_HELP, MATMULS } from '../engine/addon.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import type { Stated } from './command.js';
import { UsageError } from './output.js';

export interface Described<Type extends 'string' | 'number'> {
  readonly type: Type;
  readonly requiresArg: true;
  readonly describe: string;
}
export interface Defaulting<Value> {
  readonly default: Value;
}
type Maker<Type extends 'string' | 'number', Value> = {
  (describe: string, value: Value): Described<Type> & Defaulting<Value>;
  (describe: string): Described<Type>;
};

const maker = <Type extends 'string' | 'number', Value>(type: Type) =>
  ((describe: string, value?: Value) => ({
    ...{ type, requiresArg: true, describe },
    ...(value !== undefined && { default: value }),
  })) as Maker<Type, Value>;

/** An option with one text. @param value that it has by default */
export const text = maker<'string', string>('string');

/** An option with one number. @param value that it has by default */
export const number = maker<'number', number>('number');

/** An option that is on where it is given. */
export const toggle = (describe: string) =>
  ({ type: 'boolean', default: false, describe }) as const;

/** An option with a text, which may be repeated. */
export const texts = (describe: string) => ({
  ...({ type: 'string', array: true, nargs: 1, describe } as const),
  default: [] as string[],
});

/** An argument that has to be given. */
export const required = (describe: string) =>
  ({ type: 'string', demandOption: true, describe }) as const;

/** Model option of commands that load one model. */
export const modelOption = text('GGUF file, alias, or hf: URI', EMBEDDED_MODEL);
export const baseModelOption = required('base model: a GGUF file, or a cached alias or URI');
export const adapterOption = text(
  'LoRA adapter: a GGUF file, a run (folder or start of its id), or a name in the registry',
);
/** An adapter in any form. */
export const adapterArgument = required(
  'adapter: a GGUF file, a run (folder or start of its id), a PEFT folder, or a name in the registry',
);
export const runArgument = required('run folder, or the start of a run id in ./runs');
export const threadsOption = number('threads; default: the physical cores');
export const fixedThreadsOption = toggle(
  'always compute with --threads threads, so that load does not change results',
);
export const matmulOption = {
  choices: MATMULS,
  default: 'auto' as const,
  describe: MATMUL_HELP,
} satisfies Options;

export const contextOption = number(
  'KV cache in tokens; default: what fits into 1 GiB (4,096 to 16,384)',
);

/** Sampling options. */
export const samplingOptions = {
  temperature: number('sampling temperature; 0: greedy', 0.8),
  'top-p': number('nucleus sampling; 1: off, 0: greedy', 1),
  'min-p': number('min-p sampling; 0: off', 0),
  'repeat-penalty': number('penalty on repeated tokens; 1: off', 1),
};

/** Sampling parameters from the options, with the seed. */
export const samplingOf = ({
  temperature,
  topP,
  minP,
  repeatPenalty,
  seed,
}: Stated<typeof samplingOptions> & { readonly seed: string }) => ({
  temperature,
  topP,
  minP,
  repeatPenalty,
  seed,
});

/** @throws UsageError */
export function readSeed(seed: string): bigint {
  if (!/^\d{1,20}$/.test(seed) || BigInt(seed) >= 1n << 64n)
    throw new UsageError('--seed takes a whole number from 0 to 2^64 - 1');
  return BigInt(seed);
}

/** @throws UsageError */
export function readCount(name: string, value: number, least: number): number {
  if (!Number.isSafeInteger(value) || value < least)
    throw new UsageError(`--${name} takes a whole number from ${least}`);
  return value;
}
