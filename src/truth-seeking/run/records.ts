/**
 * Records of a run: problems and trajectories, beliefs, log-probabilities, and the scores that
 * follow from them. A repeated measurement is a further record, which replaces the earlier one and
 * leaves it in the log.
 */
import { z } from 'zod';
import type { Json } from '../../canonical-json.js';
import { dictionaryOf } from '../../dictionary-schema.js';
import { IsoproError } from '../../errors.js';
import type { Given } from '../../given.js';
import type { NewRecord } from '../../log/event-log.js';
import type { LogPayload } from '../../log/payload.js';
import type { LogRecord } from '../../log/read.js';
import type { LogStreams } from '../../log/streams.js';
import { number, readRecord, sha256 } from '../../run-folder/record.js';
import { BELIEF_SOURCES, type Belief } from '../beliefs/belief.js';
import { ASKED_FAILURES, STANDPOINTS } from '../beliefs/verbal-belief.js';
import { BELIEF_SYSTEMS, UNREADABLE } from '../beliefs/readout.js';
import { binaryContent, openContent } from '../problem-form.js';
import type { BinaryProblem, OpenProblem } from '../problem.js';
import { DIRECTIONS } from '../score.js';

export type TruthStream = 'trajectories' | 'beliefs' | 'measurements' | 'results';

/**
 * Streams of the log. Raw text, beliefs, other log-probabilities and scores are separate: each can
 * be repeated without the one before it.
 */
export const TRUTH_STREAMS: LogStreams<TruthStream> = {
  codes: { trajectories: 1, beliefs: 2, measurements: 3, results: 4, control: 7 },
};

const count = z.int().min(0);
const json = z.custom<Json>((value) => value !== undefined);

const binary = z.strictObject({ kind: z.literal('binary'), id: sha256, ...binaryContent });
const open = z.strictObject({ kind: z.literal('open'), id: sha256, ...openContent });
/** Members that are not there are absent, as in the objects. */
const problemForm = z
  .discriminatedUnion('kind', [binary, open])
  .transform((given) => given as BinaryProblem | OpenProblem);

/** Setup of a trajectory. Trajectories of one setup are scored together. */
export const setup = z.strictObject({
  domain: z.string(),
  /** Parses back to a reasoning mode. */
  mode: z.string(),
  /** Name of a system prompt; null for none. */
  systemPrompt: z.string().nullable(),
});
export type Setup = z.output<typeof setup>;
export const setupKey = ({ domain, mode, systemPrompt }: Setup): string =>
  JSON.stringify([domain, mode, systemPrompt]);

const problem = z.strictObject({
  kind: z.literal('problem'),
  domain: z.string(),
  problem: problemForm,
  /** The problem of which this one is asked by a user with an opinion, and how that is put. */
  framed: z.strictObject({ of: sha256, framing: z.string() }).optional(),
});
/** Before the first trajectory about it. */
export type ProblemRecord = z.output<typeof problem>;

const trajectory = z.strictObject({
  kind: z.literal('trajectory'),
  setup,
  trajectory: z.strictObject({
    id: sha256,
    problemId: sha256,
    policyId: sha256,
    modeId: z.string(),
    seed: z.string().regex(/^\d+$/),
    prompt: z.array(
      z.strictObject({
        role: z.enum(['system', 'user', 'assistant', 'tool']),
        content: z.string(),
      }),
    ),
    steps: z.array(z.strictObject({ content: z.string(), trainable: z.boolean() })),
  }),
  /** Over all its replies. */
  sampledTokens: count,
  /** Replies that were cut off by their budget of tokens. */
  cutOff: count,
});
export type TrajectoryRecord = z.output<typeof trajectory>;

/**
 * Answer of another reasoner to a question of the run, asked in the same way, which mutual
 * predictability predicts.
 */
const peer = trajectory.extend({ kind: z.literal('peer') });
export type PeerRecord = z.output<typeof peer>;

