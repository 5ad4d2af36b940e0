import { nameAdapter } from '../../lookup/adapter-reference.js';
import { label } from '../../text/hostile-text.js';
import { painted, terminalStyle, wrapped } from '../../text/terminal-style.js';
import { codeVersion, machineClass } from '../../run-folder/machine.js';
import { digestOf } from '../../truth-seeking/domains/domain.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { domainId, Domains, isOwnDomain } from '../../truth-seeking/domains/user-domain.js';
import type { Interval } from '../../statistics/index.js';
import type { BinaryProblem } from '../../truth-seeking/problem.js';
import { openPolicies } from '../../truth-seeking/run/open-policies.js';
import { drawProblems } from '../../truth-seeking/run/plan.js';
import { labelProblems, type RightShare } from '../../truth-seeking/strategies/label-problems.js';
import { defineCommand } from '../command.js';
import { interrupted, interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { modelOption, readCount, readSeed } from '../option.js';

function shareText(share: (RightShare & Partial<Interval>) | null): string {
  if (share === null) return 'no answer is known';
  const { right, n, low, high } = share;
  const interval =
    low === undefined || high === undefined ? '' : ` (${low.toFixed(3)} to ${high.toFixed(3)})`;
  return `${right} of ${n} right, ${(right / n).toFixed(3)}${interval}`;
}

export const truthLabelsCommand = defineCommand({
  command: 'labels',
  describe:
    'Label the problems of a domain by a model alone: labels under which it finds each likeliest from the others',
  builder: (yargs) =>
    yargs
      .option('domain', {
        type: 'string',
        default: 'negation-pairs',
        requiresArg: true,
        describe: 'what is labelled: a domain with two options, or a file of one',
      })
      .option('model', modelOption)
      .option('adapter', {
        type: 'string',
        requiresArg: true,
        describe: 'LoRA adapter in GGUF on the model',
      })
      .option('problems', {
        type: 'number',
        default: 16,
        describe: 'so many problems; all the others stand before each',
      })
      .option('split', {
        choices: ['train', 'test'] as const,
        default: 'test' as const,
        describe: 'part of the domain',
      })
      .option('steps', { type: 'number', default: 64, describe: 'proposals of the annealing' })
      .option('start', { type: 'number', default: 8, describe: 'labels drawn at random before it' })
      .option('alpha', {
        type: 'number',
        default: 50,
        describe: 'weight of predictability, in nats, beside one contradiction',
      })
      .option('seed', {
        type: 'string',
        default: '42',
        describe: '64-bit seed of problems and search',
      })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .option('context-tokens', {
        type: 'number',
        requiresArg: true,
        describe: 'tokens of KV cache',
      })
      .option('registry', registryOption)
      .example(
        '$0 truth labels --domain negation-pairs --problems 16',
        'sixteen statements, by the embedded model',
      ),
  handler: async ({
    domain,
    model,
    adapter,
    split,
    json,
    alpha,
    contextTokens,
    registry,
    ...argv
  }) => {
    const repeated = Object.entries({ ...argv, domain, model, adapter }).find(
      ([name, value]) => name !== '_' && Array.isArray(value),
    );
    if (repeated !== undefined) throw new UsageError(`--${repeated[0]} is given more than once`);
    if (!isOwnDomain(domain) && !DOMAINS.some(({ id }) => id === domain))
      throw new UsageError(
        `There is no domain ${label(domain, 60)}; there are ${DOMAINS.map(({ id }) => id).join(', ')}.`,
      );
    if (!(alpha >= 0 && alpha <= 1e6))
      throw new UsageError(`--alpha: expected 0 to 1,000,000, got ${alpha}`);
    const seed = readSeed(argv.seed);
    const [steps, start] = [readCount('steps', argv.steps, 0), readCount('start', argv.start, 1)];
    const config = {
      seed: seed.toString(),
      split,
      problems: readCount('problems', argv.problems, 2),
    };
    const threads = readCount('threads', argv.threads, 0);
    const domains = new Domains([domain]);
    const id = domainId(domain);
    const problems = drawProblems(id, config, domains).filter(
      (each): each is BinaryProblem => each.kind === 'binary',
    );
    if (problems.length < 2)
      throw new UsageError(`--domain ${id}: its problems have no two options`);
    const signal = interruption();
    const file =
      adapter === undefined
        ? {}
        : { adapter: (await nameAdapter(adapter, registryOf({ registry }))).file };
    const room =
      contextTokens === undefined
        ? {}
        : { contextTokens: readCount('context-tokens', contextTokens, 128) };
    await using policies = await openPolicies(
      { policy: 'local', model, ...file, ...room, threads, seed: config.seed },
      { signal },
    );
    using progress = new Progress({ label: 'labels', unit: 'steps' });
    const onStep = (done: number): void => progress.update(done, { total: steps });
    const { labels, ...found } = await labelProblems(policies.evaluated, problems, {
      alpha,
      start,
      steps,
      seed,
      signal,
      onStep,
    }).catch((error: unknown) => {
      throw interrupted(
        error,
        'the search',
        'The same command begins again, and finds the same labels.',
      );
    });
    progress[Symbol.dispose]();
    if (json) {
      const { id: policyId, identity } = policies.evaluated;
      return printJson({
        domain: { id, sha256: digestOf(domains.named(id)), split },
        ...{ seed: config.seed, alpha, start, steps },
        policy: { id: policyId, identity },
        code: await codeVersion('beliefs'),
        machine: machineClass(),
        ...found,
        labels: problems.map(({ id: problem, question, options, correctOption }, i) => ({
          ...{ problem, question, options, label: labels[i]!, correctOption },
        })),
      });
    }
    const style = terminalStyle(process.stdout);
    const { utility, contradictions, accuracy, alone, evaluations } = found;
    const lines = problems.map(({ question, options, correctOption }, i) => {
      const own = labels[i] ?? null;
      const verdict =
        own === null || correctOption === null
          ? '     '
          : own === correctOption
            ? 'right'
            : 'wrong';
      return wrapped(
        `${verdict} ${own === null ? '-' : label(options[own], 20)}: ${label(question, 400)}`,
        style,
        6,
      );
    });
    print(
      [
        painted(
          `${id}: ${labels.filter((each) => each !== null).length} of ${problems.length} labelled`,
          'strong',
          style,
        ),
        ...lines,
        wrapped(`together: ${shareText(accuracy)}`, style, 2),
        wrapped(`alone:    ${shareText(alone)}`, style, 2),
        `U:        ${utility.toFixed(2)}, ${contradictions} contradiction${contradictions === 1 ? '' : 's'} left`,
        `asked:    ${evaluations} evaluations`,
        '',
      ].join('\n'),
    );
  },
});
