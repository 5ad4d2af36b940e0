import { measureProbe, type ProbeMeasurement } from '../evaluation/probe.js';
import { given } from '../given.js';
import { probe, type ProbeRecord } from '../run-folder/course-records.js';
import { failing, onlyMetric } from './hard-fail.js';
import type { Step } from './step.js';

/**
 * Loss and gradients on the nonce's probe batch with the submitted weights, as the run logged them
 * and as the judge finds them.
 */

/** Largest relative deviation on a machine of the run's class. */
export const SAME_MACHINE_TOLERANCE = 1e-3;
/**
 * Tolerance on another class of machine, whose instruction sets sum in a different order. Weights
 * that were not submitted deviate by far more.
 */
export const OTHER_MACHINE_TOLERANCE = 1e-2;
/**
 * Fraction of the largest module gradient below which a norm is rounding and is compared
 * absolutely.
 */
const FLOOR = 1e-4;

const fail = failing('live_diagnostic_sanity');

interface Deviation {
  /** Name of what deviates most: a module, `loss of sequence 2`, `all gradients`. */
  readonly name: string;
  readonly logged: number;
  readonly measured: number;
  /** |logged - measured| / |measured|. */
  readonly relative: number;
}

/**
 * The largest deviation.
 * @throws HardFail if batch, adapter or modules are not the same, or a logged value is not
 *   finite
 */
function compareProbes(logged: ProbeRecord, own: ProbeMeasurement): Deviation {
  if (logged.adapter !== own.adapter)
    fail('the probe was measured with a different adapter than the submitted one');
  if (logged.batch !== own.batch) fail('the probe batch does not follow from the nonce');
  const names = (modules: object): string => Object.keys(modules).sort().join(', ');
  if (names(logged.modules) !== names(own.modules))
    fail(
      `the logged probe has the modules ${names(logged.modules) || 'none'} but the adapter has ${names(own.modules) || 'none'}`,
    );
  if (logged.sequenceLosses.length !== own.sequenceLosses.length)
    fail('the logged probe has a different number of sequences');
  const floor = FLOOR * Math.max(0, ...Object.values(own.modules));
  const pairs: (readonly [string, number, number, number])[] = [
    ...own.sequenceLosses.map(
      (value, i) => [`loss of sequence ${i}`, logged.sequenceLosses[i]!, value, 0] as const,
    ),
    ['all gradients', logged.gradNorm, own.gradNorm, floor],
    ...Object.entries(own.modules).map(
      ([name, value]) => [name, logged.modules[name]!, value, floor] as const,
    ),
  ];
  return pairs
    .map(([name, a, measured, least]): Deviation => {
      const difference = Math.abs(a - measured);
      const ratio =
        difference === 0 ? 0 : difference / Math.max(Math.abs(measured), least, Number.MIN_VALUE);
      const relative = Number.isFinite(ratio) ? ratio : Infinity;
      return { name, logged: a, measured, relative };
    })
    .reduce((worst, each) => (each.relative > worst.relative ? each : worst));
}

export const liveDiagnosticSanity: Step<
  'options' | 'records' | 'deliverables' | 'nonce' | 'threads' | 'model' | 'sameMachine'
> = {
  name: 'live_diagnostic_sanity',
  gate: 'hard_fail_gate',
  faults: ['NUMERIC_FAILURE'],
  run: async ({ options, records, deliverables, nonce, threads, model, sameMachine }) => {
    const tolerance = sameMachine ? SAME_MACHINE_TOLERANCE : OTHER_MACHINE_TOLERANCE;
    const logged = onlyMetric(records, probe, fail);
    const own = await measureProbe({
      modelPath: model.path,
      adapter: deliverables.adapter,
      ...{ nonce, threads },
      ...given(options, 'signal'),
    });
    const worst = compareProbes(logged, own);
    const deviation = worst.relative.toPrecision(2);
    if (!(worst.relative <= tolerance))
      fail(
        `${worst.name}: the run logged ${worst.logged} but the submitted adapter gives ${worst.measured} (deviation ` +
          `${deviation}, tolerance ${tolerance})`,
      );
    return {
      found: {},
      detail:
        `largest deviation ${deviation} (${worst.name}), tolerance ${tolerance} on ` +
        `${sameMachine ? 'a machine of the same class' : 'another class of machine'}`,
    };
  },
};
