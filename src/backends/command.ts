/**
 * A program of the user's that answers: `command:PROGRAM ARGS`. It reads one JSON line a request
 * and writes one a reply, with the same id; docs/backends.md has the protocol. No shell is used,
 * and the program gets an environment without keys.
 *
 * Whatever the program does, each sample ends: with its reply, or as failed with a reason. Where
 * the program ends or falls silent, the oldest open request has failed, for a program that works in
 * order was at that one; the others are asked anew of another process. A program that has never
 * replied, and one that breaks the protocol, end the request at once.
 */
import path from 'node:path';
import { z } from 'zod';
import { offAbort, onAbort } from '../abort.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { childEnvironment, withoutKeys } from '../keys.js';
import { LineProcess } from '../line-process.js';
import { shellWords } from '../shell-words.js';
import {
  TEXT_ONLY,
  type Backend,
  type Reply,
  type SampleFailure,
  type SampleRequest,
} from './backend.js';

export interface CommandOptions {
  /**
   * Seconds without a reply after which the program has failed on the request that has waited
   * longest.
   */
  readonly replySeconds?: number;
  /** Requests at once where the caller does not say. */
  readonly atOnce?: number;
  /** What the program writes to stderr; default: shown on ours, up to 64 KiB. */
  readonly onStderr?: (chunk: Buffer) => void;
}

const REPLY_SECONDS = 600;
const AT_ONCE = 8;
/** Most bytes of one reply. */
const MOST_BYTES = 2 ** 24;
/** Most bytes of stderr that are shown. */
const SHOWN_BYTES = 2 ** 16;
const TAIL_CHARACTERS = 300;
const LONGEST_NAME = 200;
/** For a program to end by itself after its input was closed. */
const GRACE_MS = 500;

const count = z.int().min(0).optional();
const replyShape = z.union([
  z.object({ id: z.int(), error: z.string().max(MOST_BYTES) }),
  z.object({
    id: z.int(),
    text: z.string(),
    finish: z.enum(['stop', 'length']).default('stop'),
    promptTokens: count,
    tokens: count,
  }),
]);

/** One sample that is asked for. */
interface Sample {
  readonly promptIndex: number;
  readonly sampleIndex: number;
  readonly request: object;
  /** Requests that were sent for it. */
  attempts: number;
}

/** A text of the program in a message. Keys go before it is cut: part of one would stay. */
const shortened = (text: string): string =>
  withoutKeys(text).slice(0, TAIL_CHARACTERS).toWellFormed();
const said = (line: Buffer): string => JSON.stringify(shortened(line.toString('utf8')));

/**
 * @param command PROGRAM and ARGS, as on a command line: `python3 agent.py --fast`
 * @throws IsoproError INVALID_ARGUMENT
 */
export function commandBackend(command: string, options: CommandOptions = {}): Backend {
  const [program, ...args] = shellWords(command);
  if (program === undefined)
    throw new IsoproError('INVALID_ARGUMENT', 'command: expected PROGRAM ARGS, got nothing');
  const name = withoutKeys([path.basename(program), ...args].join(' ')).slice(0, LONGEST_NAME);
  const running = new Program(program, args, options);
  return {
    identity: { kind: 'command', name },
    capabilities: TEXT_ONLY,
    sample: (request) => running.sample(request),
    dispose: () => running.dispose(),
  };
}

class Program {
  readonly #program: string;
  readonly #args: readonly string[];
  readonly #options: CommandOptions;
  #process: LineProcess | undefined;
  /** Open requests by id; the oldest first. */
  readonly #open = new Map<number, { readonly sample: Sample; readonly end: Ending }>();
  #ids = 0;
  #timer: NodeJS.Timeout | undefined;
  #hasReplied = false;
  #isDisposed = false;
  /** A fault that was heard while no request was open. */
  #fault: IsoproError | undefined;
  #shown = 0;
  #tail = '';

  constructor(program: string, args: readonly string[], options: CommandOptions) {
    this.#program = program;
    this.#args = args;
    this.#options = options;
  }

