/**
 * The settings of a run as its manifest and its log hold them: by part. Those of `isopro.run.v1`
 * lie side by side under the names of their flags, and whoever reads settings reads both here. What
 * is written stays as it is: the log's digests are of it.
 */
import { z } from 'zod';

/** Members of each part that version 1 has under the same names; those of no part have them too. */
const SAME_NAMES: Readonly<Record<string, string>> = {
  model: 'threads contextTokens maxSequences',
  sampling: 'rollouts samples temperature topP maxTokens turns style allocation allocationFloor',
  buffer: 'tierCap newShare accumulate accept',
  algorithm: 'variant klCoefficient clipLow clipHigh',
  optimiser: 'stepsPerIteration batchSize learningRate warmupSteps weightDecay maxNorm',
  layers: 'topLayers targets rank scale dropout trainerMemory boundaryMemory',
  evaluation: 'devSize testSize gate gateLevel',
  monitor: 'patience policy',
};
/** The member of a part that version 1 called as the part is called now. */
const OWN_NAME: Readonly<Record<string, string>> = {
  model: 'name',
  buffer: 'kind',
  algorithm: 'id',
  layers: 'choice',
};
/** By part: the names that its members have now and had in version 1. */
const VERSION_1 = Object.entries(SAME_NAMES).map(([part, names]) => {
  const own = OWN_NAME[part];
  const same = names.split(' ').map((name) => [name, name] as const);
  return [part, own === undefined ? same : [[own, part] as const, ...same]] as const;
});
const MOVED = new Set(VERSION_1.flatMap(([, names]) => names.map(([, old]) => old)));

type Members = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Settings by part, from either version's; anything else as it is. Nothing is checked. */
export function byPart(written: unknown): unknown {
  if (!isObject(written) || Object.keys(SAME_NAMES).some((part) => isObject(written[part])))
    return written;
  const named = (names: readonly (readonly [string, string])[]): Members =>
    Object.fromEntries(
      names.flatMap(([name, old]) => (Object.hasOwn(written, old) ? [[name, written[old]]] : [])),
    );
  return {
    ...Object.fromEntries(Object.entries(written).filter(([name]) => !MOVED.has(name))),
    ...Object.fromEntries(VERSION_1.map(([part, names]) => [part, named(names)])),
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
