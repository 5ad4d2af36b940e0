/**
 * What the monitor knows of a thing that is trained: what it measures, what can be done to it, what
 * it can be put back to. All of it is data that the trainee brings along; the monitor itself knows
 * of no kind of model.
 */
import type { z } from 'zod';
import type { Dictionary } from '../dictionary.js';
import type { Step } from './measurements.js';

export const EVENT_TYPES = [
  'hyperparameter_change',
  'architecture_change',
  'rule_triggered_no_action',
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** A number that a step measures: of the whole trainee, or of each of its modules. */
export interface SignalForm {
  /** `indices`: a list of whole numbers from 0. */
  readonly form: 'number' | 'indices';
  /** In words, with its unit. */
  readonly what: string;
  /**
   * What records stand for that were written before it was measured; without it they are
   * unreadable.
   */
  readonly absent?: number;
}

/** Something that is done to a running trainee; its parameters are its description's to say. */
export interface Operation {
  readonly op: string;
}

/** What an operation led to, as it was measured on the trainee, by name. */
export type Measured = Readonly<Record<string, number | string>>;

/** What a trainee is made of, by the names of its modules. */
export type Structure<M = unknown> = Dictionary<M>;

export interface ModuleForm<M = unknown> {
  readonly form: z.ZodType<M>;
  /**
   * In what a module is another than it should be, in words; null where in nothing.
   * @param exported as an exported file has it, which may not show all
   */
  difference(expected: M, found: M, exported: boolean): string | null;
}

/** What the log shows of an operation that was executed; where it does not, it was not. */
export interface Consequence {
  /** Its effect's measurements, numbers to one part in a million. */
  readonly measured?: Measured;
  /**
   * Base learning rate from then on: its effect measured it as `learningRate`, and the next step
   * ran at what the schedule makes of it.
   */
  readonly learningRate?: number;
  /**
   * Digest of the state that it puts back: its effect measured it as `restored`, and the structure
   * is that state's.
   */
  readonly restores?: string;
  /** No iteration follows. */
  readonly ends?: true;
}

export interface OperationForm<O extends Operation = Operation, M = unknown> {
  readonly event: EventType;
  /** Directions of the rule set that it serves. */
  readonly directions: readonly string[];
  /** All members but `op`. */
  readonly parameters: z.ZodRawShape;
  /**
   * Why parameters of the right form do not hold where it serves that direction; null where they
   * do.
   */
  objection?(operation: O, direction: string): string | null;
  /** Without it an effect that says that it was executed is enough. */
  consequence?(operation: O): Consequence;
  /**
   * What it makes of the structure; without it the structure stays, or is that of the state that it
   * puts back.
   * @returns a text where it cannot have been executed on that structure: why
   */
  restructure?(operation: O, structure: Structure<M>, measured: Measured): Structure<M> | string;
}

/** The types of one kind of trainee. */
export interface TraineeTypes {
  /** What a policy may know of it while it trains. */
  readonly settings: unknown;
  readonly operation: Operation;
  readonly step: Step;
  /** What its structure has of one module. */
  readonly module: unknown;
}

export interface Trainee<T extends TraineeTypes = TraineeTypes> {
  readonly id: string;
  /** By the names that they have in a step and in its record, beside those that every step has. */
  readonly signals: {
    readonly step: Readonly<Record<string, SignalForm>>;
    readonly module: Readonly<Record<string, SignalForm>>;
  };
  readonly operations: {
    readonly [Op in T['operation']['op']]: OperationForm<
      Extract<T['operation'], { readonly op: Op }>,
      T['module']
    >;
  };
  readonly structure: ModuleForm<T['module']>;
  /** Digests of the states that it can be put back to, by what they are called. */
  snapshots(settings: T['settings']): Readonly<Record<string, string>>;
}
