/** What `evaluate` is asked. */
import { z } from 'zod';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { SET_NAMES, type SetName } from '../tasks/frozen-sets.js';
import { PROMPT_STYLES } from '../tasks/task.js';
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

const ofRun = { defaultText: "the run's" };

export const evaluateSettings = z.strictObject({
  model: modelName
    .optional()
    .meta({ defaultText: `what the adapter was trained on, else ${EMBEDDED_MODEL}` }),
  adapter: adapterName.optional(),
  registry: REGISTRY,
  backend: z
    .string()
    .regex(/^(local|recorded:.+)$/s, 'expected local or recorded:FILE')
    .default('local')
    .describe('who answers: local, the model, or recorded:FILE, a JSONL file of replies')
    .meta({ local: true }),
  ...taskMembers,
  set: z
    .enum(SET_NAMES as [SetName, ...SetName[]])
    .default('test')
    .describe('which held-out problems'),
  perTier: count(1000)
    .optional()
    .describe('the first so many problems of each tier')
    .meta({ defaultText: 'all' }),
  style: z
    .enum(PROMPT_STYLES)
    .optional()
    .describe('ask for reasoning before the answer, or for the answer alone')
    .meta(ofRun),
  maxTokens: count(100_000)
    .optional()
    .describe('tokens of an answer; one that is cut off fails')
    .meta(ofRun),
  samples: count(10_000).default(1).describe('1: greedy; more: pass@k from so many samples'),
  fewShot: count(64, 0)
    .default(0)
    .describe(
      'solved examples of the same tier, others before each question: to compare with; the setting examples asks as a run does',
    ),
  constrained: z
    .boolean()
    .default(false)
    .describe(
      "decode under the task's grammar of answers, which names nothing of a problem, so that the form cannot fail",
    ),
  forgetting: z
    .boolean()
    .default(false)
    .describe(
      'no task: what model and adapter lost of held-out English, and how far they are from the base on general prompts',
    ),
  temperature: z.number().min(0).max(10).optional().describe('of the samples').meta(ofRun),
  k: z
    .string()
    .regex(/^\d{1,5}(,\d{1,5}){0,99}$/, 'expected whole numbers such as 1,4')
    .optional()
    .describe('ks of pass@k, such as 1,4')
    .meta({ defaultText: '1 and all samples' }),
  seed: seedText.default('0').describe('64-bit seed of the samples'),
  turns: count(64)
    .optional()
    .describe(
      'replies of an episode, at most. A task without turns of its own is asked again, with its feedback',
    )
    .meta({ defaultText: 'as the task says' }),
  verifierThreads,
  threads: count(1024, 0)
    .optional()
    .describe('0: the physical cores')
    .meta({ defaultText: 'the physical cores; embedded: 1' }),
  matmul: matmul.optional().meta(ofRun),
  contextTokens: count(2 ** 26)
    .optional()
    .describe('tokens of KV cache over all running answers')
    .meta({ ...ofRun, flag: 'context', aliases: ['context'] }),
  maxSequences: count(1024)
    .optional()
    .describe('answers at once')
    .meta({ ...ofRun, flag: 'batch', aliases: ['batch'] }),
  out: output
    .optional()
    .describe(
      'JSONL file for every prompt and reply with its verdict, which the back end recorded:FILE takes',
    ),
});

export type EvaluateSettings = z.input<typeof evaluateSettings>;
export type EvaluateRequest = z.output<typeof evaluateSettings>;

/** As `1,4` says them; by default one and all samples. */
export const ksOf = ({ k, samples }: Pick<EvaluateRequest, 'k' | 'samples'>): number[] =>
  k === undefined ? [...new Set([1, samples])] : k.split(',').map(Number);

/** Settings of a model that answers. */
const OF_MODEL = [
  'model',
  'adapter',
  'threads',
  'matmul',
  'contextTokens',
  'maxSequences',
] as const;

/** Settings that exclude each other. */
export function contradictions(asked: EvaluateRequest): string[] {
  const { backend, samples, forgetting } = asked;
  const ks = ksOf(asked);
  const isAscending = ks.every((each, i) => each > (ks[i - 1] ?? 0) && each <= samples);
  return [
    ...(isAscending ? [] : [`k: expected ascending whole numbers from 1 to ${samples}`]),
    ...(backend === 'local'
      ? []
      : OF_MODEL.flatMap((name) =>
          asked[name] === undefined ? [] : [`${name}: no model answers beside a recording`],
        )),
    ...(backend !== 'local' && forgetting ? ['forgetting: a recording cannot forget'] : []),
  ];
}
