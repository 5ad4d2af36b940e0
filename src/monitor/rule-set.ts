/**
 * The seven rules as one kind of trainee is watched by them: what they read of it, and what answers
 * them.
 */
import { createHash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import type { BreachSide, RuleConfig, RuleId } from './rules.js';
import type { EventType, Trainee, TraineeTypes } from './trainee.js';

export interface RuleSet {
  readonly id: string;
  /** Names of the modules' signals that the rules read; null if the trainee has no such signal. */
  readonly signals: {
    /** R1: how far a step moved a module, for its size. */
    readonly change: string;
    /** R6, R7: norm of a module's gradient before clipping. */
    readonly gradient: string;
    /**
     * R5: part of a module that contributes next to nothing; without it the rule has no reading.
     */
    readonly dormancy: string | null;
    /** R4: part of its capacity that a module uses; without it a flat objective alone decides. */
    readonly capacity: string | null;
    /**
     * R5, R6: above 0 if a module has begun to contribute, before which it is neither dormant nor
     * vanishing.
     */
    readonly begun: string | null;
  };
  /** Classes of event that answer a rule, and the direction that cures a breach on a side. */
  readonly answers: Readonly<
    Record<
      RuleId,
      {
        readonly events: readonly EventType[];
        readonly directions: Readonly<Partial<Record<BreachSide, string>>>;
      }
    >
  >;
  /**
   * The contract between monitor and policy as one Markdown text, its thresholds filled in. Its
   * hash is part of a run's genesis, and every policy gets it.
   */
  playbook(config: RuleConfig): string;
}

/** A trainee, and the rules that watch it. */
export interface Watched<T extends TraineeTypes = TraineeTypes> {
  readonly trainee: Trainee<T>;
  readonly ruleSet: RuleSet;
}

/**
 * Returns the direction that cures a breach on a side; null if the rule does not have that side.
 */
export const expectedDirection = (
  { answers }: RuleSet,
  rule: RuleId,
  side: BreachSide,
): string | null => answers[rule].directions[side] ?? null;

const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex');

/** Returns the digests that a run commits to in its genesis. */
export function monitorDigests(
  ruleSet: RuleSet,
  config: RuleConfig,
): { readonly playbook: string; readonly rules: string } {
  return {
    playbook: sha256(ruleSet.playbook(config)),
    rules: sha256(canonicalJson(config as unknown as Json)),
  };
}
