import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { frozenSet, SET_NAMES, SET_SIZE, type SetName } from '../tasks/frozen-sets.js';
import type { OpenTask, Problem } from '../tasks/task.js';
import { seedOf } from '../tasks/seed.js';

/** Problems to evaluate on, with their identity. */
export interface EvaluationSet {
  readonly name: SetName;
  /** `split`: held-out rows of a data file. */
  readonly origin: 'frozen' | 'generated' | 'split';
  /** SHA-256 of the committed file; null if there is none. */
  readonly file: string | null;
  readonly perTier: number;
  /** SHA-256 of the RFC 8785 list of the ids, in order. */
  readonly sha256: string;
  readonly problems: readonly Problem[];
}

/** Of problems generated for tasks without frozen files; a run's own seeds never enter. */
const SEED = 0x150n;
/**
 * A task with few problems may repeat itself; after so many draws for each one wanted its tier
 * stays smaller.
 */
const DRAWS = 8;

/**
 * Returns the first `perTier` problems of each tier: of the committed set of the task, of the
 * held-out rows of a data file, or else generated from a fixed seed. No question appears twice, and
 * a generated test set excludes the whole dev set.
 * @throws IsoproError INVALID_ARGUMENT if the committed set is smaller, EVALUATION_SET_CORRUPT,
 *   TASK_INVALID
 */
export async function evaluationSet(
  task: OpenTask,
  name: SetName,
  perTier: number,
): Promise<EvaluationSet> {
  if (!Number.isInteger(perTier) || perTier < 1 || perTier > SET_SIZE[name])
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `a ${name} set has 1 to ${SET_SIZE[name]} problems of each tier, not ${perTier}`,
    );
  if (task.source.kind === 'built-in') {
    const { problems: all, sha256: file } = frozenSet(task.id, name);
    const problems = firstOfEach(
      task,
      all.map(({ problem }) => problem),
      perTier,
    );
    return { name, origin: 'frozen', file, perTier, sha256: identity(problems), problems };
  }
  if (task.rows !== undefined) {
    const problems = firstOfEach(task, task.rows.heldOut[name], perTier);
    return { name, origin: 'split', file: null, perTier, sha256: identity(problems), problems };
  }
  const taken = new Set<string>();
  if (name === 'test') await draw(task, 'dev', SET_SIZE.dev, taken);
  const problems = await draw(task, name, perTier, taken);
  return { name, origin: 'generated', file: null, perTier, sha256: identity(problems), problems };
}

/** Returns a sentence for each tier with too few different generated problems. */
export function shortTiers(
  { tiers }: Pick<OpenTask, 'tiers'>,
  { name, origin, perTier, problems }: EvaluationSet,
): string[] {
  if (origin !== 'generated') return [];
  return tiers.flatMap(({ id }) => {
    const found = problems.filter(({ tier }) => tier === id).length;
    if (found >= perTier) return [];
    const what =
      found === 0
        ? `no ${name} problem and is missing from all results`
        : `${found} ${name} problems instead of ${perTier}`;
    return [
      `tier ${id} has ${what}: its ` +
        `generator gave no further distinct problems${name === 'test' ? ` outside the dev set of ${SET_SIZE.dev}` : ''}`,
    ];
  });
}

/**
 * Returns all problems that are kept out of training: the whole dev and test sets.
 * @throws TASK_*
 */
export async function wholeSets(task: OpenTask): Promise<Problem[]> {
  if (task.rows !== undefined) return SET_NAMES.flatMap((name) => task.rows!.heldOut[name]);
  const sets = [
    await evaluationSet(task, 'dev', SET_SIZE.dev),
    await evaluationSet(task, 'test', SET_SIZE.test),
  ];
  return sets.flatMap(({ problems }) => [...problems]);
}

const firstOfEach = (
  { tiers }: OpenTask,
  problems: readonly Problem[],
  perTier: number,
): Problem[] =>
  tiers.flatMap(({ id }) => problems.filter(({ tier }) => tier === id).slice(0, perTier));

const identity = (problems: readonly Problem[]): string =>
  hash('sha256', canonicalJson(problems.map(({ id }) => id)));

interface Draw {
  readonly problem: Problem;
  /** Problems that differ in a member that the prompt leaves out have the same question. */
  readonly question: string;
}
/** The sets of a task overlap, and each call of a user's task crosses to its thread. */
const DRAWN = new WeakMap<OpenTask, Map<string, Draw>>();

async function drawOne(task: OpenTask, seed: bigint, tier: string): Promise<Draw> {
  const drawn = DRAWN.get(task) ?? new Map<string, Draw>();
  DRAWN.set(task, drawn);
  const key = `${seed} ${tier}`;
  const known = drawn.get(key);
  if (known !== undefined) return known;
  const problem = await task.generate(tier, seed);
  const asked = await (task.question?.(problem, 'plain') ?? task.prompt(problem, 'plain'));
  const draw = { problem, question: canonicalJson(asked as unknown as Json) };
  drawn.set(key, draw);
  return draw;
}

/** @param taken questions that are in a set already, to which those drawn here are added */
async function draw(
  task: OpenTask,
  name: SetName,
  perTier: number,
  taken: Set<string>,
): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const { id: tier } of task.tiers) {
    const before = problems.length;
    for (let sample = 0; sample < DRAWS * perTier && problems.length - before < perTier; sample++) {
      const { problem, question } = await drawOne(
        task,
        seedOf(SEED, `${name} set`, tier, sample),
        tier,
      );
      if (taken.has(question)) continue;
      taken.add(question);
      problems.push(problem);
    }
  }
  return problems;
}