  async *sample(request: SampleRequest): AsyncGenerator<Reply, void, undefined> {
    const { signal, maxSequences = this.#options.atOnce ?? AT_ONCE } = request;
    const waiting = samplesOf(request).reverse();
    const ready: Reply[] = [];
    let [open, failure]: [number, unknown] = [0, null];
    let wake = (): void => {};
    const end: Ending = {
      reply: (reply) => {
        ready.push(reply);
        open--;
        wake();
      },
      again: (sample) => {
        waiting.push(sample);
        open--;
        wake();
      },
      fail: (error) => {
        failure ??= error;
        wake();
      },
    };
    const hear = (): void => wake();
    onAbort(signal, hear);
    try {
      for (;;) {
        while (failure === null && signal?.aborted !== true && open < maxSequences) {
          const sample = waiting.pop();
          if (sample === undefined) break;
          open++;
          this.#ask(sample, end);
        }
        const reply = ready.shift();
        if (reply !== undefined) yield reply;
        else if (failure !== null) throw failure;
        else if (signal?.aborted === true || open === 0) return;
        // nothing is heard between the tests above and here
        else await new Promise<void>((heard) => (wake = heard));
      }
    } finally {
      offAbort(signal, hear);
      this.#forget(end);
    }
  }

  async dispose(): Promise<void> {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
    for (const { end } of this.#take())
      end.fail(new IsoproError('OBJECT_DISPOSED', `the back end ${this.#called} was disposed`));
    const process = this.#process;
    this.#process = undefined;
    await process?.end(GRACE_MS);
  }

  get #called(): string {
    return `command:${path.basename(this.#program)}`;
  }

  #ask(sample: Sample, end: Ending): void {
    try {
      if (this.#isDisposed)
        throw new IsoproError('OBJECT_DISPOSED', `the back end ${this.#called} was disposed`);
      const fault = this.#fault;
      this.#fault = undefined;
      if (fault !== undefined) throw fault;
      this.#process ??= this.#start();
      const id = ++this.#ids;
      sample.attempts++;
      this.#open.set(id, { sample, end });
      this.#process.hold(true);
      if (this.#open.size === 1) this.#wait();
      this.#process.say(JSON.stringify({ id, ...sample.request }));
    } catch (error) {
      end.fail(error);
    }
  }

  #start(): LineProcess {
    this.#tail = '';
    const process = new LineProcess({
      program: this.#program,
      args: this.#args,
      env: childEnvironment(),
      mostBytes: MOST_BYTES,
      onLine: (line) => this.#hear(line),
      onLongLine: () => this.#break(`wrote more than ${MOST_BYTES} bytes in one line`),
      onStderr: (chunk) => this.#show(chunk),
      onUnstarted: (cause) => {
        this.#process = undefined;
        this.#endAll(programFailed(`${this.#called} could not be started: ${cause.message}`));
      },
      onEnd: (how, rest) => {
        if (this.#process === process) this.#process = undefined;
        const half = rest.length === 0 ? '' : ` in the middle of the line ${said(rest)}`;
        this.#lose('ended', `the program ended (${how})${half}${this.#lastWords}`);
      },
    });
    return process;
  }

  /** Begins to wait for the next reply, whichever request it answers. */
  #wait(): void {
    clearTimeout(this.#timer);
    if (this.#open.size === 0) {
      this.#process?.hold(false);
      return;
    }
    const { replySeconds = REPLY_SECONDS } = this.#options;
    this.#timer = setTimeout(() => {
      this.#process?.kill();
      this.#process = undefined;
      this.#lose('timeout', `the program wrote no reply for ${replySeconds} s${this.#lastWords}`);
    }, 1000 * replySeconds);
  }

