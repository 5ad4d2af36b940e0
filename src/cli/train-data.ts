/** What `train` learns from its files, by objective: examples or pairs, the share that is kept apart, and how a batch is learned. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { z } from 'zod';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { dpo, pairLogprobs, type PairLogprobs } from '../engine/dpo.js';
import { fineTune, likelihood, type FineTuningEvent, type FineTuningPlan, type Learning, type Validation } from '../engine/fine-tuning.js';
import type { Model } from '../engine/model.js';
import { readPairs, type PreferencePair } from '../engine/preference-pairs.js';
import type { Trainer, TrainSequence } from '../engine/trainer.js';
import { parseExamples, splitExamples, tokenisedExamples } from '../engine/training-examples.js';
import { readJson, readLines } from '../files.js';
import { readRaw } from '../tasks/data/read-rows.js';
import { curate, curatedToMeasure, type Curation, type CurationCounts } from './train-curation.js';

/** Files with fewer examples have none kept apart unless that is asked for. */
const LARGE = 100;
const SHARE = 0.1;

export const OBJECTIVES = ['sft', 'dpo'] as const;

export interface TrainDataOptions {
  readonly objective: (typeof OBJECTIVES)[number];
  readonly lines: AsyncIterable<string>;
  readonly validation: number | undefined;
  readonly validationData: string | undefined;
  readonly maxTokens: number;
  readonly beta: number;
  /** Of examples; pairs have none. */
  readonly curation: Curation;
  /** File of the reference's log-probabilities. */
  readonly references: string;
}

type Plan = Omit<FineTuningPlan<never>, 'examples' | 'validation'> & { readonly validation: Omit<Validation<never>, 'examples'> };

/** The lines of a file of examples; of a CSV file its rows as JSON, each at the place of its line where no cell holds a line end. */
export function exampleLines(file: string): AsyncIterable<string> {
  return /\.csv$/i.test(file) ? csvLines(file) : readLines(file);
}

/** As much of the forms of an example as cells hold. */
const CSV_COLUMNS = ['prompt', 'messages', 'instruction', 'text'];

async function* csvLines(file: string): AsyncGenerator<string, void> {
  yield ''; // the header
  for (const { value } of readRaw(file, CSV_COLUMNS)) yield JSON.stringify(value);
}

/** Examples of whatever kind. */
export interface TrainData {
  readonly examples: number;
  readonly validationExamples: number;
  readonly tooLong: number;
  /** Null where nothing was curated. */
  readonly curation: CurationCounts | null;
  /** Of the examples that are trained on. */
  readonly tokens: number;
  /** Of the first so many examples. */
  sequences(count: number): readonly TrainSequence[];
  train(trainer: Trainer, plan: Plan, signal: AbortSignal): AsyncGenerator<FineTuningEvent>;
}

interface Read<Example> {
  readonly examples: readonly Example[];
  readonly tooLong: number;
  readonly curation?: CurationCounts | null;
}

interface Kind<Example> {
  readonly read: (lines: AsyncIterable<string>) => Promise<Read<Example>>;
  /** Of examples that are measured on, and not trained on. */
  readonly readToMeasure: (lines: AsyncIterable<string>) => Promise<Read<Example>>;
  /** As it is measured on. */
  readonly held: (example: Example) => Example;
  /** Examples of which this is equal are kept apart together. */
  readonly textOf: (example: Example) => Int32Array;
  readonly sequencesOf: (example: Example) => readonly TrainSequence[];
  readonly learning: (trainer: Trainer, all: readonly Example[], batchSize: number, signal: AbortSignal) => Promise<Learning<Example>>;
}

