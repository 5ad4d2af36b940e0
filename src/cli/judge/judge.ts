import { STEPS } from '../../judge/steps.js';
import { judge, type Judgement } from '../../operations/judge.js';
import type { Told } from '../../operations/operation.js';
import type { TerminalStyle } from '../../text/terminal-style.js';
import { shellWord } from '../../shell-word.js';
import { operationCommand, progressScreen, type Screen } from '../operation-command.js';
import { Progress } from '../progress.js';
import { guardsJudgementText, truthJudgementText } from '../truth/screen.js';
import { judgeText, STEP_TITLES } from './judge-screen.js';

const EXIT = { pass: 0, not_ended: 3, hard_fail: 4, not_verified: 5 } as const;

/** The step that is being judged, and a line for what takes long in it. */
function judgeScreen(): Screen {
  const step = new Progress({ label: 'judging', unit: 'steps' });
  const others = progressScreen();
  return {
    tell: (told: Told) => {
      const { stage, done } = told.data as { readonly stage: string; readonly done: number };
      if (stage !== 'judging') others.tell(told);
      else if (done < STEPS.length)
        step.begin(`step ${done + 1} of ${STEPS.length}: ${STEP_TITLES[STEPS[done]!.name]}`);
    },
    [Symbol.dispose]: () => {
      others[Symbol.dispose]();
      step[Symbol.dispose]();
    },
  };
}

function judgementText(
  found: Judgement,
  { run, target, trace }: { run: string; target: number; trace?: string | undefined },
  style: TerminalStyle,
): string {
  if (found.format === 'isopro.truth-judge.v1') return truthJudgementText(found, style);
  if (found.format !== 'isopro.judge.v1') return guardsJudgementText(found, style);
  const { trace: file, ...report } = found;
  const kept =
    file === null
      ? 'the run folder is not writable, so no trace was saved: give another file with --trace FILE\n'
      : `trace: ${file}\n${trace === undefined ? `next:  npx isopro-native report ${shellWord(run)}\n` : ''}`;
  return `${judgeText(report, target, style)}${kept}`;
}

export const judgeCommand = operationCommand(judge, {
  screen: judgeScreen,
  interrupted: ['the judge', 'Nothing was written. The same command starts over.'],
  text: judgementText,
  exitCode: ({ verdict }) => EXIT[verdict],
  epilogue:
    `No code from the run is executed. Exit codes: 0 passed, ${EXIT.not_ended} the run has not ended, ${EXIT.hard_fail} ` +
    `hard fail, ${EXIT.not_verified} nothing fails but not everything was measured and confirmed, 1 the judge could not run.`,
  examples: [
    ['$0 judge runs/3f2a --key witness.pub', "someone else's run, with the key that they publish"],
    [
      '$0 judge runs/3f2a --model qwen2.5-3b --held-out none',
      'everything but the evaluation: never a pass',
    ],
  ],
});
