/**
 * The path from problems to verdicts: prompts, replies, judgements. The loop, its modes, every
 * evaluation and the judge use it.
 */
import {
  failureText,
  hasRoom,
  sampleFrom,
  type Backend,
  type Reply,
  type SampleFailure,
  type SampleProgress,
  type SamplePrompt,
  type SampleRequest,
} from '../backends/backend.js';
import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import { deriveSeed } from '../random.js';
import { problemNamed } from '../tasks/problem-label.js';
import { REFUSED, undecided } from '../tasks/verdict.js';
import type { ChatMessage, Judgement, OpenTask, Problem, PromptStyle } from '../tasks/task.js';
import type { PlannedProblem } from './plan.js';

export interface AnswerRequest<R extends Reply = Reply>
  extends Pick<SampleRequest, 'maxTokens' | 'grammar' | 'adapter' | 'signal' | 'onProgress'> {
  readonly backend: Backend<R>;
  readonly task: Pick<OpenTask, 'judge' | 'turns' | 'step' | 'stop'>;
  readonly plan: readonly PlannedProblem[];
  readonly prompt: (problem: Problem) => Promise<readonly ChatMessage[]>;
  /**
   * What each first reply begins with, as if the model had said it; its tokens must be those that
   * the model would have said it in.
   */
  readonly opening?: string;
  readonly temperature: number;
  /** Default 1. */
  readonly topP?: number;
  readonly maxSequences: number;
}

/**
 * How the problems of a task are asked and sampled: by the settings of a run, for it and for
 * whoever measures before it.
 */
export const samplingOf = <T extends Pick<OpenTask, 'prompt'>>(
  task: T,
  {
    style,
    temperature,
    topP,
    maxTokens,
  }: Required<Pick<AnswerRequest, 'maxTokens' | 'temperature' | 'topP'>> & {
    readonly style: PromptStyle;
  },
  maxSequences: number,
) => ({
  task,
  prompt: (problem: Problem) => task.prompt(problem, style),
  temperature,
  topP,
  maxTokens,
  maxSequences,
});

/** Reply that did not end its episode, and the message to the model after it. */
export interface Turn<R extends Reply = Reply> {
  readonly reply: R;
  readonly said: string;
  /** Where the back end gives ids: those that stand between this reply and the next one. */
  readonly saidIds?: Int32Array;
}

/** Reply that ended an episode, and how the episode ended. */
export type LastReply<R extends Reply = Reply> = Omit<R, 'finish'> & {
  readonly finish: R['finish'] | 'context';
};

export interface JudgedReply<R extends Reply = Reply> {
  readonly problem: Problem;
  /** What the back end was asked. */
  readonly messages: SamplePrompt['messages'];
  /** The replies of the episode before the one that ended it. */
  readonly earlier: readonly Turn<R>[];
  /**
   * `promptIndex` is the place in the plan, `sampleIndex` that of its seed; `text` begins with the
   * opening.
   */
  readonly rollout: LastReply<R>;
  readonly judgement: Judgement;
}

/** One sample, at the turn that it has come to. */
interface Asked<R extends Reply> {
  readonly promptIndex: number;
  readonly sampleIndex: number;
  /** Of its first turn. */
  readonly seed: bigint;
  readonly messages: readonly ChatMessage[];
  readonly earlier: readonly Turn<R>[];
  /** Of a later turn, where the back end gives them: the very ids of all that was said. */
  readonly ids?: Int32Array;
}

/** A prompt of a request, and whom its samples are for. */
interface Round<R extends Reply> {
  readonly prompt: SamplePrompt;
  readonly asked: readonly Asked<R>[];
}

/** Of an episode that goes on. */
function nextTurn<R extends Reply>(problem: Problem, asked: Asked<R>): Round<R> {
  const { seed, messages, earlier, ids } = asked;
  const turnSeed = deriveSeed({
    runSeed: seed,
    purpose: 'turn',
    iteration: earlier.length,
    problemId: problem.id,
    sample: 0,
  });
  return {
    prompt: { id: problem.id, messages, seeds: [turnSeed], ...stated({ ids }) },
    asked: [asked],
  };
}

/**
 * Samples the whole plan in one request and judges each reply while the others run. Episodes of
 * several turns advance together, one request per turn; an episode whose next turn does not fit in
 * the context ends and is judged as cut off.
 * @param take receives the judged replies in the order in which they finish; if it throws, the
 *   generation ends
 * @throws IsoproError as sampleFrom, OpenTask.prompt and OpenTask.step; what the back end and
 *   `take` throw
 */
export async function answer<R extends Reply>(
  request: AnswerRequest<R>,
  take: (reply: JudgedReply<R>) => void,
): Promise<void> {
  const { plan, prompt, opening = '', onProgress } = request;
  let round: Round<R>[] = [];
  for (const [promptIndex, { problem, seeds }] of plan.entries()) {
    const messages = await prompt(problem);
    const begun: readonly ChatMessage[] =
      opening === '' ? messages : [...messages, { role: 'assistant', content: opening }];
    round.push({
      prompt: { id: problem.id, messages: begun, seeds },
      asked: seeds.map((seed, sampleIndex) => ({
        promptIndex,
        sampleIndex,
        seed,
        messages,
        earlier: [],
      })),
    });
  }
  let before: SampleProgress = { finished: 0, total: 0, promptTokens: 0, sampledTokens: 0 };
  while (round.some(({ asked }) => asked.length > 0)) {
    const earlier = before;
    const report = (progress: SampleProgress): void => {
      before = {
        finished: earlier.finished + progress.finished,
        total: earlier.finished + progress.total,
        promptTokens: earlier.promptTokens + progress.promptTokens,
        sampledTokens: earlier.sampledTokens + progress.sampledTokens,
      };
      onProgress?.(before);
    };
    const open = await askRound(
      { ...request, ...stated({ onProgress: onProgress && report }) },
      round,
      take,
    );
    open.sort((a, b) => a.promptIndex - b.promptIndex || a.sampleIndex - b.sampleIndex);
    round = open.map((asked) => nextTurn(plan[asked.promptIndex]!.problem, asked));
  }
}

