import { continuing } from '../../operations/truth/recompute.js';
import { truthRun } from '../../operations/truth/truth-run.js';
import { readTruthConfigFile } from '../../truth-seeking/run/config.js';
import { readTruthRun } from '../../truth-seeking/run/folder.js';
import { operationCommand, progressScreen, type Screen } from '../operation-command.js';
import { truthText } from './screen.js';
import { terminal } from './terminal.js';

/** Screen of a run: when a person answers, only downloads show progress. */
function screenOf({ policy }: { readonly policy: string }): Screen {
  const progress = progressScreen();
  if (policy !== 'human') return progress;
  const person = terminal(process.stdin, process.stderr);
  return {
    tell: (told) => {
      if ((told.data as { readonly unit?: string }).unit === 'bytes') progress.tell(told);
    },
    ask: person.ask,
    [Symbol.dispose]: () => {
      progress[Symbol.dispose]();
      person.close();
    },
  };
}

export const truthRunCommand = operationCommand(truthRun, {
  readFile: readTruthConfigFile,
  screen: screenOf,
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
