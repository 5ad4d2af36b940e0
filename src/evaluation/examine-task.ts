/** Finds faults of a task before a run does, on a few problems of each tier. */
import { dictionary, type Dictionary } from '../dictionary.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import {
  ExaminedVerdicts,
  GaveUp,
  NONSENSE,
  quoted,
  type ExaminingOptions,
} from './examined-verdicts.js';
import { PASSES_EVERYTHING } from './task-warnings.js';
import { refuseNondeterminism } from '../tasks/determinism.js';
import { SET_SIZE } from '../tasks/frozen-sets.js';
import type { OpenTask, Problem, PromptStyle, TaskRows, Verdict } from '../tasks/task.js';
import { seedOf } from '../tasks/seed.js';

/** An `error` spoils a run; a `warning` deserves a look. */
export interface TaskFinding {
  readonly severity: 'error' | 'warning';
  /** Stable across versions. */
  readonly name:
    | 'nondeterministic'
    | 'undecided'
    | 'passes-everything'
    | 'passes-nothing'
    | 'passes-empty'
    | 'passes-question'
    | 'refuses-reference'
    | 'answer-in-prompt'
    | 'few-problems'
    | 'same-prompt'
    | 'easy-policy'
    | 'near-duplicates'
    | 'duplicates'
    | 'too-long'
    | 'no-chat-template';
  readonly detail: string;
}

export interface TaskExamination {
  readonly task: string;
  readonly version: string;
  /** Problems that were tried. */
  readonly problems: number;
  /** Tokens of the longest prompt; null without a model. */
  readonly longestPrompt: number | null;
  /** Share of the problems that each trivial policy passes. */
  readonly policies: Dictionary<number>;
  readonly findings: readonly TaskFinding[];
}

export interface ExamineOptions {
  readonly style: PromptStyle;
  /** Problems of each tier, default 24. */
  readonly perTier?: number;
  /** Model for which prompts are measured; `template`: it has its own chat template. */
  readonly model?: {
    readonly model: Pick<Model, 'renderChats' | 'info'>;
    readonly template: boolean;
    readonly maxTokens: number;
  };
  readonly signal?: AbortSignal;
  /** Called with the verdicts so far and their approximate total. */
  readonly onProgress?: ExaminingOptions['onProgress'];
}

/** Replies tried on every problem: empty, nonsense, the question. */
const REPLIES = 3;
/** Part of the problems that a policy passes from which it is said. */
const EASY = 0.5;
/**
 * And of the commonest answer of rows: that of two as common passes half of them without a fault of
 * theirs.
 */
const NEARLY_ALL = 0.9;
/** Of a tier of which 120 are kept for evaluation. */
const NUMBER_DRAWS = 200;
/** Shorter answers stand in a prompt by chance. */
const LEAST_LEAK = 4;

/**
 * Tries the generator, prompts and verifier of a task.
 * @throws IsoproError TASK_INVALID if a member returns something malformed, TASK_TIMEOUT,
 *   TEMPLATE_INVALID, ABORTED
 */