/** One request. @returns the samples whose episodes go on */
async function askRound<R extends Reply>(
  request: AnswerRequest<R>,
  round: readonly Round<R>[],
  take: (reply: JudgedReply<R>) => void,
): Promise<Asked<R>[]> {
  const {
    backend,
    task,
    plan,
    opening = '',
    temperature,
    topP = 1,
    maxTokens,
    maxSequences,
  } = request;
  const { adapter, grammar, signal, onProgress } = request;
  const open: Asked<R>[] = [];
  const failed = new AbortController();
  const cancelled = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  let taken = Promise.resolve();
  let over = false;

  /** The verdict on an episode that a reply ends, or the episode as it goes on. */
  const decide = async (
    messages: SamplePrompt['messages'],
    sample: Asked<R>,
    reply: R,
  ): Promise<JudgedReply<R> | Asked<R>> => {
    const { promptIndex, earlier } = sample;
    const { problem } = plan[promptIndex]!;
    const before = earlier.map((turn) => turn.reply.text);
    let rollout: LastReply<R> = reply;
    if (task.turns > 1 && reply.finish === 'stop') {
      const said = await task.step(problem, [...before, reply.text]);
      if (said !== null) {
        const next = goingOn(backend, sample, reply, said);
        if (next.ids === undefined || hasRoom(next.ids.length, maxTokens, backend.contextTokens))
          return next;
        rollout = { ...reply, finish: 'context' };
      }
    }
    const { finish } = rollout;
    const judgement =
      finish === 'failed' || finish === 'refused'
        ? unjudged(rollout)
        : await task.judge(problem, rollout.text, finish, { signal: cancelled, earlier: before });
    return { problem, messages, earlier, rollout, judgement };
  };
  const replies = sampleFrom(backend, {
    prompts: round.map(({ prompt }) => prompt),
    sampling: { temperature, topP },
    maxTokens,
    maxSequences,
    ...stated({ stop: task.stop }),
    signal: cancelled,
    ...stated({ adapter, grammar, onProgress }),
  });
  try {
    for await (const reply of replies) {
      const { prompt, asked } = round[reply.promptIndex]!;
      const sample = asked[reply.sampleIndex]!;
      const { promptIndex, sampleIndex, earlier } = sample;
      const text = earlier.length === 0 ? opening + reply.text : reply.text;
      const deciding = decide(prompt.messages, sample, {
        ...reply,
        promptIndex,
        sampleIndex,
        text,
      });
      taken = Promise.all([deciding, taken]).then(([decided]) => {
        if (over) return;
        if ('judgement' in decided) take(decided);
        else open.push(decided);
      });
      taken.catch(() => failed.abort());
    }
    await taken;
    return open;
  } catch (error) {
    if (failed.signal.aborted) await taken; // throws what went wrong first
    throw namingProblem(error, (index) => ({
      ...round[index]!.prompt,
      ...plan[round[index]!.asked[0]!.promptIndex]!,
    }));
  } finally {
    over = true; // a verdict that comes later is nobody's
  }
}

/** Judgement without the task: of a sample that has no reply, and of one that was refused. */
const unjudged = ({
  finish,
  failure,
}: {
  finish: string;
  failure?: SampleFailure | undefined;
}) => ({
  verdict: finish === 'refused' ? REFUSED : undecided(failureText(failure!)),
  form: null,
});

function goingOn<R extends Reply>(
  backend: Backend<R>,
  sample: Asked<R>,
  reply: R,
  content: string,
): Asked<R> {
  const { messages, earlier } = sample;
  const said: ChatMessage = { role: 'user', content };
  const saidIds = reply.tokenIds === undefined ? undefined : backend.renderTurn?.(messages, said);
  return {
    ...sample,
    messages: [...messages, { role: 'assistant', content: reply.text }, said],
    earlier: [...earlier, { reply, said: content, ...stated({ saidIds }) }],
    ...(saidIds === undefined
      ? {}
      : { ids: Int32Array.from([...reply.promptIds!, ...reply.tokenIds!, ...saidIds]) }),
  };
}

/**
 * Of a prompt that has no room in the context: the problem that it asks, in the place of its number
 * in the request.
 */
function namingProblem(
  error: unknown,
  asked: (index: number) => { readonly problem: Problem } & Pick<SamplePrompt, 'messages'>,
): unknown {
  if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') return error;
  const [, index, rest] = /^prompt (\d+) (has .*)$/s.exec(error.message) ?? [];
  if (index === undefined) return error;
  const { problem, messages } = asked(Number(index));
  const { remedy } = error;
  return new IsoproError(
    'CONTEXT_OVERFLOW',
    `the prompt of ${problemNamed(problem, messages)} ${rest}`,
    { cause: error, remedy },
  );
}