/** @throws IsoproError as the readers of the two kinds of file */
export function readTrainData(model: Model, options: TrainDataOptions): Promise<TrainData> {
  const { objective, maxTokens, beta, references, curation } = options;
  const tokenised = (examples: Parameters<typeof tokenisedExamples>[0]): Read<TrainSequence> => {
    const { sequences, tooLong } = tokenisedExamples(examples, model, maxTokens);
    return { examples: sequences, tooLong };
  };
  if (objective === 'sft')
    return readKind<TrainSequence>(options, {
      read: async (lines) => {
        const { examples, counts } = curate(await parseExamples(lines), curation);
        return { ...tokenised(examples), curation: counts };
      },
      readToMeasure: async (lines) => tokenised(curatedToMeasure(await parseExamples(lines), curation)),
      held: ({ weight: _, ...sequence }) => sequence,
      textOf: ({ tokenIds }) => tokenIds,
      sequencesOf: (sequence) => [sequence],
      learning: async (trainer) => likelihood(trainer),
    });
  const read = async (lines: AsyncIterable<string>): Promise<Read<PreferencePair>> => {
    const { pairs, tooLong } = await readPairs(lines, model, maxTokens);
    return { examples: pairs, tooLong };
  };
  return readKind<PreferencePair>(options, {
    read,
    readToMeasure: read,
    held: (pair) => pair,
    textOf: ({ prompt }) => prompt,
    sequencesOf: ({ chosen, rejected }) => [chosen, rejected],
    learning: async (trainer, pairs, batchSize, signal) =>
      dpo(trainer, await referencesOf(trainer, pairs, { batchSize, file: references, signal }), beta),
  });
}

async function readKind<Example>(
  { lines, validation, validationData }: TrainDataOptions,
  { read, readToMeasure, held: asHeld, textOf, sequencesOf, learning }: Kind<Example>,
): Promise<TrainData> {
  const { examples: all, tooLong, curation = null } = await read(lines);
  const share = validation ?? (all.length >= LARGE && validationData === undefined ? SHARE : 0);
  const split = share === 0 ? { training: all, validation: [] } : splitExamples(all, share, textOf);
  const examples = split.training;
  const held = validationData === undefined ? split.validation.map(asHeld) : (await readToMeasure(exampleLines(validationData))).examples;
  return {
    examples: examples.length,
    validationExamples: held.length,
    tooLong,
    curation,
    tokens: examples.flatMap(sequencesOf).reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    sequences: (count) => examples.slice(0, count).flatMap(sequencesOf),
    async *train(trainer, { validation: measured, ...plan }, signal) {
      const how = await learning(trainer, [...examples, ...held], plan.batchSize, signal);
      yield* fineTune(how, { ...plan, examples, ...(held.length > 0 && { validation: { ...measured, examples: held } }) }, signal);
    },
  };
}

const cached = z.object({ of: z.string(), chosen: z.array(z.number()), rejected: z.array(z.number()) });

/** Undefined where there is none that can be read. */
function readCache(file: string): z.output<typeof cached> | undefined {
  try {
    return existsSync(file) ? cached.parse(readJson(file)) : undefined;
  } catch {
    return undefined;
  }
}

/** Once a training: they lie in a file, from which one that is resumed takes them again. */
async function referencesOf(
  trainer: Trainer,
  pairs: readonly PreferencePair[],
  { batchSize, file, signal }: { readonly batchSize: number; readonly file: string; readonly signal: AbortSignal },
): Promise<ReadonlyMap<PreferencePair, PairLogprobs>> {
  const content = createHash('sha256').update(await trainer.modelHash());
  for (const { chosen, rejected } of pairs) {
    for (const { tokenIds, labelMask } of [chosen, rejected]) content.update(JSON.stringify([[...tokenIds], [...labelMask]]));
  }
  const of = content.digest('hex');
  const known = readCache(file);
  if (known?.of === of && known.chosen.length === pairs.length && known.rejected.length === pairs.length)
    return new Map(pairs.map((pair, i) => [pair, { chosen: known.chosen[i]!, rejected: known.rejected[i]! }]));
  const references: PairLogprobs[] = [];
  for (let from = 0; from < pairs.length; from += batchSize)
    references.push(...(await pairLogprobs(trainer, pairs.slice(from, from + batchSize), { adapter: false, signal })));
  const [chosen, rejected] = [references.map((each) => each.chosen), references.map((each) => each.rejected)];
  await writeFileAtomically(file, [Buffer.from(JSON.stringify({ of, chosen, rejected }))]);
  return new Map(pairs.map((pair, i) => [pair, references[i]!]));
}
