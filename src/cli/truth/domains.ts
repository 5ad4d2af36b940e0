import { given } from '../../given.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import { digestOf, parts } from '../../truth-seeking/domains/domain.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import {
  domainId,
  Domains,
  importDomain,
  IMPORTERS,
  IMPORT_KINDS,
} from '../../truth-seeking/domains/user-domain.js';
import { PEER_REVIEW_PARTS } from '../../truth-seeking/domains/peer-reviews.js';
import { questionText } from '../../truth-seeking/modes/asking.js';
import type { Problem } from '../../truth-seeking/problem.js';
import { drawProblems } from '../../truth-seeking/run/plan.js';
import { defineCommand } from '../command.js';
import { print, printJson, UsageError } from '../output.js';
import { number, readCount, readSeed, text } from '../option.js';
import { requireDomain, split } from './flags.js';

/** Every domain that comes with the package. */
const listed = () =>
  DOMAINS.map((each) => {
    const { id, kind, what, source } = each;
    const both = each.source === 'written' ? parts(each) : null;
    const problems = both && { train: both.train.length, test: both.test.length };
    return { id, kind, what, source, problems, sha256: digestOf(each) };
  });

function answerText(problem: Problem): string {
  if (problem.kind === 'open') return 'a free-text answer';
  return problem.correctOption === null
    ? 'no known answer'
    : problem.options[problem.correctOption];
}

export const truthDomainsCommand = defineCommand({
  command: 'domains [domain]',
  describe: 'List the domains to reason about, or show problems of one',
  builder: (yargs) =>
    yargs
      .positional('domain', {
        type: 'string',
        describe: 'domain name or domain file; with --import: the JSON lines file to read',
      })
      .option('import', { choices: IMPORT_KINDS, describe: 'make a domain from your own rows' })
      .option('out', text('--import: file to write, NAME.json, for `truth run --domain`'))
      .option('licence', text('--import: licence terms of the rows'))
      .option('cutoff', text("forecasting: when the model's training data ends"))
      .option('venue', {
        ...text('peer-reviews: prefix of the venue name'),
        defaultDescription: 'ICLR',
      })
      .option('hide', {
        choices: PEER_REVIEW_PARTS,
        array: true,
        describe: 'peer-reviews: parts to hide',
      })
      .option('share', { ...number('discussions: share to keep'), defaultDescription: '0.2' })
      .option('language', text('conversations: keep only this language'))
      .option('longest', number('--import: maximum number of characters of a question'))
      .option('problems', number('number of problems to show', 2))
      .option('split', split('split to draw from'))
      .option('seed', { type: 'string', default: '42', describe: '64-bit seed of the problems' })
      .example('$0 truth domains urns', 'two problems about urns')
      .example(
        '$0 truth domains rows.jsonl --import forecasting --cutoff 2024-06-01 --licence own --out events.json',
        'make a domain from your own rows',
      )
      .epilogue(
        `Rows by kind:\n${IMPORT_KINDS.map((kind) => `  ${kind}  ${IMPORTERS[kind].what}`).join('\n')}`,
      ),
  handler: async ({ domain, problems: count, split, seed, json, import: kind, ...flags }) => {
    if (kind !== undefined) {
      const { out, licence, cutoff, venue, hide, share, language, longest } = flags;
      if (domain === undefined) throw new UsageError('--import: name the file with the rows');
      if (out === undefined) throw new UsageError('--out: name the file of the domain');
      if (licence === undefined)
        throw new UsageError('--licence: state the licence terms of the rows');
      const options = given({ licence, cutoff, venue, hide, share, language, longest });
      const { problems, ...found } = await importDomain(kind, domain, out, options);
      if (json) return printJson({ ...found, problems: problems.length });
      const passed = Object.entries(found.skipped).map(([reason, n]) => `${n} ${reason}`);
      const leftOut = passed.length === 0 ? '' : `; left out: ${passed.join(', ')}`;
      return print(`${out}: ${problems.length} problems${leftOut}\n`);
    }
    if (domain === undefined) {
      const style = terminalStyle(process.stdout);
      if (json) return printJson(listed());
      for (const { id, what, problems } of listed()) {
        const size =
          problems === null ? 'generated' : `${problems.train} to train, ${problems.test} to test`;
        print(`${wrapped(`${id}: ${what} (${size})`, style, 2)}\n`);
      }
      return;
    }
    requireDomain(domain);
    const config = {
      seed: readSeed(seed).toString(),
      split,
      problems: readCount('problems', count, 1),
    };
    const drawn = drawProblems(domainId(domain), config, new Domains([domain]));
    if (json) return printJson(drawn);
    const texts = drawn.map((each) => `${questionText(each)}\n-> ${answerText(each)}\n`);
    print(texts.join('\n'));
  },
});
