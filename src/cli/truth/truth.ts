import { defineCommand } from '../command.js';
import { truthBeliefsCommand, truthEvaluateCommand } from './measure.js';
import { truthAnalyzeCommand } from './analyze.js';
import { truthDomainsCommand } from './domains.js';
import { truthGuardsCommand } from './guards.js';
import { truthLabelsCommand } from './labels.js';
import { truthOracleCommand } from './oracle.js';
import { truthReportCommand } from './report.js';
import { truthRunCommand } from './run-command.js';
import { truthTrainCommand } from './train.js';

export const truthCommand = defineCommand({
  command: 'truth',
  describe: 'Measure whether reasoning moves beliefs towards the truth',
  builder: (yargs) =>
    yargs
      .command([
        ...[truthRunCommand, truthBeliefsCommand, truthEvaluateCommand, truthAnalyzeCommand],
        ...[truthReportCommand, truthTrainCommand, truthLabelsCommand, truthGuardsCommand],
        ...[truthDomainsCommand, truthOracleCommand],
      ])
      .demandCommand(1, 'Name an action; `isopro-native truth --help` lists them.')
      .example(
        '$0 truth run --domain urns --problems 8',
        'read the beliefs of the embedded model about urns',
      ),
  handler: () => {},
});