/** A problem about which nothing could be said, such as one that leaves no room in the context. */
const failure = z.strictObject({
  kind: z.literal('failure'),
  setup,
  problemId: sha256,
  reason: z.string(),
});
export type FailureRecord = z.output<typeof failure>;

const belief = z
  .strictObject({
    p0: z.number().min(0).max(1),
    source: z.enum(BELIEF_SOURCES),
    error: z.number().optional(),
  })
  .transform((given) => given as Belief);
const readerMembers = z.strictObject({
  source: z.enum(BELIEF_SOURCES),
  /** Whether system messages were kept before the probe. */
  beliefSystem: z.enum(BELIEF_SYSTEMS),
  /** SHA-256 of the wordings of the probe, of what is read. */
  probes: sha256.optional(),
  /** For stated beliefs. */
  standpoint: z.enum(STANDPOINTS).optional(),
  measurements: count.optional(),
  /** Everything that determines a reasoner: model, adapter, renderer, threads, seed. */
  policy: z.strictObject({ id: sha256, identity: json }),
  /** Version, native part and machine of the reading; null if unknown. */
  engine: json,
});
/** Reader of beliefs. */
export type Reader = Given<z.output<typeof readerMembers>>;
const readerForm = readerMembers.transform((given) => given as Reader);

/** Before the first beliefs of a reader. */
const reader = z.strictObject({ kind: z.literal('reader'), id: sha256, reader: readerForm });

const beliefs = z.strictObject({
  kind: z.literal('beliefs'),
  /** Absent of records that were made before there were readers. */
  reader: sha256.optional(),
  readout: z.strictObject({
    trajectoryId: sha256,
    problemId: sha256,
    policyId: sha256,
    beliefSystem: z.enum(BELIEF_SYSTEMS),
    readings: z.array(
      z.union([
        z.strictObject({ belief, byWording: z.array(z.number().min(0).max(1)).min(1) }),
        z.strictObject({ belief: z.null(), reason: z.enum([...UNREADABLE, ...ASKED_FAILURES]) }),
      ]),
    ),
    tokens: z.strictObject({
      prefix: count,
      reread: count,
      probes: count,
      sampled: count.optional(),
    }),
  }),
  /** SHA-256 of the payload of the replaced record. */
  replaces: sha256.nullable(),
});
export type BeliefsRecord = z.output<typeof beliefs>;

/** Log-probabilities; -Infinity for a token that is never sampled. */
const logprobs = z.array(z.number().or(z.literal(-Infinity)));
/** Log-probabilities of the same tokens, with something before them and without. */
const scoredTwice = { conditional: logprobs, base: logprobs };
type ScoredTwice = Readonly<Record<keyof typeof scoredTwice, readonly number[]>>;
const alike = ({ conditional, base }: ScoredTwice): boolean => conditional.length === base.length;
const ALIKE = 'conditional and base must score the same number of tokens';

const trials = z.strictObject({
  kind: z.literal('mutual_trials'),
  /** Parses back to the strategy that they were made for. */
  strategy: z.string(),
  trajectoryId: sha256,
  trials: z.array(
    z
      .strictObject({
        predictorId: sha256,
        predictedId: sha256,
        answer: z.string(),
        contextAnswers: z.array(z.string()),
        ...scoredTwice,
      })
      .refine(alike, ALIKE),
  ),
  /** Trials that could not be made, each with its reason. */
  unmeasured: z.array(z.string()),
  replaces: sha256.nullable(),
});
/** Measurements of mutual predictability. */
export type MutualTrialsRecord = z.output<typeof trials>;

/** Observations of the world of a problem: questions and outcomes. */
const observations = z.strictObject({
  kind: z.literal('observations'),
  trajectoryId: sha256,
  /** Observer. */
  investigator: z.string(),
  observations: z.array(z.strictObject({ question: z.string(), outcome: z.string() })),
  replaces: sha256.nullable(),
});

