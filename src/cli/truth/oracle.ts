import { listTable } from '../../text/terminal.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import {
  oracleStudyCount,
  REASONER_NAMES,
  urnOracleStudies,
  type Estimator,
  type OracleResult,
  type OracleSettings,
} from '../../truth-seeking/domains/urn-oracle.js';
import type { Urns } from '../../truth-seeking/domains/urns.js';
import { defineCommand } from '../command.js';
import { interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { readCount, readSeed } from '../option.js';

const URNS: Urns = { redInA: 0.7, redInB: 0.3, prior: 0.5 };

const part = (value: number | null): string => (value === null ? '-' : value.toFixed(3));
const cells = (of: Estimator | null): string[] =>
  of === null ? ['-', '-', '-'] : [part(of.mean), part(of.coverage), part(of.detected)];

export const truthOracleCommand = defineCommand({
  command: 'oracle',
  describe:
    'What the slope and its correction are worth: reasoners whose slope is known, read through noise, many times over',
  builder: (yargs) =>
    yargs
      .option('reasoner', {
        choices: REASONER_NAMES,
        array: true,
        default: REASONER_NAMES,
        describe: 'who draws from the urns',
      })
      .option('trajectories', {
        type: 'number',
        array: true,
        default: [40, 200],
        describe: 'in a sample',
      })
      .option('samples', { type: 'number', default: 200, describe: 'drawn of each' })
      .option('draws', {
        type: 'number',
        default: 3,
        describe: 'of a trajectory, 12 at most; a belief follows each',
      })
      .option('wordings', {
        type: 'number',
        default: 3,
        describe: 'by which each belief is measured',
      })
      .option('noise', {
        type: 'number',
        default: 0.1,
        describe: 'standard deviation of each kind of noise',
      })
      .option('seed', { type: 'string', default: '1', describe: '64-bit seed of the samples' })
      .epilogue(
        'Kinds of noise: an offset of each wording; what lasts over a trajectory; what is fresh at each belief; all three. Of a ' +
          'slope: its mean over the samples, the part of the 95 % intervals that hold the true one (of those with bounds), and ' +
          'the part that does not hold 0.',
      )
      .example(
        '$0 truth oracle --reasoner bayesian --noise 0.2',
        'how far noise of .2 makes a Bayesian look over-correcting',
      ),
  handler: async ({ reasoner, trajectories, samples, draws, wordings, noise, seed, json }) => {
    if (!(noise >= 0 && noise <= 1)) throw new UsageError('--noise lies from 0 to 1');
    if (readCount('draws', draws, 1) > 12)
      throw new UsageError('--draws is 12 at most: every sequence of them is looked at');
    const settings: OracleSettings = {
      urns: URNS,
      reasoners: [...new Set(reasoner)],
      trajectories: trajectories.map((each) => readCount('trajectories', each, 3)),
      samples: readCount('samples', samples, 2),
      draws,
      wordings: readCount('wordings', wordings, 1),
      noise,
      seed: readSeed(seed),
    };
    const signal = interruption();
    const studies: OracleResult[] = [];
    {
      using progress = new Progress({ label: 'oracle', unit: 'studies' });
      for await (const each of urnOracleStudies(settings)) {
        studies.push(each);
        progress.update(studies.length, { total: oracleStudyCount(settings) });
        await new Promise(setImmediate); // an interruption is heard
        signal.throwIfAborted();
      }
    }
    if (json)
      return printJson({ settings: { ...settings, seed: settings.seed.toString() }, studies });
    const style = terminalStyle(process.stdout);
    const heads = ['noise', 'plain', 'covers', 'not 0', 'corrected', 'covers', 'not 0'];
    for (const who of settings.reasoners)
      for (const count of settings.trajectories) {
        const own = studies.filter((each) => each.reasoner === who && each.trajectories === count);
        const rows = own.map(({ noise: kind, plain, corrected }) => [
          kind,
          ...cells(plain),
          ...cells(corrected),
        ]);
        print(
          `${wrapped(`${who}, slope ${part(own[0]!.slope)}, ${count} trajectories`, style, 2)}\n`,
        );
        print(`${listTable(heads, rows, style)}\n\n`);
      }
  },
});
