/** A scenario as a task: a seed is a problem, a strategy is an answer. */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { Random } from '../../random.js';
import { exploitCases, policyRandom, readContent, type ExploitRow } from '../built-in.js';
import type { FlatObject } from '../flat-object.js';
import { problemId } from '../problem-id.js';
import type {
  ChatMessage,
  ExploitCase,
  Problem,
  PromptStyle,
  SynchronousTask,
  Verdict,
} from '../task.js';
import { findTier } from '../tier.js';
import { failed, undecided } from '../verdict.js';
import { readScenario, resolvePrompt, type Scenario } from './document.js';
import { checkStrategy, type Draw, drawSeed, scoreStrategy } from './score.js';
import { bestConstant, gridSearch, randomStrategy } from './search.js';
import { testScenario } from './self-test.js';
import { parseLastObject, readObjectsLeniently } from './strategy-text.js';

export interface ScenarioProblem extends Problem {
  readonly task: string;
  /** From it the generator of the scenario draws environment and noise; at most 2^53 - 1. */
  readonly seed: number;
  /** The environment, by name. */
  readonly observation: Readonly<Record<string, number>>;
}

export type ScenarioTask = SynchronousTask<ScenarioProblem, FlatObject>;

const TIER = 'match';
const MOST_DRAWS = 1_000;

const problemOf = (scenario: Scenario, seed: number): ScenarioProblem => {
  const content = {
    task: scenario.document.id,
    tier: TIER,
    seed,
    observation: drawSeed(scenario, seed).environment,
  };
  return { id: problemId(content), ...content };
};

/** The first seed of the stream in which some strategy of the grid passes, noise included. */
export function drawScenarioProblem(scenario: Scenario, random: Random): ScenarioProblem {
  const { id, score } = scenario.document;
  for (let drawn = 0; drawn < MOST_DRAWS; drawn++) {
    const seed = random.nextInteger(0, 2 ** 32 - 1);
    if (gridSearch(scenario, drawSeed(scenario, seed)).score >= score.passes)
      return problemOf(scenario, seed);
  }
  throw new IsoproError(
    'TASK_INVALID',
    `scenario ${id}: ${MOST_DRAWS} seeds in a row gave no problem that can be passed`,
  );
}

const problemShape = z.object({
  id: z.string().optional(),
  task: z.string(),
  tier: z.literal(TIER),
  seed: z.int().min(0),
  observation: z.record(z.string(), z.number()),
});

/**
 * Checks a problem that came from outside: shape, and that observation and `id`, where given, are
 * what the seed draws.
 * @throws IsoproError PROBLEM_INVALID
 */
export function readScenarioProblem(scenario: Scenario, value: unknown): ScenarioProblem {
  const { id } = scenario.document;
  const read = readContent(`a problem of ${id}`, id, problemShape, value, (content, invalid) => {
    if (problemId(content) !== problemOf(scenario, content.seed).id)
      invalid('its observation does not match its seed');
  });
  return problemOf(scenario, read.seed);
}

function promptOf(
  { document: { texts } }: Scenario,
  { observation }: ScenarioProblem,
  style: PromptStyle,
): ChatMessage[] {
  const observed = Object.entries(observation).map(([name, value]) => `${name}: ${value}`);
  const last =
    style === 'cot'
      ? 'You may think first. The last JSON object of the reply counts.'
      : 'Reply with the JSON object and nothing else.';
  return [
    {
      role: 'user',
      content: [
        resolvePrompt(texts),
        ...(observed.length === 0 ? [] : ['Observation:', ...observed]),
        last,
      ].join('\n'),
    },
  ];
}

/** Valid is what has a score; it passes from the document's score on. */
function verifyStrategy(scenario: Scenario, draw: () => Draw, answer: FlatObject): Verdict {
  const checked = checkStrategy(scenario, answer);
  if (!checked.ok) return failed(checked.category, checked.detail);
  const scored = scoreStrategy(scenario, draw(), checked.strategy);
  if (scored === null) return undecided('the score is not a number');
  const { score, components: metrics } = scored;
  const { passes } = scenario.document.score;
  if (score >= passes) return { kind: 'pass', violations: [], metrics, score };
  const detail = `The score is ${score}; an answer passes from ${passes} on.`;
  return {
    kind: 'fail',
    violations: [{ category: 'score', jobs: [], amount: passes - score, detail }],
    metrics,
    score,
  };
}

/** One line of JSON with the parameters in their order. */
function grammarOf({ document: { parameters } }: Scenario): string {
  const unit = parameters.every(({ low, high }) => low >= 0 && high <= 1);
  const number = unit
    ? '"0" ("." [0-9]{1,3})? | "1" (".0")?'
    : '"-"? ("0" | [1-9] [0-9]{0,6}) ("." [0-9]{1,6})?';
  const members = parameters.map(({ name }) => String.raw`"\"${name}\": " number`).join(' ", " ');
  return `root ::= "{" ${members} "}"\nnumber ::= ${number}\n`;
}

