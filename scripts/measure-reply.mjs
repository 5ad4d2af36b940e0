/**
 * npm run measure:reply -- [--list] [--only STEP …] [--hours N] [--try] [--threads N]
 * [--model FILE] [--runs DIR] [--results DIR]: measures adapters that act from the reply on beside
 * ordinary ones, on SmolLM2-135M-Instruct, one run after the other (reply-experiments.mjs). The 24
 * runs take most of a day of two cores. A step that has its file in results/reply is not measured
 * again, and a run that was cut off continues: the same command resumes. summary.json has the
 * paired differences of what is measured so far, and whether they recommend the setting. Exit codes
 * as measure-real.mjs.
 */
import { measuringFlags, resultsOf, wantedOf, writeResult } from './experiment.mjs';
import { measureOrList, train } from './real-runs.mjs';
import { replySteps, replySummary } from './reply-experiments.mjs';

const measuring = measuringFlags({ runs: 'reply', results: 'reply' });
const steps = replySteps({ small: measuring.try });

process.exitCode = await measureOrList(wantedOf(steps, measuring.only), measuring, {
  measure: (step, model) => train(step, model, measuring),
  after: () =>
    writeResult(measuring.fileOf('summary'), replySummary(resultsOf(steps, measuring.fileOf))),
});
