import { visible } from '../report/hostile-text.js';
import { terminalStyle, wrapped } from '../report/terminal-style.js';
import { digestOf, parts } from '../truth-seeking/domains/domain.js';
import { DOMAINS } from '../truth-seeking/domains/index.js';
import { questionText } from '../truth-seeking/modes/asking.js';
import { drawProblems } from '../truth-seeking/run/plan.js';
import { defineCommand } from './command.js';
import { printJson, UsageError } from './output.js';
import { readCount, readSeed } from './tasks-generate.js';

export const truthDomainsCommand = defineCommand({
  command: 'domains [domain]',
  describe: 'What there is to reason about; with a name, some of its problems',
  builder: (yargs) =>
    yargs
      .positional('domain', { type: 'string', describe: 'one of them' })
      .option('problems', { type: 'number', default: 2, describe: 'so many problems of it' })
      .option('split', { choices: ['train', 'test'] as const, default: 'test' as const, describe: 'part of it' })
      .option('seed', { type: 'string', default: '42', describe: '64-bit seed of the problems' })
      .example('$0 truth domains urns', 'two problems about urns'),
  handler: ({ domain, problems: count, split, seed, json }) => {
    const style = terminalStyle(process.stdout);
    if (domain === undefined) {
      const all = DOMAINS.map((each) => ({
        id: each.id,
        kind: each.kind,
        what: each.what,
        source: each.source,
        problems: each.source === 'written' ? { train: parts(each).train.length, test: parts(each).test.length } : null,
        sha256: digestOf(each),
      }));
      if (json) return printJson(all);
      for (const { id, what, problems } of all) {
        const size = problems === null ? 'generated' : `${problems.train} to train, ${problems.test} to test`;
        process.stdout.write(`${wrapped(`${id}: ${what} (${size})`, style, 2)}\n`);
      }
      return;
    }
    if (!DOMAINS.some(({ id }) => id === domain))
      throw new UsageError(`There is no domain ${visible(domain)}; there are ${DOMAINS.map(({ id }) => id).join(', ')}.`);
    const config = { seed: readSeed(seed).toString(), split, problems: readCount('problems', count, 1) };
    const drawn = drawProblems(domain, config);
    if (json) return printJson(drawn);
    process.stdout.write(
      `${drawn
        .map((problem) => {
          const right =
            problem.kind === 'open'
              ? 'answered in words'
              : problem.correctOption === null
                ? 'nobody knows'
                : problem.options[problem.correctOption];
          return `${questionText(problem)}\n-> ${right}\n`;
        })
        .join('\n')}`,
    );
  },
});
