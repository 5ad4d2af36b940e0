import { given } from '../../given.js';
import {
  rolledBackIterations,
  trainingRows,
  VERDICTS_EXPORTED,
  type LeftOut,
  type RowFilter,
} from '../../operations/training-data.js';
import { openRunTask } from '../../judge/held-out.js';
import { IsoproError } from '../../errors.js';
import { LogReader } from '../../log/read.js';
import { findRun } from '../../lookup/runs.js';
import { readManifest } from '../../run-folder/manifest.js';
import { runPaths } from '../../run-folder/paths.js';
import { RUN_STREAMS } from '../../run-folder/streams.js';
import { jsonText, printNote, UsageError, write } from '../output.js';
import { checkOption } from '../tasks/opening.js';
import { command } from '../command.js';
import { number, text, toggle } from '../option.js';

export const logTrainingDataCommand = command({
  command: 'training-data <runs..>',
  describe: 'Export rollouts with scores, as rows for train --data',
  positionals: {
    runs: {
      type: 'string',
      array: true,
      demandOption: true,
      describe: 'run folders, or starts of run ids in ./runs',
    },
  },
  options: {
    verdict: {
      choices: VERDICTS_EXPORTED,
      default: 'pass' as const,
      describe: 'verdict of the replies to export',
    },
    'min-score': number('min score of a reply; a pass without a score counts as 1', 0),
    tier: { type: 'string', array: true, requiresArg: true, describe: 'only these tiers' },
    trained: toggle('only replies that the run trained on'),
    base: toggle('only replies of the base model, without an adapter'),
    'rolled-back': toggle('also replies of iterations that the gate rolled back'),
    task: text("your copy of the runs' task, if it is a file"),
    check: {
      ...checkOption,
      describe: "your copy of the runs' check, if it is a file or program",
    },
  },
  examples: [
    ['$0 log training-data runs/3f2a > rows.jsonl', 'passing replies'],
    [
      '$0 log training-data runs/3f2a --verdict all | $0 train --data - --score-conditioned',
      'all replies, conditioned on their score',
    ],
  ],
  handler: async ({
    runs,
    verdict,
    minScore,
    tier: tiers,
    trained,
    base,
    rolledBack,
    task,
    check,
  }) => {
    if (!(minScore >= 0 && minScore <= 1))
      throw new UsageError('--min-score: expected a score from 0 to 1');
    const filter = { verdict, minScore, tiers, trained, base, rolledBack };
    const opening = { ...given({ task, check }) };
    for (const named of runs) {
      const folder = findRun(named);
      const { rows, leftOut } = await writeRows(folder, filter, opening);
      const others = [...leftOut].map(([why, count]) => `${count} ${TITLES[why]}`);
      printNote(
        `${folder}: ${rows} rows${others.length === 0 ? '' : `; left out: ${others.join(', ')}`}\n`,
      );
    }
  },
});

const TITLES: Readonly<Record<LeftOut, string>> = {
  undecided: 'undecided',
  cutOff: 'cut off',
  rolledBack: 'of rolled-back iterations',
  verdict: 'of the other verdict',
  score: 'below the score',
  tier: 'of other tiers',
  untrained: 'not trained on',
  adapter: 'from an adapter',
};

async function writeRows(
  folder: string,
  filter: RowFilter,
  { task: file, ...check }: { readonly task?: string; readonly check?: string },
): Promise<{ readonly rows: number; readonly leftOut: ReadonlyMap<LeftOut, number> }> {
  const { runId, start } = readManifest(folder);
  const opened = await openRunTask(start, file, check);
  if (opened.task === null)
    throw new IsoproError('INVALID_ARGUMENT', `${folder}: ${opened.reason}`);
  await using task = opened.task;
  const reader = new LogReader(runPaths(folder).log, RUN_STREAMS);
  try {
    const rolledBack = rolledBackIterations(reader.records());
    const leftOut = new Map<LeftOut, number>();
    const onLeftOut = (why: LeftOut): void => void leftOut.set(why, (leftOut.get(why) ?? 0) + 1);
    const options = { runId, task, style: start.evaluation.style, filter, rolledBack, onLeftOut };
    let rows = 0;
    for await (const row of trainingRows(reader.records({ stream: 'rollouts' }), options)) {
      await write(`${jsonText(row)}\n`);
      rows++;
    }
    return { rows, leftOut };
  } finally {
    reader.close();
  }
}
