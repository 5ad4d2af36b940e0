import { given as stated } from '../../given.js';
import { tellTruth } from '../../operations/truth/progress.js';
import { measureBeliefs } from '../../operations/gates/belief-guards.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import { shellWord } from '../../shell-word.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { defineCommand } from '../command.js';
import { interrupted, interruption, print, printJson, UsageError } from '../output.js';
import { progressScreen } from '../operation-command.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { readCount } from '../option.js';

const GENERATED = DOMAINS.filter(({ source }) => source === 'generated').map(({ id }) => id);

export const truthGuardsCommand = defineCommand({
  command: 'guards',
  describe:
    'Measure what an adapter of beliefs may not make worse, for a gate that was begun: both versions on the same fresh questions',
  builder: (yargs) =>
    yargs
      .option('gate', {
        type: 'number',
        requiresArg: true,
        demandOption: true,
        describe: 'number of an open gate (`adapters promote --open`)',
      })
      .option('domain', {
        choices: GENERATED,
        array: true,
        default: ['urns'],
        describe: 'questions, of the part that nothing trains on',
      })
      .option('problems', { type: 'number', default: 200, describe: 'of each domain' })
      .option('mode', {
        choices: ['direct', 'chain-of-thought'],
        default: 'chain-of-thought',
        describe: 'how it is reasoned',
      })
      .option('max-tokens', { type: 'number', default: 128, describe: 'tokens of a reply' })
      .option('model', {
        type: 'string',
        requiresArg: true,
        describe: 'the base',
        defaultDescription: 'by the name on record',
      })
      .option('out', {
        type: 'string',
        requiresArg: true,
        describe: 'folder of both runs and of evidence.json',
        defaultDescription: 'runs/guards-N',
      })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .option('signer', {
        choices: ['witness', 'single-process'] as const,
        default: 'witness' as const,
        describe: 'who vouches for the logs',
      })
      .option('registry', registryOption)
      .epilogue(
        'The same command goes on after an interruption. `judge FOLDER` derives every trial again.',
      )
      .example(
        '$0 truth guards --gate 3 --problems 200',
        'then: adapters promote … --gate 3 --evidence runs/guards-3/evidence.json',
      ),
  handler: async ({ gate: given, domain, mode, model, signer, registry, json, ...argv }) => {
    if (Array.isArray(given)) throw new UsageError('--gate is given more than once');
    const gate = readCount('gate', given, 1);
    const out = argv.out ?? `runs/guards-${gate}`;
    const signal = interruption();
    using screen = progressScreen();
    const found = await measureBeliefs(registryOf({ registry }), gate, out, {
      ...{
        domain: [...new Set(domain)],
        mode,
        problems: readCount('problems', argv.problems, 1),
        signer,
        signal,
      },
      ...{
        maxTokens: readCount('max-tokens', argv.maxTokens, 1),
        threads: readCount('threads', argv.threads, 0),
      },
      ...stated({ model }),
      onProgress: (_, progress) => tellTruth(screen.tell)(progress),
    }).catch((error: unknown) => {
      throw interrupted(
        error,
        'the measurement',
        'Nothing was lost: the same command goes on where it was.',
      );
    });
    screen[Symbol.dispose]();
    if (json) return printJson(found);
    const { counts, errors, evidence } = found;
    const lines = [
      ...Object.entries(counts).map(
        ([name, count]) => `${name.padEnd(16)}${count} trials, of both versions`,
      ),
      ...(errors === 0
        ? []
        : [
            `${errors} of them came to no figure: with those a gate is not decided. More questions, or other ones, have a slope.`,
          ]),
      `evidence: ${evidence}`,
      `next:     npx isopro-native adapters promote ADAPTER --as NAME --gate ${gate} --evidence ${shellWord(evidence)}`,
    ];
    const style = terminalStyle(process.stdout);
    print(`${lines.map((line) => wrapped(line, style, 10)).join('\n')}\n`);
  },
});
