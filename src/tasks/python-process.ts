/**
 * Python process that holds one task, with the interface of a worker thread (`task-thread.ts`):
 * messages in and out, and an end if it hangs. It runs `assets/python/bridge.py`.
 */
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { childEnvironment } from '../keys.js';
import { LineProcess } from '../line-process.js';
import type { PythonModule } from './python-module.js';
import { readResult, type PythonDescription } from './python-results.js';
import { MemberError } from './task-shape.js';
import type {
  WorkerAbort,
  WorkerAnswer,
  WorkerCall,
  WorkerMethod,
  WorkerReply,
} from './thread-messages.js';

const PROGRAM = fileURLToPath(new URL('../../../assets/python/bridge.py', import.meta.url));
const LEAST_PYTHON = [3, 10] as const;
/** Most bytes of one line of its output. */
const MOST_BYTES = 2 ** 24;
/** Most bytes of printed output that are shown. */
const SHOWN_BYTES = 2 ** 16;
const TAIL_CHARACTERS = 300;
/** Growth since loading that counts as much memory; bridge.py allows 4 GiB. */
const MUCH_MEMORY = 1e9;

const replyShape = z.union([
  z.strictObject({ python: z.array(z.int()).length(2) }),
  z.strictObject({ call: z.int(), value: z.unknown() }),
  z.strictObject({ call: z.int(), member: z.string(), message: z.string() }),
  z.strictObject({
    call: z.int(),
    code: z.enum(['PYTHON_UNAVAILABLE', 'TASK_UNKNOWN']),
    message: z.string(),
  }),
]);

function readReply(line: Buffer): z.output<typeof replyShape> | null {
  try {
    const result = replyShape.safeParse(JSON.parse(line.toString('utf8')));
    return result.success ? result.data : null;
  } catch {
    return null;
  }
}

/** Emits `message` (WorkerReply), `error` and `exit`, as a worker thread does. */
export class PythonProcess extends EventEmitter {
  readonly #program: PythonModule;
  readonly #process: LineProcess;
  #asked: WorkerCall | undefined;
  #printed = 0;
  #tail = '';
  #greeted = false;
  #failed = false;
  readonly #clockAhead: number;
  #loadedBytes: number | null = null;