function exploitsOf(scenario: Scenario, problem: ScenarioProblem): ExploitCase<ScenarioProblem>[] {
  const { strategy } = gridSearch(scenario, drawSeed(scenario, problem.seed));
  const [[name, value], ...rest] = Object.entries(strategy) as [
    [string, number],
    ...[string, number][],
  ];
  const others = rest.map(([key, number]) => `, "${key}": ${number}`).join('');
  const object = (first: string): string => `{"${name}": ${first}${others}}`;
  const cases: ExploitRow[] = [
    ...[
      'NaN',
      'Infinity',
      '-Infinity',
      '1e309',
      'true',
      'null',
      `"${value}"`,
      `[${value}]`,
      '',
      '0x1',
      '.5',
      '+1',
      '1_0',
      '1,0',
    ].map((text): [string, string] => [
      `the first number is ${JSON.stringify(text)}`,
      object(text),
    ]),
    ['a key twice', `{"${name}": ${value}, "${name}": ${value}${others}}`],
    [
      'a key twice, once escaped',
      `{"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}": ${value}, "${name}": ${value}${others}}`,
    ],
    ['a key too many', object(`${value}, "score": 1`)],
    ['a key of the prototype', object(`${value}, "__proto__": {"${name}": 1}`)],
    ['a key too few', `{${others.slice(2)}}`],
    ['an object in a list in an object', `{"strategies": [${object(String(value))}]}`],
    ['an object in an object', `{"strategy": ${object(String(value))}}`],
    ['numbers in a list', JSON.stringify(Object.values(strategy))],
    ['names without quotes', object(String(value)).replaceAll('"', '')],
    ['no object', 'The best strategy wins.'],
    ['nothing', ''],
    ['an object that does not end', object(String(value)).slice(0, -1)],
    ['a reply that was cut off', object(String(value)), 'length'],
  ];
  return exploitCases(problem, cases, 'autocontext.md §13 row 14');
}

export interface ScenarioTaskOptions {
  /** Problems that are never generated. */
  readonly isFrozen?: (id: string) => boolean;
}

/** The task of a document that has been read and tested. */
export function taskOf(
  scenario: Scenario,
  { isFrozen = () => false }: ScenarioTaskOptions = {},
): ScenarioTask {
  const { document, digest } = scenario;
  const { id, title, parameters } = document;
  const tiers = [{ id: TIER, title, trains: true }];
  let last: { seed: number; draw: Draw } | undefined;
  /** Replies to one problem are judged one after another: its draw is kept. */
  const drawOf = ({ seed }: ScenarioProblem): Draw =>
    (last?.seed === seed ? last : (last = { seed, draw: drawSeed(scenario, seed) })).draw;
  let exploits: ExploitCase<ScenarioProblem>[] | undefined;
  return {
    id,
    version: `${document.version}+${digest.slice(0, 12)}`,
    tiers,
    generate: (tier, seed) => {
      findTier(id, tiers, tier);
      const random = new Random(seed);
      let problem = drawScenarioProblem(scenario, random);
      while (isFrozen(problem.id)) problem = drawScenarioProblem(scenario, random);
      return problem;
    },
    prompt: (problem, style) => promptOf(scenario, problem, style),
    // a constraint that is broken does not send the reader back to an earlier object: what was said
    // last counts
    parse: (text) =>
      parseLastObject(text, (value) => {
        const checked = checkStrategy(scenario, value);
        return checked.ok || checked.category === 'constraint' ? null : checked.detail;
      }),
    readLeniently: (text) =>
      readObjectsLeniently(
        text,
        parameters.map(({ name }) => name),
      ),
    answerGrammar: grammarOf(scenario),
    verify: (problem, answer) => verifyStrategy(scenario, () => drawOf(problem), answer),
    feedback: (_problem, { kind, violations }) =>
      kind === 'pass'
        ? 'That strategy wins.'
        : `${violations[0]?.detail ?? 'The strategy could not be scored.'} Reply with another strategy.`,
    referenceReply: (problem) =>
      JSON.stringify(gridSearch(scenario, drawOf(problem)).strategy).replaceAll(/([:,])/g, '$1 '),
    trivialPolicies: {
      'random-valid': (problem) => randomStrategy(scenario, policyRandom(problem)),
      'best-constant': () => bestConstant(scenario),
      'grid-search': (problem) => gridSearch(scenario, drawOf(problem)).strategy,
    },
    policyNotes: {
      'best-constant':
        'the one strategy of a grid with the highest mean over 64 seeds of its own, whatever is observed',
      'grid-search':
        'the best strategy of a grid by the problem’s own score, noise included: what asking the verifier thousands of times gets',
    },
    get exploits() {
      return (exploits ??= exploitsOf(scenario, drawScenarioProblem(scenario, new Random(0n))));
    },
  };
}

/**
 * A task of a scenario of one's own, for a task file to export. The document is checked and tested
 * first.
 * @throws IsoproError TASK_INVALID
 */
export function scenarioTask(document: unknown): ScenarioTask {
  const scenario = readScenario(document);
  testScenario(scenario);
  return taskOf(scenario);
}
