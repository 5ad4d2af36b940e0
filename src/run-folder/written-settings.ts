/**
 * Reads the settings of a run in its manifest and its log. Those of `isopro.run.v1` are flat, under
 * the names of their flags; later ones are grouped by part. Written settings stay unchanged: the
 * log's digests cover them.
 */
import { z } from 'zod';

/** Members of each part that version 1 has under the same names, like members of no part. */
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
/** The member of a part that version 1 named like the part itself. */
const OWN_NAME: Readonly<Record<string, string>> = {
  model: 'name',
  buffer: 'kind',
  algorithm: 'id',
  layers: 'choice',
};
/** Current and version-1 names of the members of each part. */
const VERSION_1 = Object.entries(SAME_NAMES).map(([part, names]) => {
  const own = OWN_NAME[part];
  const same = names.split(' ').map((name) => [name, name] as const);
  return [part, own === undefined ? same : [[own, part] as const, ...same]] as const;
});
const MOVED = new Set(VERSION_1.flatMap(([, names]) => names.map(([, old]) => old)));

type Members = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns settings by part from either version; anything else unchanged. Nothing is checked. */
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
    layers: z.object({ adapterFrom: lenient(z.literal('reply')) }).catch({}),
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
  .catch({ sampling: {}, buffer: {}, layers: {}, evaluation: {} });
export type WrittenSettings = z.output<typeof shown>;

/**
 * Reads the settings that are used of any run; a member that the log lacks or has in another form
 * is undefined.
 */
export const readWrittenSettings = (written: unknown): WrittenSettings =>
  shown.parse(byPart(written));
