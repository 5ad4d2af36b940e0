import { visible } from '../../visible-text.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import { digestOf, parts } from '../../truth-seeking/domains/domain.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import {
  domainId,
  Domains,
  importDomain,
  IMPORTERS,
  IMPORT_KINDS,
  isOwnDomain,
  type OwnImport,
} from '../../truth-seeking/domains/user-domain.js';
import { PEER_REVIEW_PARTS } from '../../truth-seeking/domains/peer-reviews.js';
import { questionText } from '../../truth-seeking/modes/asking.js';
import { drawProblems } from '../../truth-seeking/run/plan.js';
import { defineCommand } from '../command.js';
import { print, printJson, UsageError } from '../output.js';
import { readCount, readSeed } from '../option.js';

/** Options that were given. */
const withoutMissing = (options: object): OwnImport =>
  Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as unknown as OwnImport;

export const truthDomainsCommand = defineCommand({
  command: 'domains [domain]',
  describe: 'What there is to reason about; with a name, some of its problems',
  builder: (yargs) =>
    yargs
      .positional('domain', {
        type: 'string',
        describe: 'one of them, or a file of one; with --import the rows, JSON lines',
      })
      .option('import', { choices: IMPORT_KINDS, describe: 'make a domain of rows of yours' })
      .option('out', {
        type: 'string',
        requiresArg: true,
        describe: '--import: the file to write, NAME.json, which `truth run --domain` takes',
      })
      .option('licence', {
        type: 'string',
        requiresArg: true,
        describe: '--import: under which terms you may use the rows',
      })
      .option('cutoff', {
        type: 'string',
        requiresArg: true,
        describe: "forecasting: when the model's training data ends",
      })
      .option('venue', {
        type: 'string',
        requiresArg: true,
        describe: 'peer-reviews: whose name begins so',
        defaultDescription: 'ICLR',
      })
      .option('hide', {
        choices: PEER_REVIEW_PARTS,
        array: true,
        describe: 'peer-reviews: what is not shown',
      })
      .option('share', {
        type: 'number',
        requiresArg: true,
        describe: 'discussions: part that is kept',
        defaultDescription: '0.2',
      })
      .option('language', {
        type: 'string',
        requiresArg: true,
        describe: 'conversations: in this one alone',
      })
      .option('longest', {
        type: 'number',
        requiresArg: true,
        describe: '--import: characters of a question, at most',
      })
      .option('problems', { type: 'number', default: 2, describe: 'so many problems of it' })
      .option('split', {
        choices: ['train', 'test'] as const,
        default: 'test' as const,
        describe: 'part of it',
      })
      .option('seed', { type: 'string', default: '42', describe: '64-bit seed of the problems' })
      .example('$0 truth domains urns', 'two problems about urns')
      .example(
        '$0 truth domains rows.jsonl --import forecasting --cutoff 2024-06-01 --licence own --out events.json',
        'a domain of your own',
      )
      .epilogue(
        `Rows by kind:\n${IMPORT_KINDS.map((kind) => `  ${kind}  ${IMPORTERS[kind].what}`).join('\n')}`,
      ),
  handler: async ({ domain, problems: count, split, seed, json, import: kind, ...flags }) => {
    const style = terminalStyle(process.stdout);
    if (kind !== undefined) {
      const { out, licence, cutoff, venue, hide, share, language, longest } = flags;
      if (domain === undefined) throw new UsageError('--import: name the file with the rows');
      if (out === undefined) throw new UsageError('--out: name the file of the domain');
      if (licence === undefined)
        throw new UsageError('--licence: say under which terms you may use the rows');
      const options = { licence, cutoff, venue, hide, share, language, longest };
      const { problems, ...found } = await importDomain(kind, domain, out, withoutMissing(options));
      if (json) return printJson({ ...found, problems: problems.length });
      const passed = Object.entries(found.skipped).map(([reason, n]) => `${n} ${reason}`);
      print(
        `${out}: ${problems.length} problems${passed.length === 0 ? '' : `; left out: ${passed.join(', ')}`}\n`,
      );
      return;
    }
    if (domain === undefined) {
      const all = DOMAINS.map((each) => ({
        id: each.id,
        kind: each.kind,
        what: each.what,
        source: each.source,
        problems:
          each.source === 'written'
            ? { train: parts(each).train.length, test: parts(each).test.length }
            : null,
        sha256: digestOf(each),
      }));
      if (json) return printJson(all);
      for (const { id, what, problems } of all) {
        const size =
          problems === null ? 'generated' : `${problems.train} to train, ${problems.test} to test`;
        print(`${wrapped(`${id}: ${what} (${size})`, style, 2)}\n`);
      }
      return;
    }
    if (!isOwnDomain(domain) && !DOMAINS.some(({ id }) => id === domain))
      throw new UsageError(
        `There is no domain ${visible(domain)}; there are ${DOMAINS.map(({ id }) => id).join(', ')}.`,
      );
    const config = {
      seed: readSeed(seed).toString(),
      split,
      problems: readCount('problems', count, 1),
    };
    const drawn = drawProblems(domainId(domain), config, new Domains([domain]));
    if (json) return printJson(drawn);
    print(
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
