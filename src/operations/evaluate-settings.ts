/** Settings of `evaluate`. */
import { z } from 'zod';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { SET_NAMES, type SetName } from '../tasks/frozen-sets.js';
import { PROMPT_STYLES } from '../tasks/task.js';
import { backendMembers, contradictionsOf, kindOf, modelNamed } from './backend-settings.js';
import {
  adapterName,
  count,
  matmul,
  modelName,
  output,
  REGISTRY,
  seedText,
  taskMembers,
  verifierThreads,
} from './members.js';

const ofRun = { defaultText: 'as in a run' };

export const evaluateSettings = z.strictObject({
  model: modelName
    .optional()
    .meta({ defaultText: `the base of the adapter, else ${EMBEDDED_MODEL}` }),
  adapter: adapterName.optional(),
  registry: REGISTRY,
  ...backendMembers,
  // the one operation whose jobs look the name up (evaluate.ts)
  backend: backendMembers.backend.meta({ names: 'backend', local: false }),
  ...taskMembers,
  set: z
    .enum(SET_NAMES as [SetName, ...SetName[]])
    .default('test')
    .describe('set of held-out problems'),
  perTier: count(1000)
    .optional()
    .describe('number of problems per tier, from the first on')
    .meta({ defaultText: 'all' }),
  style: z
    .enum(PROMPT_STYLES)
    .optional()
    .describe('ask for reasoning before the answer, or for the answer alone')
    .meta(ofRun),
  maxTokens: count(100_000)
    .optional()
    .describe('max tokens per answer; a truncated answer fails')
    .meta(ofRun),
  samples: count(10_000).default(1).describe('samples per problem; 1: greedy, more: pass@k'),
  fewShot: count(64, 0)
    .default(0)
    .describe(
      'solved examples of the same tier, different for each question, as a baseline; for the examples of a run, use the setting examples',
    ),
  constrained: z
    .boolean()
    .default(false)
    .describe("decode with the task's answer grammar, so that answers are always well-formed"),
  forgetting: z
    .boolean()
    .default(false)
    .describe(
      'measure forgetting instead of a task: loss on held-out English and divergence from the base on general prompts',
    ),
  temperature: z.number().min(0).max(10).optional().describe('sampling temperature').meta(ofRun),
  k: z
    .string()
    .regex(/^\d{1,5}(,\d{1,5}){0,99}$/, 'expected whole numbers such as 1,4')
    .optional()
    .describe('values of k for pass@k, such as 1,4')
    .meta({ defaultText: '1 and all samples' }),
  seed: seedText.default('0').describe('64-bit seed of the samples'),
  turns: count(64)
    .optional()
    .describe('max replies per episode; a single-turn task is asked again with its feedback')
    .meta({ defaultText: 'as the task says' }),
  verifierThreads,
  threads: count(1024, 0)
    .optional()
    .describe('threads; 0: the physical cores')
    .meta({ defaultText: 'the physical cores; embedded: 1' }),
  matmul: matmul.optional().meta(ofRun),
  contextTokens: count(2 ** 26)
    .optional()
    .describe('KV cache in tokens, shared by all running answers')
    .meta({ ...ofRun, flag: 'context', aliases: ['context'] }),
  maxSequences: count(1024)
    .optional()
    .describe('concurrent answers')
    .meta({ ...ofRun, flag: 'batch', aliases: ['batch'] }),
  out: output
    .optional()
    .describe('JSONL file for prompts, replies and verdicts, which recorded:FILE can read'),
});

export type EvaluateSettings = z.input<typeof evaluateSettings>;
export type EvaluateRequest = z.output<typeof evaluateSettings>;

/** Values of k, parsed from text such as `1,4`; default: 1 and all samples. */
export const ksOf = ({ k, samples }: Pick<EvaluateRequest, 'k' | 'samples'>): number[] =>
  k === undefined ? [...new Set([1, samples])] : k.split(',').map(Number);

/** Settings of a model in this process. */
const OF_MODEL = ['model', 'adapter', 'threads', 'matmul'] as const;
/** Settings of whoever samples here or at a service. */
const OF_SAMPLING = ['contextTokens', 'maxSequences'] as const;

/** Settings that exclude each other. */
export function contradictions(asked: EvaluateRequest): string[] {
  const { samples, forgetting, model, constrained } = asked;
  const kind = kindOf(asked);
  const ks = ksOf(asked);
  const isAscending = ks.every((each, i) => each > (ks[i - 1] ?? 0) && each <= samples);
  const useless =
    kind === 'local'
      ? []
      : kind === 'recorded' || kind === 'human'
        ? [...OF_MODEL, ...OF_SAMPLING]
        : OF_MODEL;
  const what = kind === 'recorded' ? 'a recording' : `the back end ${kind}`;
  return [
    ...(isAscending ? [] : [`k: expected ascending whole numbers from 1 to ${samples}`]),
    ...useless.flatMap((name) =>
      asked[name] === undefined ? [] : [`${name}: it has no effect with ${what}`],
    ),
    ...(model !== undefined && modelNamed(asked) !== undefined
      ? ['model: the back end names one already']
      : []),
    ...(kind !== 'local' && forgetting
      ? [
          kind === 'recorded'
            ? 'forgetting: it cannot be measured on a recording'
            : `forgetting: it needs the losses of a local model, which ${what} does not give`,
        ]
      : []),
    ...(kind !== 'local' && kind !== 'recorded' && constrained
      ? [`constrained: ${what} knows no grammar`]
      : []),
    ...contradictionsOf(asked),
  ];
}
