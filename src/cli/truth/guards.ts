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
import { number, readCount, text } from '../option.js';
import { threads } from './flags.js';

const GENERATED = DOMAINS.filter(({ source }) => source === 'generated').map(({ id }) => id);

export const truthGuardsCommand = defineCommand({
  command: 'guards',
  describe:
    'Measure the belief guards of an open gate on both versions, with the same fresh questions',
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
        describe: 'domains of the questions; their test split is used',
      })
      .option('problems', number('questions per domain', 200))
      .option('mode', {
        choices: ['direct', 'chain-of-thought'],
        default: 'chain-of-thought',
        describe: 'reasoning mode',
      })
      .option('max-tokens', number('max tokens of a reply', 128))
      .option('model', { ...text('base model'), defaultDescription: 'by the name on record' })
      .option('out', {
        ...text('folder of both runs and of evidence.json'),
        defaultDescription: 'runs/guards-N',
      })
      .option('threads', threads)
      .option('signer', {
        choices: ['witness', 'single-process'] as const,
        default: 'witness' as const,
        describe: 'signer of the logs',
      })
      .option('registry', registryOption)
      .epilogue(
        'The same command continues after an interruption. `judge FOLDER` re-derives every trial.',
      )
      .example(
        '$0 truth guards --gate 3 --problems 200',
        'then run adapters promote … --gate 3 --evidence runs/guards-3/evidence.json',
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
        'Nothing was lost. The same command continues where it stopped.',
      );
    });
    screen[Symbol.dispose]();
    if (json) return printJson(found);
    const { counts, errors, evidence } = found;
    const lines = [
      ...Object.entries(counts).map(
        ([name, count]) => `${name.padEnd(16)}${count} trials of both versions`,
      ),
      ...(errors === 0
        ? []
        : [
            `${errors} of them have no figure, and a gate cannot be decided with them. Ask more questions, or different ones.`,
          ]),
      `evidence: ${evidence}`,
      `next:     npx isopro-native adapters promote ADAPTER --as NAME --gate ${gate} --evidence ${shellWord(evidence)}`,
    ];
    const style = terminalStyle(process.stdout);
    print(`${lines.map((line) => wrapped(line, style, 10)).join('\n')}\n`);
  },
});