export async function examineTask(
  task: OpenTask,
  { style, perTier = 24, model, signal, onProgress }: ExamineOptions,
): Promise<TaskExamination> {
  const findings: TaskFinding[] = [];
  const find = (
    severity: TaskFinding['severity'],
    name: TaskFinding['name'],
    detail: string,
  ): void => void findings.push({ severity, name, detail });
  const proceed = (): void => {
    if (signal?.aborted === true)
      throw new IsoproError('ABORTED', 'examining the task was cancelled');
  };

  const problems: Problem[] = [];
  for (const { id: tier, trains } of task.tiers) {
    const drawn: Problem[] = [];
    for (let sample = 0; sample < perTier; sample++) {
      proceed();
      drawn.push(await task.generate(tier, seedOf(0n, 'examination', tier, sample)));
    }
    problems.push(...drawn);
    if (trains && task.rows === undefined) await examineNumber(task, tier, style, find, proceed);
  }

  const total = (REPLIES + Number(task.hasReferences) + task.policies.length) * problems.length;
  const verdicts = new ExaminedVerdicts(task, total, { signal, onProgress });
  let policies = dictionary<number>();
  try {
    if (task.source.kind === 'file') {
      // before it is tried twice whether verdicts are the same
      await verdicts.tryOne(problems[0]!, style);
      await refuseNondeterminism(task, style, signal).catch((error: unknown) => {
        if (!(error instanceof IsoproError) || !/is not deterministic/.test(error.message))
          throw error;
        find('error', 'nondeterministic', error.message);
      });
    }
    policies = await examineVerdicts(verdicts, task, problems, style, find);
  } catch (error) {
    if (!(error instanceof GaveUp)) throw error;
    for (const detail of verdicts.undecided) find('error', 'undecided', detail);
  }
  examineRows(task, find);
  const longestPrompt =
    model === undefined ? null : await examineLengths(task, problems, style, model, find);
  return {
    task: task.id,
    version: task.version,
    problems: problems.length,
    longestPrompt,
    policies,
    findings,
  };
}

/** What the model reads tells problems apart: a member that no prompt names makes none. */
async function examineNumber(
  task: OpenTask,
  tier: string,
  style: PromptStyle,
  find: Find,
  proceed: () => void,
): Promise<void> {
  const needed = SET_SIZE.dev + SET_SIZE.test;
  const problems = new Set<string>();
  /** One problem of each prompt. */
  const asked = new Map<string, Problem>();
  let twins: readonly [Problem, Problem] | null = null;
  for (let sample = 0; sample < NUMBER_DRAWS && asked.size < needed; sample++) {
    proceed();
    const problem = await task.generate(tier, seedOf(0n, 'number', tier, sample));
    const prompt = (await task.prompt(problem, style)).map(({ content }) => content).join('\n');
    problems.add(problem.id);
    const other = asked.get(prompt);
    if (other === undefined) asked.set(prompt, problem);
    else if (
      twins === null &&
      other.id !== problem.id &&
      (await haveDifferentAnswers(task, other, problem, style))
    )
      twins = [other, problem];
  }
  if (twins !== null)
    find(
      'error',
      'same-prompt',
      `tier ${tier}: problems ${twins.map(({ id }) => id.slice(0, 12)).join(' and ')} have the same prompt but ` +
        `different correct answers: the ` +
        'prompt leaves out something that the answer depends on',
    );
  if (asked.size >= needed) return;
  find(
    'warning',
    'few-problems',
    `tier ${tier}: ${NUMBER_DRAWS} draws gave ${problems.size} different problems and ${asked.size} different prompts; ${needed} are ` +
      `held out for evaluation, and training needs more${problems.size > asked.size ? ': does the prompt show the whole problem?' : ''}`,
  );
}

async function haveDifferentAnswers(
  task: OpenTask,
  one: Problem,
  other: Problem,
  style: PromptStyle,
): Promise<boolean> {
  if (!task.hasReferences) return false;
  const replies = [await task.referenceReply(one, style), await task.referenceReply(other, style)];
  return !replies.includes(null) && replies[0] !== replies[1];
}

type Find = (severity: TaskFinding['severity'], name: TaskFinding['name'], detail: string) => void;

const share = (verdicts: readonly Verdict[]): number =>
  verdicts.filter(({ kind }) => kind === 'pass').length /
  Math.max(1, verdicts.filter(({ kind }) => kind !== 'none').length);

