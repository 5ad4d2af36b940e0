import { continuing } from '../../operations/truth/recompute.js';
import { truthRun } from '../../operations/truth/truth-run.js';
import { readTruthConfigFile } from '../../truth-seeking/run/config.js';
import { readTruthRun } from '../../truth-seeking/run/folder.js';
import { operationCommand, progressScreen } from '../operation-command.js';
import { personScreen } from '../person.js';
import { truthText } from './screen.js';

export const truthRunCommand = operationCommand(truthRun, {
  readFile: readTruthConfigFile,
  screen: ({ policy }) =>
    policy === 'human' ? personScreen(' The same command continues it.') : progressScreen(),
  interrupted: ['the run', ({ recompute }) => continuing(recompute)],
  text: ({ folder, command }, { out = folder }, style) =>
    `${truthText(readTruthRun(folder), style)}\nrun:   ${out}\nagain: ${command}\n`,
  epilogue: 'The same command continues after an interruption and reuses what is in the log.',
  examples: [
    [
      '$0 truth run --domain urns --problems 8',
      'read the beliefs of the embedded model about urns',
    ],
    [
      '$0 truth run --mode direct self-debate:turns=6 --system-prompt critical confirmatory',
      'two modes, each under two system prompts',
    ],
    [
      '$0 truth run --policy human --domain puzzles --mode direct',
      'you reason, and the model reads your beliefs',
    ],
  ],
});
