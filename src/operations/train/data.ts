/** Training data by objective: examples or pairs, the validation share, and the loss of a batch. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import {
  dpo,
  referenceLogprobs,
  type OnReference,
  type PairLogprobs,
} from '../../fine-tuning/dpo.js';
import {
  fineTune,
  likelihood,
  type FineTuningEvent,
  type FineTuningPlan,
  type Learning,
  type Validation,
} from '../../fine-tuning/fine-tuning.js';
import type { Model } from '../../engine/model.js';
import type { AdapterFrom } from '../../engine/training-request.js';
import { tokenisedPairs, type PreferencePair } from '../../fine-tuning/preference-pairs.js';
import { IsoproError } from '../../errors.js';
import type { Trainer, TrainSequence } from '../../engine/trainer.js';
import { unreadNote } from '../../fine-tuning/row-members.js';
import {
  eachAnswer,
  parseExamples,
  refusedRow,
  tokenisedExamples,
  type NamedExample,
  type Rows,
} from '../../fine-tuning/training-examples.js';
import { splitExamples } from '../../fine-tuning/validation-split.js';
import { readJson, readLines } from '../../files.js';
import type { Dictionary } from '../../dictionary.js';
import { readNumber } from '../../tasks/data/number.js';
import { isTable, readRaw } from '../../tasks/data/read-rows.js';
import { splitPath, writtenParts } from '../../tasks/data/split.js';
import { curate, curatedToMeasure, type Curation, type CurationCounts } from './curation.js';
import type { ANSWERS, OBJECTIVES } from './settings.js';

/** Files with fewer examples have none kept apart unless that is asked for. */
const LARGE = 100;
const SHARE = 0.1;

export interface TrainDataOptions {
  readonly objective: (typeof OBJECTIVES)[number];
  readonly rows: Rows;
  /** File of the rows; rows held out by a split file next to it are not trained on. */
  readonly file?: string | undefined;
  /** Default: last. */
  readonly answers?: (typeof ANSWERS)[number] | undefined;
  /** Share that is kept apart; default: a tenth of 100 examples or more. */
  readonly validation?: number | undefined;
  /** Validation rows, instead of a share. */
  readonly validationRows?: Rows | undefined;
  readonly maxTokens: number;
  readonly beta: number;
  /** Part of a text that the adapter acts on; default: all of it. */
  readonly adapterFrom?: AdapterFrom;
  /** Curation of examples; pairs have none. */
  readonly curation: Curation;
  /** File of the reference's log-probabilities; absent: they are not kept. */
  readonly references?: string | undefined;
}

type Plan = Omit<FineTuningPlan<never>, 'examples' | 'validation'> & {
  readonly validation: Omit<Validation<never>, 'examples'>;
};

/**
 * The lines of a file of examples; of a CSV file its rows as JSON, each at the place of its line
 * where no cell holds a line end.
 * @throws IsoproError FILE_UNREADABLE
 */
export function exampleLines(file: string): AsyncIterable<string> {
  return isTable(file) ? csvLines(file) : readLines(file);
}

/** Columns of a CSV file that make an example. */
const CSV_COLUMNS = ['prompt', 'messages', 'instruction', 'text'];

async function* csvLines(file: string): AsyncGenerator<string, void> {
  yield ''; // the header
  for (const { value } of readRaw(file, CSV_COLUMNS))
    yield JSON.stringify(scored(value as Dictionary<unknown>));
}

/** A cell is a text; a score is the number that it says. */
function scored(row: Dictionary<unknown>): Dictionary<unknown> {
  const { score } = row;
  const number = typeof score === 'string' ? readNumber(score) : null;
  return number === null ? row : { ...row, score: Number(number) };
}

/** Examples of whatever kind. */
export interface TrainData {
  readonly examples: number;
  readonly validationExamples: number;
  readonly tooLong: number;
  /** Examples that are too long or teach nothing. */
  readonly leftOut: number;
  /** Null if nothing was curated. */
  readonly curation: CurationCounts | null;
  /** Notes for the user about what is learned and what is not. */
  readonly notes: readonly string[];
  /** Tokens of the training examples. */
  readonly tokens: number;
  /** Returns the sequences of the first `count` examples. */
  sequences(count: number): readonly TrainSequence[];
  /**
   * Seconds that what is computed before the first step will take, from so many examples; 0 where
   * that is nothing.
   */
  secondsBefore(trainer: Trainer, count: number, signal: AbortSignal): Promise<number>;
  /**
   * @param onReference pairs whose log-probabilities under the base model are known, of all, before
   *   the first step
   */
  train(
    trainer: Trainer,
    plan: Plan,
    signal: AbortSignal,
    onReference?: OnReference,
  ): AsyncGenerator<FineTuningEvent>;
}

