/** Questions about events that have come out since, from JSON lines of the user. */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { binaryProblem, type BinaryProblem } from '../problem.js';
import { SkipCount, type Skipped } from '../score.js';
import { bothWays } from './imported.js';
import { jsonRows } from './json-rows.js';

const when = z.union([z.iso.date(), z.iso.datetime({ offset: true })]);
const row = z.object({
  question: z.string().trim().min(1),
  options: z.tuple([z.string().trim().min(1), z.string().trim().min(1)]).default(['Yes', 'No']),
  /** The option that came true, as written in the options. */
  resolution: z.string().trim(),
  /** When it was settled; a date is the beginning of that day in UTC. */
  endTime: when,
});

export interface Forecasts {
  readonly problems: readonly BinaryProblem[];
  /** Lines that are sound but not asked: settled by the cutoff, or asked before. */
  readonly skipped: Skipped;
  /** Part of the problems whose first option came true: the accuracy of always choosing it. */
  readonly firstOptionShare: number;
}

/**
 * Reads `{question, options?, resolution, endTime}` lines; empty lines are none.
 * @param cutoff when the model's training data ends, as a date or a time with its zone: what was
 *   settled by then it may have read
 * @throws IsoproError INVALID_ARGUMENT where a line is not JSON; DATA_INVALID where one has no such
 * members, its options are the same, its resolution is neither or the same question came out in two
 * ways, and where nothing is left or all of it came out in one way
 */
export function readForecasts(text: string, cutoff: string): Forecasts {
  if (!when.safeParse(cutoff).success)
    throw new IsoproError('DATA_INVALID', `the cutoff ${JSON.stringify(cutoff)} is not a date`);
  const skips = new SkipCount();
  const settled = new Map<string, string>();
  const problems: BinaryProblem[] = [];
  for (const { row: found, wrong } of jsonRows(text, 'forecasts', row)) {
    const { question, options, resolution, endTime } = found;
    if (options[0] === options[1]) throw wrong(`both options are ${JSON.stringify(options[0])}`);
    if (!options.includes(resolution))
      throw wrong(
        `${JSON.stringify(resolution)} is not one of its options ${JSON.stringify(options)}`,
      );
    const before = settled.get(question);
    if (before !== undefined && before !== resolution)
      throw wrong('an earlier line gives this question another resolution');
    settled.set(question, resolution);
    if (before !== undefined) skips.add('asked before');
    else if (Date.parse(endTime) <= Date.parse(cutoff)) skips.add('settled by the cutoff');
    else
      problems.push(
        binaryProblem({
          question,
          options,
          correctOption: resolution === options[0] ? 0 : 1,
          about: { endTime },
        }),
      );
  }
  return { problems, skipped: skips.counts, firstOptionShare: bothWays(problems, 'forecasts') };
}