async function examineVerdicts(
  found: ExaminedVerdicts,
  task: OpenTask,
  problems: readonly Problem[],
  style: PromptStyle,
  find: Find,
): Promise<Dictionary<number>> {
  const [empty, nonsense, questions, references, answers]: Verdict[][] = [[], [], [], [], []];
  /** Where some reply but the empty one passed. */
  const passing = new Set<string>();
  const judge = async (problem: Problem, text: string): Promise<Verdict> => {
    const verdict = await found.judge(problem, text);
    if (verdict.kind === 'pass' && text !== '') passing.add(problem.tier);
    return verdict;
  };
  const answered: Answered[] = [];
  for (const problem of problems) {
    const asked = (await task.prompt(problem, style)).map(({ content }) => content);
    empty!.push(await judge(problem, ''));
    nonsense!.push(await judge(problem, NONSENSE));
    questions!.push(await judge(problem, asked.at(-1)!));
    const { answer: own } = problem as Problem & { readonly answer?: unknown };
    // of rows whose check is a program, which may want something else of a reply
    if (task.rows !== undefined && !task.hasReferences && typeof own === 'string')
      answers!.push(await judge(problem, own));
    if (!task.hasReferences) continue;
    const reply = await task.referenceReply(problem, style);
    if (reply === null) continue;
    references!.push(await judge(problem, reply));
    const answer = reply.replace(/<[^<>]*>/g, '').trim();
    answered.push({ problem, answer, asked });
  }
  const leaks = leaking(answered);
  const shares = dictionary<number>();
  const policyVerdicts = new Map<string, readonly Verdict[]>();
  for (const policy of task.policies) {
    const verdicts: Verdict[] = [];
    for (const problem of problems) verdicts.push(await found.applyPolicy(policy, problem));
    for (const [i, { kind }] of verdicts.entries())
      if (kind === 'pass') passing.add(problems[i]!.tier);
    shares[policy] = share(verdicts);
    policyVerdicts.set(policy, verdicts);
  }

  for (const detail of found.undecided) find('error', 'undecided', detail);
  const everything = [empty!, nonsense!, questions!].every((verdicts) => share(verdicts) === 1);
  if (everything) find('error', 'passes-everything', PASSES_EVERYTHING);
  else {
    if (share(empty!) > 0)
      find(
        'error',
        'passes-empty',
        `the empty reply passes on ${percent(share(empty!))} of the problems`,
      );
    if (share(questions!) > 0)
      find(
        share(questions!) >= EASY ? 'error' : 'warning',
        'passes-question',
        `repeating the question passes on ${percent(share(questions!))} of the problems`,
      );
  }
  const wrong = references!.filter(({ kind }) => kind === 'fail');
  if (wrong.length > 0)
    find(
      'error',
      'refuses-reference',
      `${wrong.length} of the ${references!.length} reference replies of the task fail its own check: ` +
        `${wrong[0]!.violations[0]?.detail ?? 'no violation is given'}`,
    );
  const hopeless = task.tiers.filter(({ id }) => !passing.has(id)).map(({ id }) => id);
  if (hopeless.length > 0)
    find(
      references!.length > 0 ? 'error' : 'warning',
      'passes-nothing',
      `${hopeless.length < task.tiers.length ? `tier ${hopeless.join(', ')}: ` : ''}no reply that was tried passes, ${
        answers!.length > 0
          ? "not even the rows' own answers: does the check expect something else?"
          : 'neither from a policy nor from the task; add a referenceReply or a policy that passes'
      }`,
    );
  if (leaks.length > 0)
    find(
      leaks.length >= EASY * problems.length ? 'error' : 'warning',
      'answer-in-prompt',
      `the prompts of ${leaks.length} of ${problems.length} problems contain the answer, such as ` +
        quoted((await task.prompt(leaks[0]!, style)).at(-1)!.content),
    );
  const notes = task.policyNotes;
  // notes of rows say what a policy does, of other tasks why it may pass; the question was looked
  // at above
  const easy = (policy: string): number =>
    task.rows !== undefined && policy === 'commonest answer'
      ? NEARLY_ALL
      : Object.hasOwn(notes, policy)
        ? Infinity
        : EASY;
  for (const [policy, verdicts] of policyVerdicts) {
    const byTier = task.tiers.map(({ id }) => ({
      id,
      passes: share(verdicts.filter((_, i) => problems[i]!.tier === id)),
    }));
    const tiers = byTier.filter(({ passes }) => passes >= easy(policy));
    const ofAll = tiers.length === task.tiers.length;
    if (tiers.length > 0 && !everything)
      find(
        'warning',
        'easy-policy',
        `the policy ${policy} passes ` +
          (ofAll
            ? percent(shares[policy]!)
            : tiers.map(({ id, passes }) => `${percent(passes)} of tier ${id}`).join(', ')) +
          ` without a model: ${ofAll ? 'the task' : tiers.length === 1 ? 'it' : 'they'} can be passed without doing what is asked`,
      );
  }
  return shares;
}

