/**
 * Figures that the code makes, in the documentation: each stands there as the constant or the
 * function has it.
 */
import { readFileSync } from 'node:fs';
import { maxHeaderSize } from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { benchGate, CANDIDATES, EVERY, PROBLEMS } from '../../bench/gate.js';
import {
  GENERAL_PROMPTS,
  LEAST_PROMPTS,
  TOKENS_PER_PROMPT,
} from '../../src/evaluation/forgetting.js';
import { LARGEST_TEXT } from '../../src/files.js';
import { logDiscordant } from '../../src/gate/e-process.js';
import { alphaOf, decideRollback, gatePolicy } from '../../src/gate/index.js';
import { heldGuard } from '../../src/gate/means.js';
import { DEFAULT_POLICY_TIMEOUT } from '../../src/monitor/policy.js';
import { DEFAULT_RULES, PROFILE_PATIENCE } from '../../src/monitor/rules.js';
import { LEVEL } from '../../src/run-folder/comparison.js';
import { logScore } from '../../src/statistics/index.js';
import { LEAST_ROWS } from '../../src/tasks/data/read-rows.js';
import { LEAST_OF_TIER } from '../../src/tasks/data/split.js';
import { SET_SIZE } from '../../src/tasks/frozen-sets.js';
import { LEAST_MUTANTS } from '../../src/tasks/sql/generate.js';
import { MAX_REPLY_CHARACTERS } from '../../src/tasks/sql/reply.js';
import { MAX_ROWS } from '../../src/tasks/sql/results.js';
import { MAX_STATEMENT_CHARACTERS } from '../../src/tasks/sql/statement.js';
import { VERIFY_SECONDS } from '../../src/tasks/time-limit.js';
import { MAX_READINGS } from '../../src/tasks/verdict.js';
import { SMALL_BELOW } from '../../src/training/profile.js';
import { resolveSettings } from '../../src/training/settings.js';
import { BLOCK, CEILINGS } from '../../src/truth-seeking/training/guards.js';
import { NEW, OLD, scored } from '../models/gate-trials.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');

/** What the only declaration of a constant of a file's own says, in numbers alone. */
function constant(file: string, name: string): number {
  const declared = [
    ...read(file).matchAll(
      new RegExp(`^(?:export )?const ${name}(?:: number)? = ([\\d_.e*/+ -]+);`, 'gm'),
    ),
  ];
  if (declared.length !== 1) throw new Error(`${file} declares ${name} ${declared.length} times`);
  return Function(`return ${declared[0]![1]}`)() as number;
}

/** Of several constants of one file, in their order. */
const constants = (file: string, ...names: string[]): number[] =>
  names.map((name) => constant(file, name));
const numbersOf = (file: string, name: string): number[] =>
  JSON.parse(new RegExp(`const ${name} = (\\[[^\\]]*\\])`).exec(read(file))![1]!) as number[];

const WORDS = [
  'nought',
  'one',
  'two',
  'three',
  'four',
  'five',
  'six',
  'seven',
  'eight',
  'nine',
  'ten',
  'eleven',
  'twelve',
];
const MORE: Readonly<Record<string, number>> = {
  sixteenths: 16,
  twenty: 20,
  halved: 0.5,
  half: 0.5,
  quarter: 0.25,
  tenth: 0.1,
};
function numberOf(said: string): number {
  const word = said.toLowerCase();
  return WORDS.includes(word)
    ? WORDS.indexOf(word)
    : (MORE[word] ?? Number(said.replaceAll(',', '')));
}

const [E_PROCESS, SIGN, PAIRED_T] = [
  gatePolicy.parse({ kind: 'e-process' }),
  gatePolicy.parse({ kind: 'sign', margin: 0.1 }),
  gatePolicy.parse({ kind: 'paired-t' }),
] as const;
if (SIGN.kind !== 'sign' || PAIRED_T.kind !== 'paired-t')
  throw new Error('a policy is of another kind');
