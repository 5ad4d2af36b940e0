import { ablate } from '../../operations/ablate.js';
import { readSettingsFile } from '../../training/settings.js';
import { operationCommand } from '../operation-command.js';
import { ablationText } from './ablate-table.js';
import { otherDefaults } from './run-command.js';
import { RunScreen } from './run-screen.js';

export const ablateCommand = operationCommand(ablate, {
  otherDefaults,
  readFile: readSettingsFile,
  screen: () => new RunScreen({ title: 'ablation' }),
  interrupted: ['the ablation', 'Finished runs were kept: the same command continues.'],
  text: ({ embedded, ...runs }) => ablationText(runs, embedded),
  epilogue: 'After an interruption, the same command continues: finished runs are not repeated.',
  examples: [
    ['$0 ablate --out results/ablation', 'every condition on the embedded model, three seeds'],
    ['$0 ablate --conditions random-layers shuffled-verdicts --seeds 42', 'two controls, one seed'],
  ],
});
