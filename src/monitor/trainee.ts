/**
 * Description of what is trained: its measurements, its operations and its restorable states. The
 * trainee brings all of it as data; the monitor knows no kind of model.
 */
import type { z } from 'zod';
import type { Dictionary } from '../dictionary.js';
import type { Step } from './measurements.js';
import type { BreachSide, RuleId } from './rules.js';

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
  /** Description with its unit. */
  readonly what: string;
  /** Value for records from before this signal was measured; without it they are unreadable. */
  readonly absent?: number;
}

/** Something that is done to a running trainee; its parameters are its description's to say. */
export interface Operation {
  readonly op: string;
}

/** Measured consequences of an operation, by name. */
export type Measured = Readonly<Record<string, number | string>>;

/** Structure of a trainee by module name. */
export type Structure<M = unknown> = Dictionary<M>;

export interface ModuleForm<M = unknown> {
  readonly form: z.ZodType<M>;
  /**
   * Describes the first difference between two modules; null if there is none.
   * @param exported true if `found` comes from an exported file, which may not show everything
   */
  difference(expected: M, found: M, exported: boolean): string | null;
}

/** Evidence in the log that an operation was executed; without it, it was not. */
export interface Consequence {
  /** Measurements of its effect; numbers to one part in a million. */
  readonly measured?: Measured;
  /**
   * Base learning rate from then on: its effect measured it as `learningRate`, and the next step
   * ran at that rate times the schedule's factor.
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
  /** Parameters: all members except `op`. */
  readonly parameters: z.ZodRawShape;
  /** Returns why well-formed parameters are not valid for a direction; null if they are. */
  objection?(operation: O, direction: string): string | null;
  /**
   * Returns the expected consequences; without this member, an effect that states its execution is
   * enough.
   */
  consequence?(operation: O): Consequence;
  /**
   * Returns the structure after the operation; without this member the structure stays, or is that
   * of the restored state.
   * @returns a text that says why it cannot have been executed on that structure
   */
  restructure?(operation: O, structure: Structure<M>, measured: Measured): Structure<M> | string;
}

/** A rule that fired, and what it fired on, as far as the cure depends on it. */
export interface Breach<S = unknown> {
  readonly rule: RuleId;
  readonly side: BreachSide;
  /** Modules that breach, if the rule looks at modules. */
  readonly modules: readonly string[];
  /** Fired again soon after its remedy was executed. */
  readonly recurrence: boolean;
  readonly settings: S;
}

/** One cure of a breach, with everything filled in. */
export interface Remedy<O extends Operation = Operation> {
  /** Stable name, the same in every run: `set_lr x1/5`. */
  readonly id: string;
  /** What it does, in words. */
  readonly words: string;
  /** Operations in this order: all of one class of event, and serving the rule's direction. */
  readonly edit: readonly O[];
}

/** The types of one kind of trainee. */
export interface TraineeTypes {
  /** Settings that a policy sees during training. */
  readonly settings: unknown;
  readonly operation: Operation;
  readonly step: Step;
  /** Structure of one module. */
  readonly module: unknown;
}

export interface Trainee<T extends TraineeTypes = TraineeTypes> {
  readonly id: string;
  /** Signals by their names in a step and its record, in addition to those of every step. */
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
  /**
   * Returns every remedy that is admissible for a breach, none twice; empty where none is left.
   */
  remedies(breach: Breach<T['settings']>): readonly Remedy<T['operation']>[];
  /** Returns the digests of the restorable states, by name. */
  snapshots(settings: T['settings']): Readonly<Record<string, string>>;
}