interface Read<Example> {
  readonly examples: readonly Example[];
  readonly tooLong: number;
  /** Pairs of two equal replies. */
  readonly equal?: number;
  /** Conversation of an example; answers of one conversation stay on one side of a split. */
  readonly conversationOf?: (example: Example) => string | undefined;
  readonly curation?: CurationCounts | null;
  /** Examples of the dev set of a split file. */
  readonly dev?: readonly Example[];
  readonly notes?: readonly string[];
}

interface Kind<Example> {
  readonly read: (rows: Rows) => Promise<Read<Example>>;
  /** Reads validation examples. */
  readonly readToMeasure: (rows: Rows) => Promise<Read<Example>>;
  /** Converts an example to its validation form. */
  readonly held: (example: Example) => Example;
  /** Examples of which this is equal are kept apart together. */
  readonly textOf: (example: Example) => Int32Array;
  readonly sequencesOf: (example: Example) => readonly TrainSequence[];
  /** Computed of every example before the first step. */
  readonly before?: (
    trainer: Trainer,
    some: readonly Example[],
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly learning: (
    trainer: Trainer,
    all: readonly Example[],
    how: {
      readonly batchSize: number;
      readonly signal: AbortSignal;
      readonly onReference?: OnReference;
    },
  ) => Promise<Learning<Example>>;
}

/** @throws IsoproError INVALID_ARGUMENT, TEMPLATE_INVALID naming the row; DATA_INVALID */
export function readTrainData(model: Model, options: TrainDataOptions): Promise<TrainData> {
  const { objective, maxTokens, beta, references, curation, file, answers = 'last' } = options;
  const tokenised = (examples: Parameters<typeof tokenisedExamples>[0]): Read<TrainSequence> => {
    if (options.adapterFrom === 'reply') requireReplies(examples);
    const { sequences, conversations, ...found } = tokenisedExamples(examples, model, maxTokens);
    const conversationOf = (sequence: TrainSequence): string | undefined =>
      conversations.get(sequence);
    return { examples: sequences, conversationOf, ...found };
  };
  if (objective === 'sft')
    return readKind<TrainSequence>(options, {
      read: async (rows) => {
        const { train, dev, notes } = heldOut(file, await parseExamples(rows));
        const { examples, counts } = curate(
          answers === 'all' ? train.flatMap(eachAnswer) : train,
          curation,
        );
        const learned = tokenised(examples);
        return {
          ...learned,
          curation: counts,
          ...(dev.length > 0 && { dev: tokenised(curatedToMeasure(dev, curation)).examples }),
          notes: [
            ...notes,
            ...(answers === 'last' ? unlearned(train) : []),
            ...unreadNote(train),
            ...(learned.notes ?? []),
          ],
        };
      },
      readToMeasure: async (rows) =>
        tokenised(curatedToMeasure(await parseExamples(rows), curation)),
      held: ({ weight: _, ...sequence }) => sequence,
      textOf: ({ tokenIds }) => tokenIds,
      sequencesOf: (sequence) => [sequence],
      learning: async (trainer) => likelihood(trainer),
    });
  const read = async (rows: Rows): Promise<Read<PreferencePair>> => {
    const { pairs, ...others } = await tokenisedPairs(rows, model, maxTokens);
    return { examples: pairs, ...others };
  };
  return readKind<PreferencePair>(options, {
    read,
    readToMeasure: read,
    held: (pair) => pair,
    textOf: ({ prompt }) => prompt,
    sequencesOf: ({ chosen, rejected }) => [chosen, rejected],
    before: (trainer, pairs, signal) =>
      referenceLogprobs(trainer, pairs, { batchSize: pairs.length, signal }),
    learning: async (trainer, pairs, how) =>
      dpo(trainer, await referencesOf(trainer, pairs, { ...how, file: references }), beta),
  });
}

/** @throws IsoproError INVALID_ARGUMENT naming the first row that is a plain text */
function requireReplies(examples: readonly Pick<NamedExample, 'example' | 'name'>[]): void {
  const plain = examples.find(({ example }) => 'text' in example);
  if (plain !== undefined)
    throw refusedRow(
      plain.name,
      'a plain text has no reply, but the adapter is to act from the reply on (adapterFrom)',
    );
}

interface Parts {
  readonly train: readonly NamedExample[];
  readonly dev: readonly NamedExample[];
  readonly notes: readonly string[];
}

/**
 * Splits off the rows that `run` holds out, since adapters are measured on them.
 * @throws IsoproError DATA_INVALID
 */
function heldOut(file: string | undefined, all: readonly NamedExample[]): Parts {
  const partOf = file !== undefined && existsSync(file) ? writtenParts(file) : null;
  if (file === undefined || partOf === null) return { train: all, dev: [], notes: [] };
  const parts = all.map(({ example }) => ('text' in example ? 'train' : partOf(example.prompt)));
  const of = (part: (typeof parts)[number]): NamedExample[] =>
    all.filter((_, i) => parts[i] === part);
  const [train, dev, test] = [of('train'), of('dev'), of('test')];
  const name = path.basename(splitPath(file));
  if (train.length === 0)
    throw new IsoproError(
      'DATA_INVALID',
      `${name} holds out all rows of ${path.basename(file)}: no rows are left to train on`,
      {
        remedy:
          'Remove that file to train on all rows; a later evaluation on them is then meaningless.',
      },
    );
  const counted = (count: number, rows: string): string =>
    `${count} ${count === 1 ? 'row' : 'rows'} ${rows}`;
  return {
    train,
    dev,
    notes: [
      `${name} holds out ${counted(test.length, 'of the test set')} and ${dev.length} of the dev set: not trained on`,
    ],
  };
}

/** Conversations have answers before the last one. */
function unlearned(all: readonly NamedExample[]): string[] {
  const count = all.filter((row) => eachAnswer(row).length > 1).length;
  return count === 0
    ? []
    : [
        `${count} of ${all.length} rows have earlier answers that are not learned; --answers all includes them`,
      ];
}

async function readKind<Example>(
  { rows, validation, validationRows }: TrainDataOptions,
  { read, readToMeasure, held: asHeld, textOf, sequencesOf, before, learning }: Kind<Example>,
): Promise<TrainData> {
  const {
    examples: all,
    tooLong,
    equal = 0,
    conversationOf,
    curation = null,
    dev,
    notes = [],
  } = await read(rows);
  const own = validation === undefined && validationRows === undefined ? dev : undefined;
  const share =
    validation ??
    (all.length >= LARGE && validationRows === undefined && own === undefined ? SHARE : 0);
  const split =
    share === 0
      ? { training: all, validation: [] }
      : splitExamples(all, share, textOf, conversationOf);
  const examples = split.training;
  const held =
    validationRows === undefined
      ? (own ?? split.validation).map(asHeld)
      : (await readToMeasure(validationRows)).examples;
  return {
    examples: examples.length,
    validationExamples: held.length,
    tooLong,
    leftOut: tooLong + equal,
    curation,
    notes,
    tokens: examples.flatMap(sequencesOf).reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    sequences: (count) => examples.slice(0, count).flatMap(sequencesOf),
    async secondsBefore(trainer, count, signal) {
      if (before === undefined) return 0;
      const started = performance.now();
      await before(trainer, examples.slice(0, count), signal);
      const each = (performance.now() - started) / 1000 / Math.min(count, examples.length);
      return each * (examples.length + held.length);
    },
    async *train(trainer, { validation: measured, ...plan }, signal, onReference) {
      const how = await learning(trainer, [...examples, ...held], {
        batchSize: plan.batchSize,
        signal,
        ...(onReference && { onReference }),
      });
      yield* fineTune(
        how,
        {
          ...plan,
          examples,
          ...(held.length > 0 && { validation: { ...measured, examples: held } }),
        },
        signal,
      );
    },
  };
}

const cached = z.object({
  of: z.string(),
  chosen: z.array(z.number()),
  rejected: z.array(z.number()),
});

/** Reads the cache; undefined if it is missing or unreadable. */
function readCache(file: string | undefined): z.output<typeof cached> | undefined {
  try {
    return file !== undefined && existsSync(file) ? cached.parse(readJson(file)) : undefined;
  } catch {
    return undefined;
  }
}

/** Once a training: a file keeps them for one that is resumed. */
async function referencesOf(
  trainer: Trainer,
  pairs: readonly PreferencePair[],
  {
    batchSize,
    file,
    signal,
    onReference,
  }: {
    readonly batchSize: number;
    readonly file: string | undefined;
    readonly signal: AbortSignal;
    readonly onReference?: OnReference;
  },
): Promise<ReadonlyMap<PreferencePair, PairLogprobs>> {
  const content = createHash('sha256').update(await trainer.modelHash());
  for (const { chosen, rejected } of pairs) {
    for (const { tokenIds, labelMask } of [chosen, rejected])
      content.update(JSON.stringify([[...tokenIds], [...labelMask]]));
  }
  const of = content.digest('hex');
  const known = readCache(file);
  if (
    known?.of === of &&
    known.chosen.length === pairs.length &&
    known.rejected.length === pairs.length
  )
    return new Map(
      pairs.map((pair, i) => [pair, { chosen: known.chosen[i]!, rejected: known.rejected[i]! }]),
    );
  const references = await referenceLogprobs(trainer, pairs, {
    batchSize,
    signal,
    ...(onReference && { onReference }),
  });
  const [chosen, rejected] = (['chosen', 'rejected'] as const).map((side) =>
    pairs.map((pair) => references.get(pair)![side]),
  );
  if (file !== undefined)
    await writeFileAtomically(file, [Buffer.from(JSON.stringify({ of, chosen, rejected }))]);
  return references;
}
