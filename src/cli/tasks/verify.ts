import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { readLines, requireTarget } from '../../files.js';
import { summarise, type Outcome } from '../../statistics/index.js';
import { openTask } from '../../tasks/open-task.js';
import { verifyRecords } from '../../tasks/verify-records.js';
import { note } from '../adapter-notes.js';
import { jsonText, print, write } from '../output.js';
import { askingFlags, openedWith, taskOption } from './opening.js';
import { command } from '../command.js';
import { text, toggle } from '../option.js';

const percent = (fraction: number): string => (100 * fraction).toFixed(1);

/** Lines, each told of before it is handed on. */
async function* remembering(
  lines: AsyncIterable<string>,
  tell: (line: string) => void,
): AsyncGenerator<string, void> {
  for await (const line of lines) {
    tell(line);
    yield line;
  }
}

/** A reply that passes as a line of examples. @throws IsoproError INVALID_ARGUMENT */
function exampleOf(line: string, number: number): string {
  const { prompt, text: reply } = JSON.parse(line) as {
    readonly prompt?: { readonly messages?: readonly object[] };
    readonly text: string;
  };
  if (!Array.isArray(prompt?.messages))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `line ${number} has no prompt.messages, which --accepted needs`,
      { remedy: 'Use replies as `generate` writes them, or leave out --accepted.' },
    );
  return `${jsonText({ messages: [...prompt.messages, { role: 'assistant', content: reply }] })}\n`;
}

export const tasksVerifyCommand = command({
  command: 'verify [file]',
  describe: 'Judge replies: JSON lines {problem | problemId, text, finish?} in, verdicts out',
  positionals: { file: { type: 'string', describe: 'JSON lines file; default: standard input' } },
  options: {
    task: taskOption,
    ...askingFlags,
    grade: toggle('also compare with the optimum (may start the solver)'),
    trace: toggle('also report claims in the reasoning that the problem contradicts'),
    feedback: toggle('also print the feedback for a next turn'),
    accepted: text(
      'JSONL file for the replies that pass, with their prompts, as examples that `train` reads',
    ),
  },
  epilogue: 'Exit codes: 0 every line was judged, 1 a line could not be judged.',
  examples: [
    ['$0 tasks verify replies.jsonl --json > verdicts.jsonl', 'one verdict per line'],
    ['$0 tasks verify replies.jsonl --accepted examples.jsonl', 'examples to train on'],
  ],
  handler: async ({ file, task: specifier, grade, trace, feedback, accepted, json, ...flags }) => {
    if (accepted !== undefined) requireTarget(accepted);
    const examples: string[] = [];
    let line = '';
    const lines = remembering(readLines(file ?? '-'), (read) => (line = read));
    await using task = await openTask(specifier, openedWith(flags));
    const outcomes: Outcome[] = [];
    let unjudged = 0;
    for await (const record of verifyRecords(task, lines, { grade, trace, feedback })) {
      if ('error' in record) {
        process.exitCode = 1;
        unjudged++;
      } else outcomes.push({ tier: record.tier, kind: record.kind });
      if (accepted !== undefined && 'kind' in record && record.kind === 'pass')
        examples.push(exampleOf(line, record.line));
      if (json) await write(`${jsonText(record)}\n`);
      else if ('error' in record) print(`error ${record.error.code}: ${record.error.message}\n`);
      else {
        const grades = Object.entries(record.grades ?? {}).map(([name, kind]) => `${name} ${kind}`);
        print(
          `${[`line ${record.line}`, record.tier, record.problemId.slice(0, 12), record.kind, ...grades].join('  ')}\n`,
        );
        for (const { category, detail } of record.violations) print(`    ${category}: ${detail}\n`);
        for (const { category, excerpt, actual } of record.trace ?? [])
          print(`    reasoning, ${category}: "${excerpt}", but ${actual}\n`);
        if (record.reason !== undefined) print(`    ${record.reason}\n`);
        if (record.feedback !== undefined) print(`${record.feedback.replace(/^/gm, '    > ')}\n`);
      }
    }
    if (accepted !== undefined) {
      await writeFileAtomically(accepted, [Buffer.from(examples.join(''))]);
      note(`${examples.length} replies that pass are in ${accepted}.`);
    }
    const known = outcomes.filter(({ tier }) => task.tiers.some(({ id }) => id === tier));
    if (json || known.length === 0) return;
    const { mean, low, high, n, none } = summarise(known, task.tiers, { seed: 0n });
    print(
      `\n${n} verdicts, ${none} undecided${unjudged === 0 ? '' : `, ${unjudged} lines that could not be judged`}; mean over tiers ` +
        `${mean === null ? '-' : `${percent(mean)} % (${percent(low)} to ${percent(high)})`}\n`,
    );
  },
});
