/** A LoRA adapter from a file of examples or of preference pairs. */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { OF_TRAINING, requireModelName } from '../../backends/names.js';
import { hashFile } from '../../engine/adapter.js';
import { loadTrainable } from '../../engine/trainable-model.js';
import { rowsOf } from '../../fine-tuning/training-examples.js';
import { splitPath } from '../../tasks/data/split.js';
import { memoryOf, TRAINER_BYTES } from '../memory.js';
import { noticeTo, warningsOf } from '../notes.js';
import { operation } from '../operation.js';
import { trained, tried, type Trained, type TrainingPlan, type TrainingTrial } from './course.js';
import { exampleLines } from './data.js';
import { TrainFiles } from './files.js';
import { begunWith, contradictionsOf, trainSettings } from './settings.js';

interface Loss {
  readonly step: number;
  readonly loss: number;
}

/** Result of a finished training. */
export interface TrainResult extends TrainingPlan, Pick<Trained, 'figures' | 'seconds' | 'sha256'> {
  readonly stepsTaken: number;
  readonly loss: { readonly first: number | null; readonly last: number | null };
  /** Null without validation examples. `best`: the step whose adapter was kept. */
  readonly validation: {
    readonly before: number | null;
    readonly best: Loss;
    readonly last: Loss;
  } | null;
  /** Files. */
  readonly adapter: string;
  readonly state: string;
  readonly losses: string;
}

/** SHA-256 of the rows and the split file; null if the rows cannot be read twice. */
async function dataHash(file: string): Promise<string | null> {
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return null;
  const files = [file, splitPath(file)].filter((each) => existsSync(each));
  const hashes: string[] = [];
  for (const each of files) hashes.push(await hashFile(each));
  return hashes.join(' ');
}

function resultOf(
  { plan, stepsTaken, losses, best, figures, sha256, seconds }: Trained,
  files: TrainFiles,
): TrainResult {
  const { training, validation } = losses;
  return {
    ...plan,
    stepsTaken,
    loss: { first: training[0]?.loss ?? null, last: training.at(-1)?.loss ?? null },
    validation: best && {
      before: validation.find(({ step }) => step === 0)?.loss ?? null,
      best,
      last: validation.at(-1)!,
    },
    adapter: files.out,
    sha256,
    state: files.state,
    losses: files.losses,
    ...{ figures, seconds },
  };
}

const outOf = (folder: string): string => path.join(folder, 'adapter.gguf');

export const train = operation({
  id: 'train',
  title: 'Train a LoRA adapter on a file of examples, on the CPU',
  settings: trainSettings,
  contradictions: (settings) => contradictionsOf(settings),
  async run(settings, context): Promise<TrainResult | TrainingTrial> {
    const { data, validationData, out, resume, dryRun } = settings;
    requireModelName(settings.model, OF_TRAINING, 'training');
    const files = new TrainFiles(out);
    if (!dryRun) files.check(settings);
    const begun = begunWith(settings, await dataHash(data));
    if (resume) files.checkSame(begun);
    const rows = rowsOf(exampleLines(data)); // before the model, which takes longer to be missed
    await using model = await loadTrainable(settings.model, { signal: context.signal });
    warningsOf(model).forEach(noticeTo(context.tell));
    const request = {
      ...{ model, rows, settings, files, begun, resume, file: data },
      validationRows:
        validationData === undefined ? undefined : rowsOf(exampleLines(validationData)),
      about: { model: settings.model, data },
    };
    if (dryRun) return await tried(request, context); // the model is open until then
    return resultOf(await trained(request, context), files);
  },
  job: {
    button: 'Train',
    title: 'Train an adapter on a file of examples',
    local: ({ folder }) => ({ out: outOf(folder) }),
    again: ({ folder }) =>
      existsSync(new TrainFiles(outOf(folder)).state) ? { resume: true } : { force: true },
    measure: { dryRun: true },
    memoryBytes: ({ model }) => memoryOf(model, 0, TRAINER_BYTES),
    adapterOf: (result) =>
      z.object({ adapter: z.string() }).safeParse(result).data?.adapter ?? null,
  },
});