const percent = (part: number, digits = 0): number => Number((100 * part).toFixed(digits));
const eOf = (wins: number, losses: number): number =>
  Number(Math.exp(logDiscordant(wins, losses)).toFixed(1));
const seenAfter = (good: number): number =>
  decideRollback(
    NEW,
    OLD,
    scored([...new Array<number>(good).fill(0.5), ...new Array<number>(60).fill(-1)]),
  ).at! - good;
const safe = heldGuard(
  new Array(100).fill({ lane: 'confirmation', challenger: [1], incumbent: [1] }),
  { kind: 'safety', name: 'safety', margin: 0, least: 1 },
  LEVEL,
).statistic as { rateBelow: number };
const small = resolveSettings({ profile: 'small' });
const KIB = 2 ** 10;
const MIB = 2 ** 20;

/** A pattern with one group a figure, and what the code makes of each. */
type Row = readonly [document: string, pattern: RegExp, ...values: number[]];
const rows: Row[] = [
  [
    'concepts.md',
    /count more than (\S+) times as much as another's/,
    constant('src/statistics/change-of-mean.ts', 'MOST_UNLIKE'),
  ],
  ['concepts.md', /excludes 0 exactly where p is below ([\d.]+)/, LEVEL],
  [
    'concepts.md',
    /to (\d+) general prompts \((\d+) tokens of each reply/,
    GENERAL_PROMPTS,
    constant('src/evaluation/forgetting.ts', 'REPLY_TOKENS'),
  ],
  [
    'concepts.md',
    /a vocabulary of ([\d,]+) or more/,
    constant('src/training/settings.ts', 'LANGUAGE_VOCABULARY'),
  ],
  [
    'concepts.md',
    /one of the (\d+) prompts for every ([\d,]+) tokens/,
    GENERAL_PROMPTS,
    TOKENS_PER_PROMPT,
  ],
  ['concepts.md', /`maxTokens`\), and at least (\d+)/, LEAST_PROMPTS],
  [
    'concepts.md',
    /\(([\d.]+) nats by default for models under (\d+)M/,
    small.evaluation.maxForgetting!,
    SMALL_BELOW / 1e6,
  ],
  [
    'concepts.md',
    /the largest number of (sixteenths) of its full strength/,
    constant('src/evaluation/restraint.ts', 'PARTS'),
  ],
  [
    'concepts.md',
    /a thread of its own, (\d+) seconds a call/,
    constant('src/tasks/task-thread.ts', 'CALL_SECONDS'),
  ],
  [
    'gate.md',
    /\| E \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|/,
    ...[eOf(6, 0), eOf(7, 0), eOf(8, 0), eOf(15, 5), eOf(18, 5), eOf(20, 5)],
  ],
  [
    'gate.md',
    /first attempt has ([\d.]+) %, which needs E ≥ ([\d.]+):/,
    percent(alphaOf(E_PROCESS, 1), 1),
    Number((1 / alphaOf(E_PROCESS, 1)).toFixed(1)),
  ],
  ['gate.md', /second attempt has ([\d.]+) %/, percent(alphaOf(E_PROCESS, 2), 2)],
  ['gate.md', /within α = (\d+) %/, percent(E_PROCESS.alpha)],
  ['gate.md', /worse on none of 100 problems, this limit is (\d+) %\.\)/, percent(safe.rateBelow)],
  ['gate.md', /a fixed number of problems, set by `blocks` \((\d+)\)/, SIGN.blocks],
  ['gate.md', /`proposals` \((\d+)\)/, SIGN.proposals],
  [
    'gate.md',
    /trial: (\S+) to `screen` the challenger, (\d+) to (\d+) for the `confirmation`, and (\S+) `held-out`/,
    ...[PAIRED_T.screen, PAIRED_T.least, PAIRED_T.most, PAIRED_T.heldOut],
  ],
  ['gate.md', /level is divided by the (\S+) looks/, PAIRED_T.most - PAIRED_T.least + 1],
  ['gate.md', /α is (halved) with every attempt/, PAIRED_T.ratio],
  ['gate.md', /campaigns of (\S+) candidates,/, CANDIDATES],
  ['gate.md', /up to (\d+) fresh problems, with a look after every (\S+) \(/, PROBLEMS, EVERY],
  [
    'gate.md',
    /two versions differ on (\S+) problems in ten/,
    10 * constant('bench/gate.ts', 'DISCORDANT'),
  ],
  ['gate.md', /\*Clustered\*: (\S+) samples a problem/, constant('bench/gate.ts', 'SAMPLES')],
  [
    'gate.md',
    /\| effect \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|/,
    ...numbersOf('bench/gate.ts', 'POWER_PROBLEMS'),
  ],
  [
    'registry.md',
    /the clock is (\S+) minutes or more before/,
    constant('src/registry/ledger.ts', 'CLOCK_SLACK_US') / 60e6,
  ],
  ['own-data.md', /A file has at most (\d+) MiB/, LARGEST_TEXT / MIB],
  ['own-data.md', /may unpack to at most (\d+) MiB/, LARGEST_TEXT / MIB],
  [
    'own-data.md',
    /to at most ([\d,]+) times its compressed size/,
    constant('src/files.ts', 'MOST_TIMES'),
  ],
  [
    'own-data.md',
    /At least (\d+) rows, and (\d+) different questions a tier/,
    LEAST_ROWS,
    LEAST_OF_TIER,
  ],
  [
    'own-data.md',
    /test rows, but at most (\d+)\. The next tenth are dev rows, but at most (\d+)\./,
    SET_SIZE.test,
    SET_SIZE.dev,
  ],
  [
    'serve.md',
    /at most (\d+) levels deep and ([\d,]+) objects/,
    ...constants('src/json-shape.ts', 'DEEPEST', 'MOST_PLACES'),
  ],
  [
    'serve.md',
    /\| messages of a conversation \| ([\d,]+) \|/,
    constant('src/server/openai/requests.ts', 'MOST_MESSAGES'),
  ],
  [
    'serve.md',
    /\| parts of a message \| ([\d,]+) \|/,
    constant('src/engine/messages.ts', 'MOST_PARTS'),
  ],
  [
    'serve.md',
    /\| `logit_bias` \| ([\d,]+) tokens/,
    constant('src/server/openai/requests.ts', 'MOST_BIASES'),
  ],
  [
    'serve.md',
    /\| `metadata` \| (\d+) pairs/,
    constant('src/server/openai/requests.ts', 'MOST_PAIRS'),
  ],
  ['serve.md', /\| headers \| (\d+) kB; a request with more gets 431/, maxHeaderSize / KIB],
  [
    'serve.md',
    /all tools together \| ([\d,]+) characters, without descriptions/,
    constant('src/server/openai/requests.ts', 'LARGEST_SCHEMA'),
  ],
  ['serve.md', /A key has at least (\d+) characters/, constant('src/server/keys.ts', 'SHORTEST')],
  [
    'jobs.md',
    /A file can be at most (\d+) MiB/,
    constant('src/server/fine-tuning/file-routes.ts', 'LARGEST') / MIB,
  ],
  [
    'jobs.md',
    /all files of a key together at most (\d+) GiB/,
    constant('src/jobs/uploads.ts', 'MOST_BYTES') / KIB / MIB,
  ],
  [
    'python-task.md',
    /up to (\d+) kB for each Python process/,
    constant('src/tasks/python-process.ts', 'SHOWN_BYTES') / KIB,
  ],
  ['python-task.md', /at most 3600, default (\d+)/, VERIFY_SECONDS],
  [
    'python-task.md',
    /is (\d+) seconds for each call, and (\d+) seconds for loading/,
    ...constants('src/tasks/task-thread.ts', 'CALL_SECONDS', 'START_SECONDS'),
  ],
  [
    'own-model.md',
    /a range has at most ([\d,]+) members/,
    constant('src/engine/template/globals.ts', 'LONGEST_RANGE'),
  ],
  [
    'own-model.md',
    /samples for (\S+) seconds and .* a downloaded model for up to (\d+) seconds, as a small/,
    ...constants('src/training/dry-run.ts', 'SAMPLING_MS', 'CALIBRATING_MS').map((ms) => ms / 1000),
  ],
  [
    'own-model.md',
    / and trains for (\S+) seconds\. .* of (\d+) problems a tier\. Then/,
    constant('src/training/dry-run.ts', 'TRAINING_MS') / 1000,
    constant('src/training/dry-run.ts', 'CALIBRATED_PROBLEMS'),
  ],
  [
    'tasks.md',
    /A reply has at most ([\d,]+) characters, a statement ([\d,]+)\./,
    MAX_REPLY_CHARACTERS,
    MAX_STATEMENT_CHARACTERS,
  ],
  [
    'tasks.md',
    /(\S+) a second of CPU time, (\d+) MB or ([\d,]+) rows/,
    constant('src/tasks/sql/query-program.ts', 'MAX_CPU_SECONDS'),
    constant('src/tasks/sql/query-program.ts', 'MAX_MEMORY_BYTES') / MIB,
    MAX_ROWS,
  ],
  [
    'tasks.md',
    /may mention tables up to (\d+) times and nest parentheses (\d+) deep/,
    ...constants('src/tasks/sql/statement.ts', 'MAX_TABLES', 'MAX_DEPTH'),
  ],
  [
    'tasks.md',
    /A query is judged on (\S+) to (\S+) databases/,
    ...constants('src/tasks/sql/generate.ts', 'LEAST_DATABASES', 'MOST_DATABASES'),
  ],
  ['tasks.md', /At least (\S+) of those queries must each return something else/, LEAST_MUTANTS],
  [
    'tasks.md',
    /tries up to (\d+) further databases/,
    ...constants('src/tasks/sql/generate.ts', 'FURTHER_DATABASES'),
  ],
  [
    'tasks.md',
    /It stops after (\d+) draws/,
    ...constants('src/tasks/sql/generate.ts', 'MAX_DRAWS'),
  ],
  [
    'tasks.md',
    /numbers may differ by (\S+) of their size/,
    constant('src/tasks/sql/results.ts', 'TOLERANCE'),
  ],
  [
    'tasks.md',
    /have frozen sets of (\d+) test and (\d+) dev problems a tier/,
    SET_SIZE.test,
    SET_SIZE.dev,
  ],
  ['tasks.md', /(\d+) problems of a tier are kept for evaluation/, SET_SIZE.test + SET_SIZE.dev],
  ['tasks.md', /finished or not, at most (\d+); separates skill from format/, MAX_READINGS],
  [
    'tasks.md',
    /a limit of (\d+) seconds a call \((\d+) for loading it\) and (\d+) MB/,
    ...constants('src/tasks/task-thread.ts', 'CALL_SECONDS', 'START_SECONDS', 'MEMORY_LIMIT_MB'),
  ],
  [
    'tasks.md',
    /was given to what happened, at least (\S+) \(so at most ([\d.]+)\)/,
    constant('src/statistics/measures.ts', 'LEAST_PROBABILITY'),
    Number(logScore({ probability: 0, outcome: true }).toFixed(1)),
  ],
  [
    'tasks.md',
    /for about (\d+) passing replies in each iteration, and at most (\d+)/,
    ...constants('src/evaluation/calibration.ts', 'ACCEPTED', 'MOST_ROLLOUTS'),
  ],
  [
    'tasks.md',
    /`--allocation-floor ([\d.]+)` where/,
    ...constants('src/evaluation/calibration.ts', 'LOW_FLOOR'),
  ],
  ['monitor.md', /compatible with a gain of `minGain` = (\d+\.\d+)/, DEFAULT_RULES.r3.minGain],
  ['monitor.md', /score below -`z` = -([\d.]+)/, DEFAULT_RULES.r3.z],
  ['monitor.md', /the objective is below its target \(([\d.]+)\)/, DEFAULT_RULES.objectiveTarget],
  ['monitor.md', /logarithms are averaged with factor ([\d.]+),/, DEFAULT_RULES.alpha],
  [
    'monitor.md',
    /at most a quarter of the first (\d+) steps were clipped/,
    DEFAULT_RULES.r7.zWarmupSteps,
  ],
  [
    'monitor.md',
    /BA = 0, fewer than (\d+) steps, or no informative group \|\n\| R6/,
    DEFAULT_RULES.r5.minSteps,
  ],
  [
    'monitor.md',
    /BA = 0, fewer than (\d+) steps, or no informative group \|\n\| R7/,
    DEFAULT_RULES.r6.minSteps,
  ],
  [
    'monitor.md',
    /\| R3 \| no gain \| (\d+) \| (\d+) \|/,
    PROFILE_PATIENCE.downloaded,
    PROFILE_PATIENCE.embedded,
  ],
  ['monitor.md', /\(`policyTimeout`, ([\d,]+) by/, DEFAULT_POLICY_TIMEOUT],
  ['commands/run.md', /\| below ([\d.]+) \| up \| a gain \|/, LEVEL],
  ['commands/run.md', /\| below ([\d.]+) \| down \| "Got worse" \|/, LEVEL],
  ['commands/report.md', /beyond chance \(p below ([\d.]+)\)/, LEVEL],
  [
    'truth-results.md',
    /and wide: (\S+) problems a domain/,
    constant('scripts/truth-experiments.mjs', 'PROBLEMS'),
  ],
  ['commands/truth.md', /of each block of (\S+) questions/, BLOCK],
  ['commands/truth.md', /on either side \| (\d+) \|/, CEILINGS.slope],
];

/** Lines of a document are no ends of sentences, but rows of a table are lines. */
const joined = (text: string): string => text.replace(/(?<!\|)\n(?![\n|])\s*/g, ' ');

test.each(rows)('docs/%s: %s', (document, pattern, ...values) => {
  const found = [...joined(read(path.join('docs', document))).matchAll(new RegExp(pattern, 'g'))];
  expect(found).toHaveLength(1);
  const said = found[0]!.slice(1).map(numberOf);
  // as parts of what it ought to be: some are far below 1
  expect(said.map((value, i) => value / values[i]!)).toEqual(
    values.map(() => expect.closeTo(1, 12)),
  );
});

test('at least 40 figures are held against the code', () => {
  expect(rows.flatMap(([, , ...values]) => values).length).toBeGreaterThanOrEqual(40);
});

describe('figures that take a calculation', () => {
  test('docs/gate.md: wins that reach the first threshold, and the bound of the campaigns', () => {
    const text = joined(read('docs/gate.md'));
    const [, reaches, not] = /(\d)-0 reaches it and (\d)-0 does not/.exec(text)!.map(Number) as [
      number,
      number,
      number,
    ];
    const threshold = 1 / alphaOf(E_PROCESS, 1);
    expect([eOf(reaches, 0) >= threshold, eOf(not, 0) < threshold]).toEqual([true, true]);
    const [, campaigns] = /([\d,]+) campaigns of/.exec(text)!;
    const { bound } = benchGate({ campaigns: 1, seed: 0n });
    const of = E_PROCESS.alpha + (bound - E_PROCESS.alpha) / Math.sqrt(numberOf(campaigns!));
    expect(text).toContain(`α + 3σ = ${(100 * of).toFixed(1)} %`);
  });

  test('docs/gate.md: the watch sees scores of 0 in place of 1 in so many problems', () => {
    const [, atOnce, later] =
      /reacts within (\S+) problems, or within (\d+) if 200 good ones came first/.exec(
        joined(read('docs/gate.md')),
      )!;
    expect(seenAfter(0)).toBeLessThanOrEqual(numberOf(atOnce!));
    expect(seenAfter(200)).toBeLessThanOrEqual(numberOf(later!));
  });
});
