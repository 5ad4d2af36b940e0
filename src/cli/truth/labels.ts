import { given } from '../../given.js';
import { nameAdapter } from '../../lookup/adapter-reference.js';
import { label } from '../../text/hostile-text.js';
import { painted, terminalStyle, wrapped } from '../../text/terminal-style.js';
import { codeVersion, machineClass } from '../../run-folder/machine.js';
import { digestOf } from '../../truth-seeking/domains/domain.js';
import { domainId, Domains } from '../../truth-seeking/domains/user-domain.js';
import type { Interval } from '../../statistics/index.js';
import type { Reasoner } from '../../truth-seeking/reasoner.js';
import type { BinaryProblem } from '../../truth-seeking/problem.js';
import { openReasoners } from '../../truth-seeking/run/open-reasoners.js';
import { computing } from '../../truth-seeking/run/reasoners.js';
import { drawProblems } from '../../truth-seeking/run/plan.js';
import {
  labelProblems,
  type FoundLabels,
  type LabelOptions,
  type RightShare,
} from '../../truth-seeking/strategies/label-problems.js';
import { defineCommand } from '../command.js';
import { interrupted, interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { modelOption, number, readCount, readSeed, text } from '../option.js';
import { readGivenCount, requireDomain, split, threads } from './flags.js';

function shareText(share: (RightShare & Partial<Interval>) | null): string {
  if (share === null) return 'no known answers';
  const { right, n, low, high } = share;
  const interval =
    low === undefined || high === undefined ? '' : ` (${low.toFixed(3)} to ${high.toFixed(3)})`;
  return `${right} of ${n} right, ${(right / n).toFixed(3)}${interval}`;
}

/** The search, with a line of its progress. */
async function searched(
  policy: Reasoner,
  problems: readonly BinaryProblem[],
  options: LabelOptions & { readonly steps: number },
): Promise<FoundLabels> {
  using progress = new Progress({ label: 'labels', unit: 'steps' });
  const onStep = (done: number): void => progress.update(done, { total: options.steps });
  return labelProblems(policy, problems, { ...options, onStep }).catch((error: unknown) => {
    throw interrupted(
      error,
      'the search',
      'The same command restarts the search and finds the same labels.',
    );
  });
}

function labelsText(
  domain: string,
  problems: readonly BinaryProblem[],
  { labels, utility, contradictions, accuracy, alone, evaluations }: FoundLabels,
): string {
  const style = terminalStyle(process.stdout);
  const lines = problems.map(({ question, options, correctOption }, i) => {
    const own = labels[i] ?? null;
    const isKnown = own !== null && correctOption !== null;
    const verdict = own === correctOption ? 'right' : 'wrong';
    const said = own === null ? '-' : label(options[own], 20);
    return wrapped(`${isKnown ? verdict : '     '} ${said}: ${label(question, 400)}`, style, 6);
  });
  const labelled = labels.filter((each) => each !== null).length;
  return [
    painted(`${domain}: ${labelled} of ${problems.length} labelled`, 'strong', style),
    ...lines,
    wrapped(`together: ${shareText(accuracy)}`, style, 2),
    wrapped(`alone:    ${shareText(alone)}`, style, 2),
    `U:        ${utility.toFixed(2)}, ${contradictions} contradiction${contradictions === 1 ? '' : 's'} left`,
    `asked:    ${evaluations} evaluations`,
    '',
  ].join('\n');
}

export const truthLabelsCommand = defineCommand({
  command: 'labels',
  describe: 'Label problems with a model alone, by the labels that best predict each other',
  builder: (yargs) =>
    yargs
      .option('domain', {
        type: 'string',
        default: 'negation-pairs',
        requiresArg: true,
        describe: 'domain of two-option questions to label, or its file',
      })
      .option('model', modelOption)
      .option('adapter', text('LoRA adapter in GGUF for the model'))
      .option(
        'problems',
        number('number of problems; each is asked with all others as context', 16),
      )
      .option('split', split('split of the domain'))
      .option('steps', number('annealing steps', 64))
      .option('start', number('labels drawn at random before the search', 8))
      .option('alpha', number('weight of one nat of predictability against one contradiction', 50))
      .option('seed', {
        type: 'string',
        default: '42',
        describe: '64-bit seed of problems and search',
      })
      .option('threads', threads)
      .option('context-tokens', number('tokens of KV cache'))
      .option('registry', registryOption)
      .example(
        '$0 truth labels --domain negation-pairs --problems 16',
        'label sixteen statements with the embedded model',
      ),
  handler: async ({ domain, model, adapter, split, json, alpha, registry, ...argv }) => {
    const repeated = Object.entries({ ...argv, domain, model, adapter }).find(
      ([name, value]) => name !== '_' && Array.isArray(value),
    );
    if (repeated !== undefined) throw new UsageError(`--${repeated[0]} is given more than once`);
    requireDomain(domain);
    if (!(alpha >= 0 && alpha <= 1e6))
      throw new UsageError(`--alpha: expected 0 to 1,000,000, got ${alpha}`);
    const seed = readSeed(argv.seed);
    const [steps, start] = [readCount('steps', argv.steps, 0), readCount('start', argv.start, 1)];
    const count = readCount('problems', argv.problems, 2);
    const threads = readCount('threads', argv.threads, 0);
    const domains = new Domains([domain]);
    const id = domainId(domain);
    const config = { seed: seed.toString(), split, problems: count };
    const problems = drawProblems(id, config, domains).filter((each) => each.kind === 'binary');
    if (problems.length < 2)
      throw new UsageError(`--domain ${id}: needs at least two problems with two options`);
    const signal = interruption();
    const contextTokens = readGivenCount('context-tokens', argv.contextTokens, 128);
    const named =
      adapter === undefined ? null : await nameAdapter(adapter, registryOf({ registry }));
    await using policies = await openReasoners(
      {
        ...{ policy: 'local', model, threads, seed: config.seed },
        ...given({ adapter: named?.file, contextTokens }),
      },
      { signal },
    );
    const search = { alpha, start, steps };
    const found = await searched(policies.evaluated, problems, { ...search, seed, signal });
    if (!json) return print(labelsText(id, problems, found));
    const { labels, ...figures } = found;
    const { id: policyId, identity } = policies.evaluated;
    printJson({
      domain: { id, sha256: digestOf(domains.named(id)), split },
      ...{ seed: config.seed, ...search },
      policy: { id: policyId, identity },
      code: await codeVersion('beliefs'),
      machine: machineClass(computing(policies)),
      ...figures,
      labels: problems.map(({ id: problem, question, options, correctOption }, i) => ({
        ...{ problem, question, options, label: labels[i]!, correctOption },
      })),
    });
  },
});
