/**
 * Growth of the evidence of each gate and of each watched version, problem by problem, from the
 * kept trials.
 */
import { existsSync } from 'node:fs';
import { readJson } from '../files.js';
import type { GateEvidence } from '../gate/index.js';
import { trialsOf } from './canary.js';
import { judgeGate, judgeRollback, type GateTrials } from './gates.js';
import type { Reading } from './ledger.js';
import { aliasText } from './names.js';
import type { Registry } from './registry.js';
import { observedAgainst, policyOf, RegistryState, type AliasState } from './state.js';

export interface Course {
  /** `gate`: for the challenger; `watch`: for the version before. */
  readonly kind: 'gate' | 'watch';
  readonly alias: string;
  /** Number of the gate; null for a watch. */
  readonly gate: number | null;
  /** The version that is questioned, and the other one; null: the base without an adapter. */
  readonly id: string;
  readonly against: string | null;
  readonly decision: string;
  /** Natural logarithm of the e-value after each number of problems. */
  readonly points: readonly { readonly problems: number; readonly logE: number }[];
  readonly logThreshold: number;
}

type Trials = GateEvidence['trials'];

/** Points of a course: enough for a line. */
const POINTS = 60;

/**
 * Yields the trials of the first problems, each time a few more, in the order in which the problems
 * came.
 */
function* prefixes(trials: Trials): Generator<readonly [problems: number, trials: Trials]> {
  const order = new Map<string, number>();
  for (const { task, problem } of trials) {
    const key = JSON.stringify([task, problem]);
    if (!order.has(key)) order.set(key, order.size);
  }
  const step = Math.max(1, Math.ceil(order.size / POINTS));
  for (let count = step; count < order.size + step; count += step) {
    const problems = Math.min(count, order.size);
    yield [
      problems,
      trials.filter(({ task, problem }) => order.get(JSON.stringify([task, problem]))! < problems),
    ];
  }
}

/**
 * Returns the courses of decided e-process gates and of watched versions; those whose trials are no
 * longer kept are left out.
 */
export function evidenceCourses(registry: Registry, { state, events }: Reading): Course[] {
  const courses: Course[] = [];
  for (const gate of state.gates) {
    const file = gate.evidence === null ? null : registry.paths.trials(gate.evidence);
    if (file === null || gate.policy.kind !== 'e-process' || !existsSync(file)) continue;
    const { seed, trials } = readJson(file) as GateTrials;
    let logThreshold = 0;
    const points = [...prefixes(trials)].flatMap(([problems, some]) => {
      const { statistic } = judgeGate(gate, { seed, trials: some });
      if (statistic?.kind !== 'e-process' || statistic.logE === null) return [];
      ({ logThreshold } = statistic);
      return [{ problems, logE: statistic.logE }];
    });
    const { slot, alias, challenger: id, incumbent: against } = gate;
    courses.push({
      kind: 'gate',
      alias: aliasText(slot, alias),
      gate: gate.gate,
      id,
      against,
      decision: gate.decision!,
      points,
      logThreshold,
    });
  }
  return [...courses, ...watchCourses(registry, events)];
}

function watchCourses(registry: Registry, events: Reading['events']): Course[] {
  const courses: Course[] = [];
  const state = new RegistryState();
  /** Ends the watch of a version, at a move or at the end of the log. */
  const end = (named: AliasState | null): void => {
    if (named?.observed == null || named.current === null) return;
    const { slot, alias, current, observed } = named;
    const { against, evidence } = observedAgainst(named, named.observed.against)!;
    if (evidence.some((sha256) => !existsSync(registry.paths.trials(sha256)))) return;
    let [logThreshold, decision] = [0, ''];
    const points = [...prefixes(trialsOf(registry, evidence))].map(([problems, trials]) => {
      const judged = judgeRollback(current, against, { trials, policy: policyOf(named) });
      ({ logThreshold, decision } = judged);
      return { problems, logE: judged.logE };
    });
    courses.push({
      kind: 'watch',
      alias: aliasText(slot, alias),
      gate: null,
      id: current,
      against: observed.against,
      decision,
      points,
      logThreshold,
    });
  };
  for (const { event, timeUs } of events) {
    if (event.kind === 'moved') end(state.alias(event.slot, event.alias));
    state.apply(event, timeUs);
  }
  for (const named of state.aliases) end(named);
  return courses;
}
