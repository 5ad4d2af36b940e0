/** Messages between the opener of a task and the thread or Python process that holds it. */
import type { IsoproError } from '../errors.js';
import type { DataProgram } from './data/program.js';
import type { Graded } from './data/score-model.js';
import type { PythonModule } from './python-module.js';
import type { BuiltInId } from './registry.js';
import type { ChatMessage } from './task.js';
import type { CalledMember } from './task-shape.js';

/**
 * Task that a thread or Python process holds: a user's file as a bundle, a user's data or module,
 * or a built-in task.
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
/** Cancels the running call. */
export type WorkerAbort = { readonly abort: number };
/** Answer to a question of the thread. */
export type WorkerAnswer = { readonly answer: number; readonly graded: Graded };
export type WorkerReply =
  | { readonly started: true }
  | { readonly call: number; readonly value: unknown }
  | { readonly call: number; readonly member: string; readonly message: string }
  /** Question to the model of a check during a call. */
  | { readonly ask: number; readonly messages: readonly ChatMessage[] }
  /** Reply of a process that lacks something the task needs. */
  | { readonly call: number; readonly error: IsoproError };