interface Answered {
  readonly problem: Problem;
  readonly answer: string;
  readonly asked: readonly string[];
}

/**
 * Whose prompts name the answer, and no other: a question that names what may be answered tells
 * nothing.
 */
function leaking(answered: readonly Answered[]): Problem[] {
  const answers = [...new Set(answered.map(({ answer }) => answer))].filter(
    (answer) => answer.length >= LEAST_LEAK,
  );
  return answered.flatMap(({ problem, answer: own, asked }) => {
    if ((problem as Problem & { readonly choices?: unknown }).choices !== undefined) return [];
    const named = answers.filter((answer) => asked.some((text) => text.includes(answer)));
    const others = named.filter((answer) => !own.includes(answer) && !answer.includes(own));
    return named.includes(own) && others.length === 0 ? [problem] : [];
  });
}

const percent = (part: number): string => `${(100 * part).toFixed(0)} %`;

function examineRows({ rows }: OpenTask, find: Find): void {
  if (rows === undefined) return;
  if (rows.duplicates > 0)
    find(
      'warning',
      'duplicates',
      rows.duplicates === 1
        ? '1 row repeats another row and is left out'
        : `${rows.duplicates} rows repeat other rows and are left out`,
    );
  const { rows: near, heldOut, example } = rows.nearDuplicates();
  if (example !== null)
    find(
      'warning',
      'near-duplicates',
      `${near} of the ${heldOut} held-out rows nearly repeat a training row: for example, row ${example.heldOut} ` +
        `nearly repeats row ${example.train}`,
    );
}

/** Of a task of rows, each of them. */
export const allRows = (
  { tiers }: Pick<OpenTask, 'tiers'>,
  { trained, heldOut }: TaskRows,
): Problem[] => [...tiers.flatMap(({ id }) => trained(id)), ...heldOut.dev, ...heldOut.test];

async function examineLengths(
  task: OpenTask,
  problems: readonly Problem[],
  style: PromptStyle,
  { model, template, maxTokens }: NonNullable<ExamineOptions['model']>,
  find: Find,
): Promise<number> {
  const { trainedContext } = model.info;
  if (!template)
    find(
      'warning',
      'no-chat-template',
      'the model has no chat template and is probably a base model, so its prompts are written in ChatML',
    );
  // rows are all known, and each of them is asked some time
  const asked = task.rows === undefined ? problems : allRows(task, task.rows);
  const conversations = [];
  for (const problem of asked) conversations.push(await task.prompt(problem, style));
  const lengths = model.renderChats(conversations).map(({ tokenIds }) => tokenIds.length);
  const long = lengths.filter((length) => length + maxTokens > trainedContext).length;
  const longest = Math.max(...lengths);
  if (long > 0)
    find(
      'error',
      'too-long',
      `${long} of ${asked.length} prompts leave no room for a reply of ${maxTokens} tokens in the model's context of ${trainedContext}; ` +
        `the longest has ${longest} tokens and begins ${quoted(conversations[lengths.indexOf(longest)]!.at(-1)!.content)}`,
    );
  return longest;
}