  /** The oldest request has failed with the program; the others are asked again. */
  #lose(kind: SampleFailure['kind'], message: string): void {
    const [first, ...others] = this.#take();
    if (first === undefined) return;
    if (!this.#hasReplied) {
      const error = programFailed(`${this.#called}: ${message}, and had replied to nothing before`);
      for (const { end } of [first, ...others]) end.fail(error);
      return;
    }
    first.end.reply(failed(first.sample, kind, message));
    for (const { sample, end } of others) end.again(sample);
  }

  #hear(line: Buffer): void {
    let reply: z.output<typeof replyShape>;
    try {
      reply = replyShape.parse(JSON.parse(line.toString('utf8')));
    } catch {
      this.#break(`wrote a line that is not a reply: ${said(line)}`);
      return;
    }
    const found = this.#open.get(reply.id);
    if (found === undefined) {
      const isOld = reply.id > 0 && reply.id <= this.#ids;
      this.#break(
        isOld
          ? `replied to request ${reply.id} a second time`
          : `replied to request ${reply.id}, which was not made`,
      );
      return;
    }
    this.#hasReplied = true;
    this.#open.delete(reply.id);
    this.#wait();
    const { sample, end } = found;
    const { promptIndex, sampleIndex } = sample;
    if ('error' in reply) {
      end.reply(failed(sample, 'program', shortened(reply.error)));
      return;
    }
    const { text, finish, promptTokens, tokens } = reply;
    end.reply({
      promptIndex,
      sampleIndex,
      text: text.toWellFormed(),
      finish,
      ...given({ promptTokens, tokens }),
    });
  }

  /** The program does not keep the protocol: nothing of it is believed. */
  #break(what: string): void {
    this.#process?.kill();
    this.#process = undefined;
    const message = `the program of the back end ${this.#called} ${what}`;
    const error = new IsoproError('BACKEND_REPLY_INVALID', message, { remedy: PROTOCOL });
    if (this.#open.size === 0) this.#fault = error;
    this.#endAll(error);
  }

  #endAll(error: IsoproError): void {
    for (const { end } of this.#take()) end.fail(error);
  }

  /** The open requests, which are closed. */
  #take() {
    clearTimeout(this.#timer);
    const open = [...this.#open.values()];
    this.#open.clear();
    return open;
  }

  /** Nobody waits for the replies of these requests: the program that works on them is ended. */
  #forget(of: Ending): void {
    const left = [...this.#open].filter(([, { end }]) => end === of);
    if (left.length === 0) return;
    for (const [id] of left) this.#open.delete(id);
    const others = this.#take();
    this.#process?.kill();
    this.#process = undefined;
    for (const { sample, end } of others) end.again(sample);
  }

  get #lastWords(): string {
    const words = this.#tail.trim().split('\n').at(-1)!.toWellFormed();
    return words === '' ? '' : `: ${words}`;
  }

  #show(chunk: Buffer): void {
    this.#tail = withoutKeys(this.#tail + chunk.toString('utf8')).slice(-TAIL_CHARACTERS);
    if (this.#options.onStderr !== undefined) {
      this.#options.onStderr(chunk);
      return;
    }
    if (this.#shown > SHOWN_BYTES) return;
    process.stderr.write(chunk.subarray(0, SHOWN_BYTES - this.#shown));
    this.#shown += chunk.length;
    if (this.#shown > SHOWN_BYTES)
      process.stderr.write(`\n[further output of ${this.#called} is not shown]\n`);
  }
}

/** What becomes of a sample. */
interface Ending {
  readonly reply: (reply: Reply) => void;
  readonly again: (sample: Sample) => void;
  readonly fail: (error: unknown) => void;
}

const PROTOCOL =
  'Let the program write one JSON line a reply to stdout, and everything else to stderr. See `docs/backends.md`.';

const programFailed = (message: string): IsoproError =>
  new IsoproError('BACKEND_PROGRAM_FAILED', message);

const failed = (
  { promptIndex, sampleIndex, attempts }: Sample,
  kind: SampleFailure['kind'],
  message: string,
): Reply => ({
  promptIndex,
  sampleIndex,
  text: '',
  finish: 'failed',
  failure: { kind, message, attempts },
});

/** Samples in the order of the prompts, each with its line but for the id. */
const samplesOf = ({ prompts, sampling, maxTokens, stop }: SampleRequest): Sample[] =>
  prompts.flatMap(({ id, messages, seeds }, promptIndex) =>
    seeds.map((seed, sampleIndex) => ({
      promptIndex,
      sampleIndex,
      request: {
        prompt: id,
        sample: sampleIndex,
        messages: messages.map(({ role, content }) => ({ role, content })),
        maxTokens,
        ...sampling,
        // 64 bits are more than a number of JSON keeps
        seed: String(seed),
        ...given({ stop }),
      },
      attempts: 0,
    })),
  );
