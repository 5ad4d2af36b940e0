/** Screen and result text of a training. */
import { readLosses } from '../../operations/train/files.js';
import type { train, TrainResult } from '../../operations/train/train.js';
import { lossCurve } from '../../report/loss-curve.js';
import { BEST_QUALITY, qualityLine } from '../../tasks/curation/quality.js';
import { progressScreen, type Screen } from '../operation-command.js';
import { formatBytes, formatDuration } from '../quantities.js';

type Outcome = Awaited<ReturnType<typeof train.run>>;
type Settings = ReturnType<typeof train.read>;
type Trial = Exclude<Outcome, TrainResult>;

/** Its notes end with the memory that the process takes. */
export function trainScreen(): Screen {
  const screen = progressScreen();
  return {
    ...screen,
    tell: (told) => {
      const { note } = told.data as { readonly note?: string };
      if (told.type !== 'progress' || note === undefined) screen.tell(told);
      else {
        const memory = formatBytes(process.memoryUsage().rss);
        screen.tell({ ...told, data: { ...(told.data as object), note: `${note}, ${memory}` } });
      }
    },
  };
}

export const trainText = (outcome: Outcome, settings: Settings): string =>
  'adapter' in outcome ? resultText(outcome, settings) : trialText(outcome);

/** A line of what was left out. */
const curationText = ({ curation }: Outcome): string[] =>
  curation === undefined
    ? []
    : [
        `of ${curation.rows} rows, ${curation.repeated} are duplicates, ${curation.near} are near-duplicates, ` +
          `and ${curation.belowElite} are below the elite share`,
      ];

const trialText = (trial: Trial): string =>
  [
    `${trial.examples} examples (${trial.tooLong} too long), ${trial.validationExamples} for validation, ` +
      `${trial.tokens} tokens, ${trial.steps} steps`,
    ...curationText(trial),
    `${trial.parameters} parameters in ${trial.layers} layers, ${trial.threads} threads`,
    `${trial.tokensPerSecond.toFixed(1)} tokens/s, about ${(trial.seconds / 60).toFixed(0)} min; ` +
      `${formatBytes(trial.residentBytes)} resident`,
    '',
  ].join('\n');

function resultText(result: TrainResult, { model, scoreConditioned }: Settings): string {
  const { training, validation } = readLosses(result.losses);
  const curve = lossCurve(
    [
      { mark: '.', name: 'training loss', points: training },
      ...(result.validationExamples === 0
        ? []
        : [{ mark: 'o', name: 'validation loss', points: validation }]),
    ],
    Math.min(100, process.stdout.columns || 80),
  );
  const asked = scoreConditioned ? ` --system "${qualityLine(BEST_QUALITY)}"` : '';
  return [
    ...curve,
    '',
    ...curationText(result),
    ...figuresText(result),
    ...preferenceText(result),
    `${result.adapter}  sha256 ${result.sha256}`,
    '',
    `next: npx isopro-native chat --model ${model} --adapter ${result.adapter}${asked}`,
    '',
  ].join('\n');
}

/** A line where pairs were learned. */
function preferenceText({ figures, validationExamples }: TrainResult): string[] {
  const { 'rewards/accuracies': part, 'rewards/margins': margin } = figures;
  if (part === undefined || margin === undefined) return [];
  const on = validationExamples > 0 ? 'the validation pairs' : 'the pairs of the last step';
  return [
    `the chosen reply gained more in ${(100 * part).toFixed(0)} % of ${on}, by a reward of ${margin.toFixed(3)} on average`,
  ];
}

function figuresText({
  examples,
  validationExamples,
  steps,
  stepsTaken,
  loss,
  validation,
  seconds,
}: TrainResult): string[] {
  const shown = (value: number | null): string => value?.toFixed(3) ?? '-';
  const lines = [
    `${examples} examples, ${stepsTaken} of ${steps} steps in ${formatDuration(seconds)}; ` +
      `training loss ${shown(loss.first)} -> ${shown(loss.last)}`,
  ];
  if (validation === null) return lines;
  const { before, best } = validation;
  lines.push(
    `validation loss on ${validationExamples} examples: ${shown(before)} before, ` +
      `${shown(best.loss)} after step ${best.step} (kept)`,
  );
  if (stepsTaken < steps)
    lines.push('stopped early: the validation loss stopped falling (--patience)');
  if (before !== null && best.loss >= before)
    lines.push(
      'the loss never fell below that of the base model: train longer or on more examples',
    );
  return lines;
}
