/** Truth runs as a page lists them, and single trajectories as it shows them. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { policyName, readerText, whoseBeliefs } from '../../truth-seeking/analysis/from-run.js';
import { slopeWithoutNoiseIn } from '../../truth-seeking/analysis/slope-without-noise.js';
import { beliefPath, type Readout } from '../../truth-seeking/beliefs/readout.js';
import { isTruthRun, readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import { readerId } from '../../truth-seeking/run/reader.js';
import { verifyTruthRun } from '../../truth-seeking/run/verify.js';
import { label } from '../../text/hostile-text.js';
import { visible } from '../../visible-text.js';
import { checkLog } from '../../report/integrity.js';
import { setupText } from '../../report/setup-text.js';
import { truthReportHtml } from '../../report/truth-page.js';
import type { TruthLine, TruthShown, TruthTrajectory } from './shapes.js';

/** Folders of truth runs directly below a folder, by name. */
export function truthFolders(parent: string): string[] {
  try {
    return readdirSync(parent, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => path.join(parent, name))
      .filter(isTruthRun)
      .sort();
  } catch {
    return []; // no run was made here yet
  }
}

function lineOf(name: string, run: TruthRun): TruthLine {
  const { config } = run.start;
  return {
    ...{
      name,
      policy: label(policyName(run), 80),
      domains: config.domain.map((each) => label(each, 80)),
      seed: config.seed,
    },
    ...{ state: run.state.complete === null ? 'unfinished' : 'ended', reason: null },
    ...{ trajectories: run.state.trajectories.length, results: run.state.results.length },
  };
}

export function truthLine(folder: string): TruthLine {
  const name = path.basename(folder);
  try {
    return lineOf(name, readTruthRun(folder));
  } catch (error) {
    const reason = label((error as Error).message, 300);
    return {
      name,
      policy: '',
      domains: [],
      seed: '',
      state: 'unreadable',
      reason,
      trajectories: 0,
      results: 0,
    };
  }
}

/** Trajectories that a page lists. */
const MOST = 500;
const SHOWN_QUESTION = 200;

const beliefsOf = ({ state }: TruthRun, id: string): readonly number[] | null => {
  const readout = state.beliefs(id)?.readout as Readout | undefined;
  const found = readout === undefined ? 'none' : beliefPath(readout);
  return typeof found === 'string' ? null : found.beliefs;
};

export function truthShown(name: string, run: TruthRun): TruthShown {
  return {
    line: lineOf(name, run),
    results: run.state.results.map((result) => {
      const { setup, strategy, direction, value, interval, n, reader } = result;
      return {
        ...{
          setup: label(setupText(setup), 120),
          strategy: label(strategy, 200),
          direction,
          value,
          interval,
          n,
        },
        withoutNoise: slopeWithoutNoiseIn(result),
        reader: reader ? readerText(run, readerId(reader)) : null,
      };
    }),
    whose: run.state.readers[0] === undefined ? null : whoseBeliefs(run, run.state.readers[0]),
    trajectories: run.state.trajectories
      .slice(0, MOST)
      .map(({ setup, trajectory: { id, problemId } }) => {
        const problem = run.state.problem(problemId)!;
        return {
          ...{
            id,
            setup: label(setupText(setup), 120),
            question: label(problem.question, SHOWN_QUESTION),
            beliefs: beliefsOf(run, id),
          },
          correctOption: problem.kind === 'binary' ? problem.correctOption : null,
        };
      }),
  };
}

/** Trajectory of an id; null if the run does not have it. */
export function truthTrajectory(run: TruthRun, id: string): TruthTrajectory | null {
  const { state } = run;
  const record = state.trajectories.find(({ trajectory }) => trajectory.id === id);
  if (record === undefined) return null;
  const { trajectory, setup } = record;
  const problem = state.problem(trajectory.problemId)!;
  return {
    ...{ id, setup: label(setupText(setup), 120), question: visible(problem.question) },
    options:
      problem.kind === 'binary' ? [visible(problem.options[0]), visible(problem.options[1])] : null,
    correctOption: problem.kind === 'binary' ? problem.correctOption : null,
    prompt: trajectory.prompt.map(({ role, content }) => ({ role, content: visible(content) })),
    steps: trajectory.steps.map(({ content, trainable }) => ({
      content: visible(content),
      trainable,
    })),
    readers: state.readers.flatMap((reader) => {
      const found = state.beliefs(id, reader);
      return found === null
        ? []
        : [
            {
              whose: whoseBeliefs(run, reader),
              beliefs: found.readout.readings.map((reading) =>
                reading.belief === null
                  ? { reason: reading.reason }
                  : { p0: reading.belief.p0, error: reading.belief.error ?? null },
              ),
            },
          ];
    }),
  };
}

/** The text of what `truth report` writes, without measurements of tokens. */
export async function truthReportText(folder: string): Promise<string> {
  const run = readTruthRun(folder);
  return truthReportHtml(run, await checkLog(folder, () => verifyTruthRun(folder)));
}