/** Measurements of world in the loop. */
const forecasts = z.strictObject({
  kind: z.literal('forecasts'),
  strategy: z.string(),
  trajectoryId: sha256,
  forecasterId: sha256,
  /** SHA-256 of the payload of the observations. */
  observations: sha256,
  /**
   * Log-probabilities of each outcome's tokens, with the trajectory's text before it and without.
   */
  forecasts: z.array(z.strictObject(scoredTwice).refine(alike, ALIKE)),
  unmeasured: z.array(z.string()),
  replaces: sha256.nullable(),
});

const ratings = z.strictObject({
  kind: z.literal('rating'),
  strategy: z.string(),
  trajectoryId: sha256,
  raterId: sha256,
  /** Null where no grading came to a verdict. */
  score: number.nullable(),
  /** Standard error over gradings; null for fewer than two. */
  error: number.nullable(),
  gradings: count,
  /** Gradings without a verdict, by reason: an error is no number. */
  failed: dictionaryOf(count),
  replaces: sha256.nullable(),
});
/** Rating of a trajectory by a judge or grader. */
export type RatingRecord = z.output<typeof ratings>;

const result = z.strictObject({
  kind: z.literal('result'),
  setup,
  /** Parses back to a strategy with its configuration. */
  strategy: z.string(),
  /** Reader whose beliefs were scored; null if the strategy needs none, or none were read. */
  reader: readerForm.nullable().optional(),
  direction: z.enum(DIRECTIONS),
  value: number.nullable(),
  interval: z.strictObject({ low: number, high: number }).nullable(),
  n: count,
  skipped: dictionaryOf(count),
  /** By the id of the trajectory, in their order. */
  perTrajectory: z.array(z.tuple([sha256, number])),
  details: json,
  replaces: sha256.nullable(),
});
/** Score of a strategy on the records before it. */
export type ResultRecord = z.output<typeof result>;

/** End of a run: everything that was requested so far is there. */
const complete = z.strictObject({
  kind: z.literal('complete'),
  trajectories: count,
  failures: count,
  readouts: count,
  results: count,
  /**
   * SHA-256 over the ids of all trajectories, in order: what is measured again leaves it as it is.
   */
  trajectoriesSha256: sha256,
});

const FORMS = {
  problem: { stream: 'trajectories', form: problem },
  trajectory: { stream: 'trajectories', form: trajectory },
  failure: { stream: 'trajectories', form: failure },
  reader: { stream: 'beliefs', form: reader },
  beliefs: { stream: 'beliefs', form: beliefs },
  peer: { stream: 'measurements', form: peer },
  mutual_trials: { stream: 'measurements', form: trials },
  observations: { stream: 'measurements', form: observations },
  forecasts: { stream: 'measurements', form: forecasts },
  rating: { stream: 'measurements', form: ratings },
  result: { stream: 'results', form: result },
  complete: { stream: 'results', form: complete },
} as const satisfies Record<string, { stream: TruthStream; form: z.ZodType }>;

export type TruthRecord = z.output<(typeof FORMS)[keyof typeof FORMS]['form']>;
export type RecordOf<Kind extends TruthRecord['kind']> = Extract<TruthRecord, { kind: Kind }>;
/** Records that replace an earlier one. */
export type ReplacingRecord = Extract<TruthRecord, { replaces: string | null }>;

/** A record, to be appended. */
export function newRecord(record: TruthRecord): NewRecord<TruthStream> {
  const { stream, form } = FORMS[record.kind];
  return { stream, payload: form.parse(record) as unknown as LogPayload };
}

/** A record, read; null for the log's own. @throws IsoproError LOG_UNREADABLE */
export function readTruthRecord(record: LogRecord): TruthRecord | null {
  if (record.stream === 'control') return null;
  const { kind } = record.payload;
  const known = Object.hasOwn(FORMS, kind) ? FORMS[kind as keyof typeof FORMS] : undefined;
  if (known === undefined || known.stream !== record.stream)
    throw new IsoproError(
      'LOG_UNREADABLE',
      `record ${record.gseq} has a kind that does not belong to the stream ${record.stream}`,
    );
  return readRecord<TruthRecord>(known.form as z.ZodType<TruthRecord>, record);
}
