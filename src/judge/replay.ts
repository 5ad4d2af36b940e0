import type { z } from 'zod';
import { valueOf } from '../dictionary.js';
import type { LogRecord } from '../log/read.js';
import { adapterState, gate, type AdapterTargets } from '../run-folder/records.js';
import type { LoraOperation } from '../trainees/lora/operations.js';
import type { LoraEffect } from '../trainees/lora/trainee.js';
import { HardFail } from './hard-fail.js';

/**
 * Step 6: the adapter's structure from its first state and every executed change. What the run says of itself (later states, the
 * submission) and what the file's tensors say has to be that.
 */

const fail = (detail: string): never => {
  throw new HardFail('architecture_replay', detail);
};

function parsed<T>(schema: z.ZodType<T>, { gseq, payload }: LogRecord): T {
  const result = schema.safeParse(payload);
  return result.success ? result.data : fail(`record ${gseq} has not the form of its kind`);
}

/** Scales pass through f32. */
const sameScale = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-5 * Math.abs(b);

/** The first difference between two structures, or null. @param scales false where a file has them multiplied in */
export function structureDifference(expected: AdapterTargets, found: AdapterTargets, scales = true): string | null {
  for (const module of [...new Set([...Object.keys(expected), ...Object.keys(found)])].sort()) {
    const [a, b] = [valueOf(expected, module), valueOf(found, module)];
    if (a === undefined || b === undefined) return `${module} is ${a === undefined ? 'there and should not be' : 'missing'}`;
    if (a.rank !== b.rank) return `${module} has rank ${b.rank} and should have ${a.rank}`;
    if (scales && !sameScale(b.scale, a.scale)) return `${module} has scale ${b.scale} and should have ${a.scale}`;
  }
  return null;
}

/** What an executed operation makes of a structure. @throws HardFail where it could not have been executed on it */
function apply(
  operation: LoraOperation,
  measured: LoraEffect['measured'],
  current: AdapterTargets,
  states: ReadonlyMap<string, AdapterTargets>,
  at: number,
): AdapterTargets {
  const target = 'module' in operation ? valueOf(current, operation.module) : undefined;
  if ('module' in operation && operation.op !== 'add_target' && target === undefined)
    return fail(`record ${at}: ${operation.op} on ${operation.module}, which is not adapted`);
  switch (operation.op) {
    case 'raise_rank':
      if (target!.rank !== operation.from)
        return fail(`record ${at}: raise_rank from ${operation.from}, and ${operation.module} has rank ${target!.rank}`);
      return { ...current, [operation.module]: { ...target!, rank: operation.to } };
    case 'add_target':
      if (target !== undefined) return fail(`record ${at}: add_target on ${operation.module}, which is adapted already`);
      if (typeof measured.scale !== 'number') return fail(`record ${at}: add_target measured no scale`);
      return { ...current, [operation.module]: { rank: operation.rank, scale: measured.scale } };
    case 'rescale':
      return { ...current, [operation.module]: { ...target!, scale: target!.scale * operation.factor } };
    case 'recycle':
      if (operation.directions.some((direction) => direction >= target!.rank))
        return fail(`record ${at}: recycle names directions beyond the rank of ${operation.module}`);
      return current;
    case 'rollback':
    case 'stop': {
      const digest = operation.op === 'stop' ? operation.restore : operation.to;
      return states.get(digest) ?? fail(`record ${at}: ${operation.op} goes back to ${digest}, of which the log holds no state`);
    }
    default:
      return current;
  }
}

/**
 * Replays the live records.
 * @returns the structure at the end; null where nothing was ever adapted
 * @throws HardFail
 */
export function replayStructure(records: readonly LogRecord[]): AdapterTargets | null {
  const states = new Map<string, AdapterTargets>();
  let current: AdapterTargets | null = null;
  // steps are logged with their iteration's evaluation, after a gate may have gone back from what they trained
  let latest: { readonly iteration: number; readonly targets: AdapterTargets } | null = null;
  const names = (targets: object): string => Object.keys(targets).sort().join();
  for (const record of records) {
    const { gseq, stream, payload } = record;
    if (stream === 'metrics' && payload.kind === 'adapter_state') {
      const state = parsed(adapterState, record);
      const difference: string | null = current === null ? null : structureDifference(current, state.targets);
      if (difference !== null) fail(`the state in record ${gseq}: ${difference}`);
      current ??= state.targets;
      latest = { iteration: state.iteration, targets: current };
      states.set(state.digest, current);
    } else if (stream === 'metrics' && payload.kind === 'step') {
      if (current === null) return fail(`the step in record ${gseq} comes before the first state of an adapter`);
      // a module that is no longer measured would look cured
      const trained: AdapterTargets = latest?.iteration === payload.iteration ? latest!.targets : current;
      if (names(payload.modules as object) !== names(trained)) fail(`the step in record ${gseq} measured other modules than are adapted`);
    } else if (stream === 'effects' && payload.kind === 'effect' && payload.executed === true) {
      if (current === null) return fail(`the effect in record ${gseq} comes before the first state of an adapter`);
      const { operation, measured } = payload as unknown as LoraEffect;
      const next = apply(operation, measured, current, states, gseq);
      if (operation.op === 'raise_rank' && measured.rank !== operation.to)
        fail(`record ${gseq}: raise_rank to ${operation.to} measured rank ${measured.rank ?? 'none'}`);
      current = next;
    } else if (stream === 'effects' && payload.kind === 'gate') {
      const { restored } = parsed(gate, record);
      current = states.get(restored) ?? fail(`record ${gseq}: the gate goes back to ${restored}, of which the log holds no state`);
    }
  }
  return current;
}
