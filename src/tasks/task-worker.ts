/**
 * Worker thread that holds one task, a user's or a built-in one. Answers never leave it, so they
 * may be anything; problems and verdicts are JSON.
 */
import { parentPort } from 'node:worker_threads';
import { createRequire } from 'node:module';
import { canonicalJson, type Json } from '../canonical-json.js';
import { setClockAhead } from './clock-shift.js';
import { asProblem } from './problem-id.js';
import type { Graded } from './data/score-model.js';
import { Origins, wordsOf } from './origins.js';
import type { ChatMessage, FinishReason, Judgement, Problem, Task, Verdict } from './task.js';
import { builtInTask } from './registry.js';
import {
  checkMember,
  checkResult,
  describeTask,
  MemberError,
  MEMBERS,
  memberShapes,
  type CalledMember,
  type Returned,
  type TaskDescription,
} from './task-shape.js';
import type {
  ThreadTask,
  WorkerAbort,
  WorkerAnswer,
  WorkerCall,
  WorkerReply,
} from './thread-messages.js';
import { inTime, tooLate, VERIFY_SECONDS, Watch } from './time-limit.js';
import { failed, judgeAny, judgedCut, lost, threw, TRUNCATED } from './verdict.js';

const messageOf = (error: unknown): string =>
  wordsOf(error instanceof Error ? error.message : error);

let task: Task<Problem, unknown, unknown>;
/** True for a task of this package, whose parse and verify do not throw. */
let ours = false;

/** Origins of a bundle; absent: exceptions appear only in verdicts. */
let origins: Origins | undefined;
let silent = false;

/** Runs a member whose exception is the task's fault. */
async function run<T>(member: string, call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const place = origins?.placeOf(error) ?? null;
    throw new MemberError(
      member,
      `threw: ${messageOf(error)}${place === null ? '' : ` (${place})`}`,
    );
  }
}

function readProblem(member: string, value: unknown, tier: string | undefined): Problem {
  const content = checkResult('generate', value, member);
  try {
    return asProblem(content, tier);
  } catch (error) {
    throw new MemberError(member, `problem: is not plain JSON (${messageOf(error)})`);
  }
}

/** Calls a member and checks what it returns; `grade` gets the reference too. */
async function callMember(member: CalledMember, args: readonly unknown[]): Promise<unknown> {
  const reference =
    member === 'grade'
      ? [(await run('reference', () => task.reference?.(args[0] as Problem))) ?? null]
      : [];
  const value = await run(member, () =>
    Reflect.apply(task[member]!, task, [...args, ...reference]),
  );
  return member === 'generate'
    ? readProblem(member, value, args[0] as string)
    : checkResult(member, value);
}

/** Calls that do more than call one member. */
const methods = {
  async load(given: Exclude<ThreadTask, { kind: 'python' }>): Promise<TaskDescription> {
    if (given.clockAhead !== undefined) setClockAhead(given.clockAhead);
    ours = given.kind !== 'bundle';
    task =
      given.kind === 'bundle'
        ? await importTask(given)
        : given.kind === 'data'
          ? await rowsTask(given)
          : (await builtInTask(given.id)).task;
    if (task.step !== undefined && task.limits?.turns === undefined)
      throw new MemberError('limits', 'needs turns because the task has a step');
    return {
      ...describeTask(task),
      exploits: (task.exploits ?? []).map(({ name, source, problem, text, finish }) => ({
        name,
        source: source ?? 'own',
        problem: readProblem('exploits', problem, undefined),
        text,
        finish: finish ?? 'stop',
      })),
    };
  },

  /**
   * An exception in parse or verify is no verdict on the reply; a malformed result is an error of
   * the task.
   */
  async judge(
    problem: Problem,
    text: string,
    finish: FinishReason,
    earlier: readonly string[],
  ): Promise<Judgement> {
    const cut = finish !== 'stop' && task.judgesTruncated !== true;
    if (cut && ours) return { verdict: TRUNCATED, form: null };
    const judging = withinLimit((watch) => judge(problem, text, earlier, watch));
    // what its code does wrong is told of a whole reply
    if (cut) return judgedCut(await judging.catch(() => null));
    return (await judging) ?? { verdict: late(), form: null };
  },

  /** As `judge`, of every answer in the reply; all of them together have the time of one. */
  async judgeLeniently(problem: Problem, text: string): Promise<Judgement> {
    const judging = withinLimit((watch) => judgeLeniently(problem, text, watch));
    return (await judging) ?? { verdict: late(), form: null };
  },

  /** Null for a reply without an answer, and for an answer that has no JSON form. */
  async answer(problem: Problem, text: string): Promise<string | null> {
    try {
      const parsed = await task.parse(text, problem);
      return parsed.ok ? canonicalJson(parsed.answer as Json) : null;
    } catch {
      return null;
    }
  },

  async policy(name: string, problem: Problem): Promise<Verdict> {
    const answer = await run(`trivialPolicies.${name}`, () => task.trivialPolicies[name]!(problem));
    return (await withinLimit((watch) => verify(problem, answer, watch))) ?? late();
  },
};

