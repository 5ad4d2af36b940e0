import { defineCommand } from './command.js';
import { truthBeliefsCommand, truthEvaluateCommand } from './truth-again.js';
import { truthAnalyzeCommand } from './truth-analyze.js';
import { truthDomainsCommand } from './truth-domains.js';
import { truthGuardsCommand } from './truth-guards.js';
import { truthLabelsCommand } from './truth-labels.js';
import { truthOracleCommand } from './truth-oracle.js';
import { truthReportCommand } from './truth-report.js';
import { truthRunCommand } from './truth-run.js';
import { truthTrainCommand } from './truth-train.js';

export const truthCommand = defineCommand({
  command: 'truth',
  describe: 'Whether reasoning moves beliefs towards the truth: run, read and score',
  builder: (yargs) =>
    yargs
      .command([
        ...[
          truthRunCommand,
          truthBeliefsCommand,
          truthEvaluateCommand,
          truthAnalyzeCommand,
          truthReportCommand,
        ],
        ...[
          truthTrainCommand,
          truthLabelsCommand,
          truthGuardsCommand,
          truthDomainsCommand,
          truthOracleCommand,
        ],
      ])
      .demandCommand(1, 'Name an action; `isopro-native truth --help` lists them.')
      .example(
        '$0 truth run --domain urns --problems 8',
        'beliefs of the embedded model about urns',
      ),
  handler: () => {},
});
