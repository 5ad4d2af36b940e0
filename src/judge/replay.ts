import { ownValue } from '../dictionary.js';
import type { LogRecord } from '../log/read.js';
import type { Effect } from '../monitor/remedies.js';
import type { OperationForm, Structure, Trainee, TraineeTypes } from '../monitor/trainee.js';
import { effectForm } from '../run-folder/monitor-records.js';
import {
  adapterState,
  gate,
  structureOf,
  weakened,
  type AdapterTargets,
} from '../run-folder/course-records.js';
import { readRecord } from '../run-folder/record.js';
import { LORA } from '../trainees/lora/trainee.js';
import { failing } from './hard-fail.js';
import type { Step } from './step.js';
import { plural } from './trace.js';

/**
 * The trainee's structure from its first state and every executed change. What the run says of
 * itself (later states, the submission) and what the file's tensors say has to be that.
 */

const fail = failing('architecture_replay');

/**
 * Returns the first difference between two structures, or null.
 * @param exported true if `found` comes from an exported file
 */
export function structureDifference<T extends TraineeTypes>(
  { structure: { difference } }: Trainee<T>,
  expected: Structure<T['module']>,
  found: Structure<T['module']>,
  exported = false,
): string | null {
  for (const module of [...new Set([...Object.keys(expected), ...Object.keys(found)])].sort()) {
    const [a, b] = [ownValue(expected, module), ownValue(found, module)];
    if (a === undefined || b === undefined)
      return `${module} is ${a === undefined ? 'present but should not be' : 'missing'}`;
    const other = difference(a, b, exported);
    if (other !== null) return `${module} ${other}`;
  }
  return null;
}

/**
 * Replays the live records.
 * @returns the structure at the end; null if nothing was ever adapted
 * @throws HardFail
 */
export function replayStructure<T extends TraineeTypes>(
  records: readonly LogRecord[],
  trainee: Trainee<T>,
): Structure<T['module']> | null {
  const operations: Readonly<Record<string, OperationForm<T['operation'], T['module']>>> =
    trainee.operations;
  const stateForm = adapterState.extend({ targets: structureOf(trainee.structure.form) });
  const loggedEffect = effectForm(trainee);
  const states = new Map<string, Structure<T['module']>>();
  const stateOf = (digest: string, who: string): Structure<T['module']> =>
    states.get(digest) ?? fail(`${who} restores ${digest}, but the log has no such state`);
  let current: Structure<T['module']> | null = null;
  // steps are logged with their iteration's evaluation, after a gate may have gone back from what
  // they trained
  let latest: { readonly iteration: number; readonly targets: Structure<T['module']> } | null =
    null;
  const names = (targets: object): string => Object.keys(targets).sort().join();
  /** Returns the structure after an executed operation. */
  const apply = (
    { operation, measured }: Effect<T['operation']>,
    structure: Structure<T['module']>,
    at: number,
  ) => {
    const { consequence, restructure } = operations[operation.op] as OperationForm<
      T['operation'],
      T['module']
    >;
    const restores = consequence?.(operation).restores;
    const before =
      restores === undefined ? structure : stateOf(restores, `record ${at}: ${operation.op}`);
    const after = restructure?.(operation, before, measured) ?? before;
    return typeof after === 'string' ? fail(`record ${at}: ${after}`) : after;
  };
  for (const record of records) {
    const { gseq, stream, payload } = record;
    if (stream === 'metrics' && payload.kind === 'adapter_state') {
      const state = readRecord(stateForm, record, fail);
      const difference: string | null =
        current === null ? null : structureDifference(trainee, current, state.targets);
      if (difference !== null) fail(`the state in record ${gseq}: ${difference}`);
      current ??= state.targets;
      latest = { iteration: state.iteration, targets: current };
      states.set(state.digest, current);
    } else if (stream === 'metrics' && payload.kind === 'step') {
      if (current === null)
        return fail(`the step in record ${gseq} comes before the first adapter state`);
      // a module that is no longer measured would seem cured
      const trained: Structure<T['module']> =
        latest?.iteration === payload.iteration ? latest!.targets : current;
      if (names(payload.modules as object) !== names(trained))
        fail(`the step in record ${gseq} did not measure the adapted modules`);
    } else if (stream === 'effects' && payload.kind === 'effect' && payload.executed === true) {
      if (current === null)
        return fail(`the effect in record ${gseq} comes before the first adapter state`);
      current = apply(readRecord(loggedEffect, record, fail), current, gseq);
    } else if (stream === 'effects' && payload.kind === 'gate') {
      current = stateOf(readRecord(gate, record, fail).restored, `record ${gseq}: the gate`);
    }
  }
  return current;
}

export const architectureReplay: Step<'records' | 'submitted' | 'targets'> = {
  name: 'architecture_replay',
  gate: 'hard_fail_gate',
  run: ({ records, submitted, targets }) => {
    const { adapter, restraint } = submitted;
    const replayed = replayStructure(records, LORA.trainee);
    const expected = adapter === null ? {} : weakened(replayed ?? {}, restraint?.strength ?? 1);
    const require = (what: string, found: AdapterTargets, exported: boolean): void => {
      const difference = structureDifference(LORA.trainee, expected, found, exported);
      if (difference !== null) fail(`${what}: ${difference}`);
    };
    require('the submission does not match the replay', submitted.targets, false);
    require('the tensors in the file do not match the log', targets, true);
    return {
      found: {},
      detail: `${plural(Object.keys(expected).length, 'module')}, with the ranks that follow from the log`,
    };
  },
};
