/**
 * What is said between whoever opened a task and the thread, or the process of Python, that holds
 * it.
 */
import type { IsoproError } from '../errors.js';
import type { DataProgram } from './data/program.js';
import type { Graded } from './data/score-model.js';
import type { PythonModule } from './python-module.js';
import type { BuiltInId } from './registry.js';
import type { ChatMessage } from './task.js';
import type { CalledMember } from './task-shape.js';

/**
 * What a thread, or a process of Python, is to hold: a user's file as a bundle, a user's data or
 * module, or one of our own tasks.
 */
export type ThreadTask = (
  | {
      readonly kind: 'bundle';
      readonly path: string;
      readonly code: string;
      readonly sourceMap: string;
      readonly silent: boolean;
    }
  | { readonly kind: 'data'; readonly program: DataProgram }
  | { readonly kind: 'built-in'; readonly id: BuiltInId }
  | { readonly kind: 'python'; readonly program: PythonModule }
) & {
  /** Seconds by which its clock is ahead; absent: none. */
  readonly clockAhead?: number;
};

/** The calls that a thread answers: members of the task, and `methods` of task-worker.ts. */
export type WorkerMethod = CalledMember | 'load' | 'judge' | 'judgeLeniently' | 'answer' | 'policy';

export type WorkerCall = {
  readonly call: number;
  readonly method: WorkerMethod;
  readonly args: readonly unknown[];
};
/** To the call that is going on: nobody waits for it any more. */
export type WorkerAbort = { readonly abort: number };
/** To what the thread has asked. */
export type WorkerAnswer = { readonly answer: number; readonly graded: Graded };
export type WorkerReply =
  | { readonly started: true }
  | { readonly call: number; readonly value: unknown }
  | { readonly call: number; readonly member: string; readonly message: string }
  /** What the model of a check is asked, while a call goes on. */
  | { readonly ask: number; readonly messages: readonly ChatMessage[] }
  /** Of a process: what the task needs is not there. */
  | { readonly call: number; readonly error: IsoproError };
