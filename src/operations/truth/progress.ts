/** Progress of the truth operations. */
import type { TruthProgress } from '../../truth-seeking/run/evaluation-run.js';
import type { Context } from '../operation.js';

const UNITS: Readonly<Record<TruthProgress['stage'], string>> = {
  trajectories: 'trajectories',
  beliefs: 'trajectories',
  measurements: 'measurements',
  results: 'scores',
};

/** @param when a word behind each stage, of a run that is one of several */
export const tellTruth =
  (tell: Context['tell'], when?: string) =>
  ({ stage, done, total }: TruthProgress): void => {
    const name = stage === 'trajectories' ? 'reasoning' : stage;
    tell({
      type: 'progress',
      data: { stage: [name, when].join(' ').trim(), done, total, unit: UNITS[stage] },
    });
  };

/** A total of 0 is not known. */
export const tellDownload =
  (tell: Context['tell'], model: string) =>
  ({
    downloadedBytes: done,
    totalBytes,
  }: {
    readonly downloadedBytes: number;
    readonly totalBytes: number | null;
  }): void =>
    tell({
      type: 'progress',
      data: { stage: `download ${model}`, done, total: totalBytes ?? 0, unit: 'bytes' },
    });
