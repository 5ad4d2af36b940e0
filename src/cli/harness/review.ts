import { harnessReview } from '../../operations/harness-review.js';
import { visible } from '../../visible-text.js';
import { operationCommand, progressScreen } from '../operation-command.js';
import { person } from '../run/person.js';

export const harnessReviewCommand = operationCommand(harnessReview, {
  interrupted: ['the review', 'What was reviewed is kept: the same command continues.'],
  screen: () => {
    const screen = progressScreen();
    const asked = person(process.stdin, process.stderr);
    return {
      ...screen,
      ask: asked.ask,
      [Symbol.dispose]: () => {
        asked.close();
        screen[Symbol.dispose]();
      },
    };
  },
  text: ({ folder, decisions, verdicts, scenarios, withoutQuestion }) =>
    [
      `${visible(folder)}: ${decisions} decisions, ${verdicts.gold} gold, ${verdicts.bad} bad, ${verdicts.skip} skipped`,
      `scenarios with their true history: ${scenarios}`,
      ...(withoutQuestion === 0
        ? []
        : [
            `gold decisions without a question in the log, which cannot be scenarios: ${withoutQuestion}`,
          ]),
      '',
    ].join('\n'),
  examples: [['$0 harness review runs/table', 'gold, bad or skip for each decision']],
});