  /**
   * @param clockAhead seconds by which the clock of the process is ahead
   * @throws IsoproError SYSTEM_LIMIT if the system starts no further process
   */
  constructor(program: PythonModule, clockAhead = 0) {
    super();
    this.#program = program;
    this.#clockAhead = clockAhead;
    this.#process = new LineProcess({
      program: program.interpreter,
      args: [PROGRAM],
      // a fixed order of sets; nothing is written beside the user's files
      env: childEnvironment({
        PYTHONHASHSEED: '0',
        PYTHONUTF8: '1',
        PYTHONDONTWRITEBYTECODE: '1',
      }),
      mostBytes: MOST_BYTES,
      onLine: (line) => this.#read(line),
      onLongLine: () =>
        this.#endAsBroken(`its process wrote more than ${MOST_BYTES} bytes in one line`),
      onStderr: (chunk) => this.#show(chunk),
      onUnstarted: (cause) => {
        const reason = `cannot start Python as ${JSON.stringify(program.interpreter)}: ${cause.message}`;
        this.#fail(new IsoproError('PYTHON_UNAVAILABLE', reason, { cause }));
      },
      onEnd: (how) => {
        const said = this.#tail.trim().split('\n').at(-1)!.toWellFormed();
        const reason = `its process ended (${how})${said === '' ? '' : `: ${said}`}`;
        this.#fail(
          !this.#greeted && program.loaded.sha256 === undefined
            ? new IsoproError(
                'PYTHON_UNAVAILABLE',
                `${program.interpreter} did not run as Python: ${reason}`,
              )
            : new Error(reason),
        );
      },
    });
    void this.#process.ended.then((code) => this.emit('exit', code));
  }

  postMessage(message: WorkerCall | WorkerAbort | WorkerAnswer): void {
    // it does not listen while it judges, and is ended after the time that a thread is given
    if (!('call' in message)) return;
    const { call, method, args } = message;
    this.#asked = message;
    const { module, file, name, check } = this.#program;
    const asked: Partial<Record<WorkerMethod, readonly [string, readonly unknown[]]>> = {
      load: ['load', [module, file, name, check, this.#clockAhead]],
      judge: ['judge', args.slice(0, 2)],
      answer: ['judge', args],
      referenceReply: ['solution', args.slice(0, 1)],
    };
    const [python, given] = asked[method] ?? [method, args];
    // 64 bits are more than a number of JSON keeps
    const plain = given.map((value) => (typeof value === 'bigint' ? String(value) : value));
    this.#process.say(JSON.stringify({ call, method: python, arguments: plain }));
  }

  ref(): void {
    this.#process.hold(true);
  }

  unref(): void {
    this.#process.hold(false);
  }

  /** Ends the process at once, with everything that it has started. */
  async terminate(): Promise<number> {
    this.#failed = true;
    this.ref();
    this.#process.kill();
    return this.#process.ended;
  }

  #read(line: Buffer): void {
    const reply = readReply(line);
    if (reply === null && !this.#greeted && this.#program.loaded.sha256 === undefined) {
      const said = JSON.stringify(line.toString('utf8').slice(0, TAIL_CHARACTERS).toWellFormed());
      const { interpreter } = this.#program;
      this.#process.kill();
      this.#fail(
        new IsoproError(
          'PYTHON_UNAVAILABLE',
          `${interpreter} printed unexpected output on startup: ${said}`,
        ),
      );
      return;
    }
    if (reply === null) {
      this.#endAsBroken('its process wrote something that is not a reply');
      return;
    }
    if ('python' in reply) {
      this.#greeted = true;
      const [major, minor] = reply.python as [number, number];
      if (major > LEAST_PYTHON[0] || (major === LEAST_PYTHON[0] && minor >= LEAST_PYTHON[1])) {
        this.#give({ started: true });
        return;
      }
      const reason = `${this.#program.interpreter} is Python ${major}.${minor}, but ${LEAST_PYTHON.join('.')} or newer is needed`;
      this.#fail(new IsoproError('PYTHON_UNAVAILABLE', reason));
      return;
    }
    const asked = this.#asked;
    if (reply.call !== asked?.call) {
      this.#endAsBroken('its process answered a call that was not made');
      return;
    }
    if ('code' in reply) {
      this.#give({ call: reply.call, error: new IsoproError(reply.code, reply.message) });
      return;
    }
    if ('member' in reply) {
      this.#give(reply);
      return;
    }
    try {
      const value = readResult(asked.method, asked.args, reply.value);
      if (asked.method === 'load') {
        this.#requireSame(value as PythonDescription);
        this.#loadedBytes = this.#dataBytes();
      }
      this.#give({ call: reply.call, value });
    } catch (error) {
      const member = error instanceof MemberError ? error.member : asked.method;
      this.#give({ call: reply.call, member, message: (error as Error).message });
    }
  }

  /** Note for a timeout: a verifier that fills the memory is late before the limit refuses it. */
  get tookBeside(): string {
    const bytes = this.#dataBytes();
    return bytes !== null && this.#loadedBytes !== null && bytes - this.#loadedBytes > MUCH_MEMORY
      ? ', and by then had asked for more than 1 GB of memory'
      : '';
  }

  /** Bytes that count towards the memory limit; null if the system does not tell. */
  #dataBytes(): number | null {
    try {
      const found = /^VmData:\s+(\d+) kB/m.exec(
        readFileSync(`/proc/${this.#process.pid}/status`, 'utf8'),
      );
      return found === null ? null : 1024 * Number(found[1]);
    } catch {
      return null;
    }
  }

  #requireSame({ sha256 }: PythonDescription): void {
    const { loaded } = this.#program;
    loaded.sha256 ??= sha256;
    if (loaded.sha256 !== sha256)
      throw new MemberError('module', 'was changed while the task was open');
  }

  #show(chunk: Buffer): void {
    this.#tail = (this.#tail + chunk.toString('utf8')).slice(-TAIL_CHARACTERS);
    if (this.#program.silent === true || this.#printed > SHOWN_BYTES) return;
    process.stderr.write(chunk.subarray(0, SHOWN_BYTES - this.#printed));
    this.#printed += chunk.length;
    if (this.#printed > SHOWN_BYTES)
      process.stderr.write(`\n[further output of ${this.#program.specifier} is not shown]\n`);
  }

  #give(reply: WorkerReply): void {
    if (!this.#failed) this.emit('message', reply);
  }

  #endAsBroken(why: string): void {
    this.#process.kill();
    this.#fail(new Error(why));
  }

  #fail(error: Error): void {
    if (this.#failed) return;
    this.#failed = true;
    this.emit('error', error);
  }
}
