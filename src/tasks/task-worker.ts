/**
 * Worker thread that holds one task, a user's or one of our own. Answers never leave it, so they
 * may be anything; problems and verdicts are JSON.
 */
import { parentPort } from 'node:worker_threads';
import { createRequire } from 'node:module';
import { canonicalJson, type Json } from '../canonical-json.js';
import { setClockAhead } from './clock-shift.js';
import { asProblem } from './problem-id.js';
import type { Graded } from './data/score-model.js';
import { Origins, wordsOf } from './origins.js';
import type {
  ChatMessage,
  FinishReason,
  Judgement,
  Parsed,
  Problem,
  PromptStyle,
  Task,
  Verdict,
} from './task.js';
import { builtInTask } from './registry.js';
import { checkMember, MemberError, memberShapes, resultShapes, wholeTiers } from './task-shape.js';
import type {
  TaskDescription,
  ThreadTask,
  WorkerAbort,
  WorkerAnswer,
  WorkerCall,
  WorkerMethod,
  WorkerReply,
} from './thread-messages.js';
import { inTime, tooLate, VERIFY_SECONDS, Watch } from './time-limit.js';
import { failed, judgeAny, judgedCut, lost, threw, TRUNCATED } from './verdict.js';

const messageOf = (error: unknown): string =>
  wordsOf(error instanceof Error ? error.message : error);

let task: Task<Problem, unknown, unknown>;
/** Whether it is one of our own, whose parse and verify do not throw. */
let ours = false;

/** Of a bundle; absent: what is thrown is not told beside the verdict. */
let origins: Origins | undefined;
let silent = false;

/** Of what a member of the task threw, that is no verdict. */
function tell(member: string, error: unknown): void {
  if (!silent) origins?.tell(member, error);
}

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
  const content = checkMember(member, resultShapes.generate, value, 'problem');
  try {
    return asProblem(content, tier);
  } catch (error) {
    throw new MemberError(member, `problem: is not plain JSON (${messageOf(error)})`);
  }
}

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
      throw new MemberError('limits', 'needs turns where there is a step');
    return {
      id: task.id,
      version: task.version,
      tiers: wholeTiers(task.tiers),
      policies: Object.keys(task.trivialPolicies ?? {}),
      policyNotes: task.policyNotes ?? {},
      exploits: (task.exploits ?? []).map(({ name, source, problem, text, finish }) => ({
        name,
        source: source ?? 'own',
        problem: readProblem('exploits', problem, undefined),
        text,
        finish: finish ?? 'stop',
      })),
      limits: task.limits ?? {},
      answerGrammar: task.answerGrammar ?? null,
      optional: {
        readLeniently: typeof task.readLeniently === 'function',
        grade: typeof task.grade === 'function',
        feedback: typeof task.feedback === 'function',
        step: typeof task.step === 'function',
        checkTrace: typeof task.checkTrace === 'function',
        fewShot: typeof task.fewShot === 'function',
        referenceReply: typeof task.referenceReply === 'function',
      },
    };
  },

  async generate(tier: string, seed: bigint): Promise<Problem> {
    return readProblem('generate', await run('generate', () => task.generate(tier, seed)), tier);
  },

  async prompt(problem: Problem, style: PromptStyle): Promise<unknown> {
    return checkMember(
      'prompt',
      resultShapes.prompt,
      await run('prompt', () => task.prompt(problem, style)),
      'messages',
    );
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
    return (await judging) ?? { verdict: lost(tooLate(limit())), form: null };
  },

  /** As `judge`, of every answer in the reply; all of them together have the time of one. */
  async judgeLeniently(problem: Problem, text: string): Promise<Judgement> {
    return (
      (await withinLimit((watch) => judgeLeniently(problem, text, watch))) ?? {
        verdict: lost(tooLate(limit())),
        form: null,
      }
    );
  },

  /** Null for a reply without an answer, and for an answer that has no JSON form. */
  async answer(problem: Problem, text: string): Promise<string | null> {
    try {
      const parsed = (await task.parse(text, problem)) as Parsed<unknown>;
      return parsed.ok ? canonicalJson(parsed.answer as Json) : null;
    } catch {
      return null;
    }
  },

  async policy(name: string, problem: Problem): Promise<Verdict> {
    const answer = await run(`trivialPolicies.${name}`, () => task.trivialPolicies[name]!(problem));
    return (await withinLimit((watch) => verify(problem, answer, watch))) ?? lost(tooLate(limit()));
  },

  async grade(problem: Problem, verdict: Verdict): Promise<unknown> {
    const reference =
      task.reference === undefined ? null : await run('reference', () => task.reference!(problem));
    return checkMember(
      'grade',
      resultShapes.grade,
      await run('grade', () => task.grade!(problem, verdict, reference)),
      'grades',
    );
  },

  async feedback(problem: Problem, verdict: Verdict): Promise<unknown> {
    return checkMember(
      'feedback',
      resultShapes.feedback,
      await run('feedback', () => task.feedback!(problem, verdict)),
      'feedback',
    );
  },

  async step(problem: Problem, replies: readonly string[]): Promise<unknown> {
    return checkMember(
      'step',
      resultShapes.step,
      await run('step', () => task.step!(problem, replies)),
      'said',
    );
  },

  async checkTrace(problem: Problem, text: string): Promise<unknown> {
    return checkMember(
      'checkTrace',
      resultShapes.checkTrace,
      await run('checkTrace', () => task.checkTrace!(problem, text)),
      'findings',
    );
  },

  async referenceReply(problem: Problem, style: PromptStyle): Promise<unknown> {
    const text = await run('referenceReply', () => task.referenceReply!(problem, style));
    return checkMember('referenceReply', resultShapes.referenceReply, text, 'text');
  },

  async fewShot(
    problem: Problem,
    style: PromptStyle,
    count: number,
    seed: bigint,
  ): Promise<unknown> {
    return checkMember(
      'fewShot',
      resultShapes.prompt,
      await run('fewShot', () => task.fewShot!(problem, style, count, seed)),
      'messages',
    );
  },
} satisfies Record<WorkerMethod, unknown>;

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