async function importTask({
  code,
  path,
  sourceMap,
  silent: quiet,
}: ThreadTask & { kind: 'bundle' }): Promise<typeof task> {
  origins = new Origins(sourceMap);
  silent = quiet;
  globalThis.require = createRequire(path); // bundled CommonJS asks for it
  const module = await run(
    'module',
    () =>
      import(`data:text/javascript;base64,${Buffer.from(code).toString('base64')}`) as Promise<
        Record<string, unknown>
      >,
  );
  const found = (module.default ?? module.task) as Record<string, unknown> | undefined;
  // of a file that exports nothing the bundler makes an empty object
  if (
    typeof found !== 'object' ||
    found === null ||
    !Object.keys(memberShapes).some((member) => member in found)
  )
    throw new MemberError(
      'default',
      'the file must export the task: `export default defineTask({ … })`, or as `task`',
    );
  for (const [member, shape] of Object.entries(memberShapes))
    checkMember(member, shape, found[member], member);
  return found as unknown as typeof task;
}

/** Open questions to the model of a check. */
const asked = new Map<number, (graded: Graded) => void>();
let asks = 0;

/** The model is where the task was opened. */
const askModel = (messages: readonly ChatMessage[]): Promise<Graded> =>
  new Promise((answered) => {
    asked.set(++asks, answered);
    parentPort!.postMessage({ ask: asks, messages } satisfies WorkerReply);
  });

async function rowsTask({ program }: ThreadTask & { kind: 'data' }): Promise<typeof task> {
  const { dataTask } = await import('./data/data-task.js'); // other threads do without its checks
  return dataTask(program, askModel) as unknown as typeof task;
}

const limit = (): number => task.limits?.verifySeconds ?? VERIFY_SECONDS;
const late = (): Verdict => lost(tooLate(limit()));

/** Running call, and the controller that cancels its verifier. */
let current = { call: 0, abandoned: new AbortController() };

/** Null where it took too long. @throws IsoproError ABORTED */
async function withinLimit<T>(find: (watch: Watch) => Promise<T>): Promise<T | null> {
  const watch = new Watch();
  // begun in a turn of its own, so that the clock runs before it does
  return inTime(
    Promise.resolve().then(() => find(watch)),
    watch,
    limit(),
    current.abandoned.signal,
  );
}

/** Calls a member whose exception leaves the reply without a verdict. */
async function attempt<Name extends 'parse' | 'readLeniently' | 'verify'>(
  member: Name,
  ...args: readonly unknown[]
): Promise<{ readonly value: Returned<Name> } | { readonly thrown: Verdict }> {
  let value: unknown;
  try {
    value = await Reflect.apply(task[member]!, task, args);
  } catch (error) {
    if (!silent) origins?.tell(member, error);
    return { thrown: threw(member, messageOf(error)) };
  }
  return { value: checkResult(member, value) };
}

async function judgeLeniently(problem: Problem, text: string, watch: Watch): Promise<Judgement> {
  const read = await attempt('readLeniently', text, problem);
  return 'thrown' in read
    ? { verdict: read.thrown, form: null }
    : judgeAny(read.value, (answer) => verify(problem, answer, watch));
}

async function judge(
  problem: Problem,
  text: string,
  earlier: readonly string[],
  watch: Watch,
): Promise<Judgement> {
  const read = await attempt('parse', text, problem, earlier);
  if ('thrown' in read) return { verdict: read.thrown, form: null };
  const parsed = read.value;
  return parsed.ok
    ? { verdict: await verify(problem, parsed.answer, watch), form: parsed.form }
    : { verdict: failed(parsed.category, parsed.detail), form: null };
}

async function verify(problem: Problem, answer: unknown, watch: Watch): Promise<Verdict> {
  const verified = await attempt('verify', problem, answer, watch);
  return 'thrown' in verified ? verified.thrown : (verified.value as Verdict);
}

parentPort!.on('message', (message: WorkerCall | WorkerAbort | WorkerAnswer) => {
  if ('abort' in message) {
    if (message.abort === current.call) current.abandoned.abort();
    return;
  }
  if ('answer' in message) {
    asked.get(message.answer)?.(message.graded);
    asked.delete(message.answer);
    return;
  }
  const { call, method, args } = message;
  current = { call, abandoned: new AbortController() }; // one at a time
  const answered: Promise<unknown> =
    method in MEMBERS
      ? callMember(method as CalledMember, args)
      : Reflect.apply(methods[method as keyof typeof methods], methods, args);
  answered.then(
    (value) => parentPort!.postMessage({ call, value } satisfies WorkerReply),
    (error: unknown) =>
      parentPort!.postMessage({
        call,
        member: error instanceof MemberError ? error.member : method,
        message: messageOf(error),
      } satisfies WorkerReply),
  );
});
// What the task prints goes to stderr: stdout belongs to the command's own output.
process.stdout.write = process.stderr.write.bind(process.stderr);
parentPort!.postMessage({ started: true } satisfies WorkerReply);
