/**
 * The settings of a run as its manifest and its log hold them: by part. Those of `isopro.run.v1`
 * lie side by side under the names of their flags, and whoever reads settings reads both here. What
 * is written stays as it is: the log's digests are of it.
 */
import { z } from 'zod';

/** What version 1 called the members of each part; those of no part have the same names. */
const VERSION_1: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  model: {
    name: 'model',
    threads: 'threads',
    contextTokens: 'contextTokens',
    maxSequences: 'maxSequences',
  },
  sampling: {
    rollouts: 'rollouts',
    samples: 'samples',
    temperature: 'temperature',
    topP: 'topP',
    maxTokens: 'maxTokens',
    turns: 'turns',
    style: 'style',
    allocation: 'allocation',
    allocationFloor: 'allocationFloor',
  },
  buffer: {
    kind: 'buffer',
    tierCap: 'tierCap',
    newShare: 'newShare',
    accumulate: 'accumulate',
    accept: 'accept',
  },
  algorithm: {
    id: 'algorithm',
    variant: 'variant',
    klCoefficient: 'klCoefficient',
    clipLow: 'clipLow',
    clipHigh: 'clipHigh',
  },
  optimiser: {
    stepsPerIteration: 'stepsPerIteration',
    batchSize: 'batchSize',
    learningRate: 'learningRate',
    warmupSteps: 'warmupSteps',
    weightDecay: 'weightDecay',
    maxNorm: 'maxNorm',
  },
  layers: {
    choice: 'layers',
    topLayers: 'topLayers',
    targets: 'targets',
    rank: 'rank',
    scale: 'scale',
    dropout: 'dropout',
    trainerMemory: 'trainerMemory',
    boundaryMemory: 'boundaryMemory',
  },
  evaluation: { devSize: 'devSize', testSize: 'testSize', gate: 'gate', gateLevel: 'gateLevel' },
  monitor: { patience: 'patience', policy: 'policy' },
};
const MOVED = new Set(Object.values(VERSION_1).flatMap((names) => Object.values(names)));

type Members = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Settings by part, from either version's; anything else as it is. Nothing is checked. */
export function byPart(written: unknown): unknown {
  if (!isObject(written) || Object.keys(VERSION_1).some((part) => isObject(written[part])))
    return written;
  const named = (names: Readonly<Record<string, string>>): Members =>
    Object.fromEntries(
      Object.entries(names).flatMap(([name, old]) =>
        Object.hasOwn(written, old) ? [[name, written[old]]] : [],
      ),
    );
  return {
    ...Object.fromEntries(Object.entries(written).filter(([name]) => !MOVED.has(name))),
    ...Object.fromEntries(Object.entries(VERSION_1).map(([part, names]) => [part, named(names)])),
  };
}

const lenient = <T>(form: z.ZodType<T>) => form.optional().catch(undefined);

const shown = z
  .object({
    seed: lenient(z.string()),
    profile: lenient(z.string()),
    check: lenient(z.string()),
    verifySeconds: lenient(z.number().gt(0).max(3600)),
    answerTag: lenient(z.string()),
    sampling: z
      .object({
        turns: lenient(z.int().min(1)),
        system: lenient(z.string()),
        examples: lenient(z.int().min(1).max(64)),
        stop: lenient(z.array(z.string().min(1))),
        judgeTruncated: lenient(z.boolean()),
      })
      .catch({}),
    buffer: z.object({ kind: lenient(z.string()), tierCap: lenient(z.number()) }).catch({}),
    evaluation: z
      .object({
        gate: lenient(z.boolean()),
        gateLevel: lenient(z.number()),
        forgetting: lenient(z.int().min(0)),
        maxForgetting: lenient(z.number()),
        constrained: lenient(z.boolean()),
      })
      .catch({}),
  })
  .catch({ sampling: {}, buffer: {}, evaluation: {} });
export type WrittenSettings = z.output<typeof shown>;

/**
 * The settings that are read of any run's; what a log lacks, or has in another form, is undefined.
 */
export const readWrittenSettings = (written: unknown): WrittenSettings =>
  shown.parse(byPart(written));