/** What the model of a check was asked, and is not answered yet. */
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

/** The call that is going on, and what tells its verifier that nobody waits for it any more. */
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

async function judgeLeniently(problem: Problem, text: string, watch: Watch): Promise<Judgement> {
  let answers: readonly unknown[];
  try {
    answers = checkMember(
      'readLeniently',
      resultShapes.readLeniently,
      await task.readLeniently!(text, problem),
      'answers',
    );
  } catch (error) {
    if (error instanceof MemberError) throw error;
    tell('readLeniently', error);
    return { verdict: threw('readLeniently', messageOf(error)), form: null };
  }
  return judgeAny(answers, (answer) => verify(problem, answer, watch));
}

async function judge(
  problem: Problem,
  text: string,
  earlier: readonly string[],
  watch: Watch,
): Promise<Judgement> {
  let parsed: Parsed<unknown>;
  try {
    parsed = checkMember(
      'parse',
      resultShapes.parse,
      await task.parse(text, problem, earlier),
      'parsed',
    ) as Parsed<unknown>;
  } catch (error) {
    if (error instanceof MemberError) throw error;
    tell('parse', error);
    return { verdict: threw('parse', messageOf(error)), form: null };
  }
  if (!parsed.ok) return { verdict: failed(parsed.category, parsed.detail), form: null };
  return { verdict: await verify(problem, parsed.answer, watch), form: parsed.form };
}

async function verify(problem: Problem, answer: unknown, watch: Watch): Promise<Verdict> {
  let verdict: unknown;
  try {
    verdict = await task.verify(problem, answer, watch);
  } catch (error) {
    tell('verify', error);
    return threw('verify', messageOf(error));
  }
  return checkMember('verify', resultShapes.verify, verdict, 'verdict') as Verdict;
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
  (methods[method] as (...given: readonly unknown[]) => Promise<unknown>)(...args).then(
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
