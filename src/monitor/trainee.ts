/**
 * What the monitor knows of a thing that is trained: what it measures, what can be done to it, what it can be put back to. All of it is
 * data that the trainee brings along; the monitor itself knows of no kind of model.
 */
import type { z } from 'zod';
import type { Step } from './measurements.js';

export const EVENT_TYPES = ['hyperparameter_change', 'architecture_change', 'rule_triggered_no_action'] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** A number that a step measures: of the whole trainee, or of each of its modules. */
export interface SignalForm {
  /** `indices`: a list of whole numbers from 0. */
  readonly form: 'number' | 'indices';
  /** In words, with its unit. */
  readonly what: string;
  /** What records stand for that were written before it was measured; without it they are unreadable. */
  readonly absent?: number;
}

/** Something that is done to a running trainee; its parameters are its description's to say. */
export interface Operation {
  readonly op: string;
}

export interface OperationForm<O extends Operation = Operation> {
  readonly event: EventType;
  /** Directions of the rule set that it serves. */
  readonly directions: readonly string[];
  /** All members but `op`. */
  readonly parameters: z.ZodRawShape;
  /** Why parameters of the right form do not hold where it serves that direction; null where they do. */
  objection?(operation: O, direction: string): string | null;
}

/** The types of one kind of trainee. */
export interface TraineeTypes {
  /** What a policy may know of it while it trains. */
  readonly settings: unknown;
  readonly operation: Operation;
  readonly step: Step;
}

export interface Trainee<T extends TraineeTypes = TraineeTypes> {
  readonly id: string;
  /** By the names that they have in a step and in its record, beside those that every step has. */
  readonly signals: { readonly step: Readonly<Record<string, SignalForm>>; readonly module: Readonly<Record<string, SignalForm>> };
  readonly operations: { readonly [Op in T['operation']['op']]: OperationForm<Extract<T['operation'], { readonly op: Op }>> };
  /** Digests of the states that it can be put back to, by what they are called. */
  snapshots(settings: T['settings']): Readonly<Record<string, string>>;
}
