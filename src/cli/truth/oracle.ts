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
import { number, readCount, readSeed } from '../option.js';

const URNS: Urns = { redInA: 0.7, redInB: 0.3, prior: 0.5 };

const part = (value: number | null): string => (value === null ? '-' : value.toFixed(3));
const cells = (of: Estimator | null): string[] =>
  of === null ? ['-', '-', '-'] : [part(of.mean), part(of.coverage), part(of.detected)];

export const truthOracleCommand = defineCommand({
  command: 'oracle',
  describe: 'Test the slope and its noise correction on simulated reasoners with a known slope',
  builder: (yargs) =>
    yargs
      .option('reasoner', {
        choices: REASONER_NAMES,
        array: true,
        default: REASONER_NAMES,
        describe: 'simulated reasoners',
      })
      .option('trajectories', {
        type: 'number',
        array: true,
        default: [40, 200],
        describe: 'trajectories per sample',
      })
      .option('samples', number('samples per setting', 200))
      .option('draws', number('draws per trajectory, at most 12; each is followed by a belief', 3))
      .option('wordings', number('probe wordings per belief', 3))
      .option('noise', number('standard deviation of each kind of noise', 0.1))
      .option('seed', { type: 'string', default: '1', describe: '64-bit seed of the samples' })
      .epilogue(
        'Kinds of noise: an offset per wording; noise that lasts over a trajectory; fresh noise at each belief; all three. Columns: ' +
          'the mean slope over the samples, the part of the bounded 95 % intervals that contain the true slope, and ' +
          'the part of the intervals that exclude 0.',
      )
      .example(
        '$0 truth oracle --reasoner bayesian --noise 0.2',
        'show how noise of 0.2 makes a Bayesian look over-correcting',
      ),
  handler: async ({ reasoner, trajectories, samples, draws, wordings, noise, seed, json }) => {
    if (!(noise >= 0 && noise <= 1)) throw new UsageError('--noise must be from 0 to 1');
    if (readCount('draws', draws, 1) > 12)
      throw new UsageError('--draws must be at most 12, because every sequence is enumerated');
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
