import { LORA } from '../trainees/lora/trainee.js';
import { auditProcess, type ProcessAudit, type ViolationKind } from './obligations.js';
import { askAgain } from './ask-again.js';
import { HardFail } from './hard-fail.js';
import { DEFAULT_TARGET } from './options.js';
import { deciderFigures, type DeciderFigures } from './questions.js';
import { scheduleFactor } from './schedule.js';
import { emitScores, scoreProcess } from './scores.js';
import type { Step } from './step.js';
import { plural, type StepStatus } from './trace.js';

/** The judge's steps that audit the decision process, and the scores. */

const COVERAGE: readonly ViolationKind[] = [
  'missing',
  'late',
  'precedence',
  'unresolved_deferral',
  'spurious',
  'duplicate',
];

/** Counts violations by kind. */
function violationsOf(
  { violations }: ProcessAudit,
  ofCoverage: boolean,
): { readonly said: string; readonly status: Extract<StepStatus, 'pass' | 'findings'> } {
  const kinds = violations
    .map(({ kind }) => kind)
    .filter((kind) => COVERAGE.includes(kind) === ofCoverage);
  const counts = [...new Set(kinds)].map(
    (kind) => `${kinds.filter((each) => each === kind).length} ${kind}`,
  );
  return kinds.length === 0
    ? { said: 'no violation', status: 'pass' }
    : { said: counts.join(', '), status: 'findings' };
}

/** Decisions and process score of each source: `model 4 (process 1.00), fallback 1`. */
const bySource = ({ sources }: DeciderFigures): string =>
  sources.length === 0
    ? 'no question to the decider'
    : sources
        .map(({ source, decisions, processScore }) => {
          const score = processScore === null ? '' : ` (process ${processScore.toFixed(2)})`;
          return `${source} ${decisions}${score}`;
        })
        .join(', ');

export const ruleCoverageAudit: Step<
  'process' | 'start' | 'questions' | 'options' | 'model' | 'loaded' | 'sameMachine',
  'audit' | 'deciders'
> = {
  name: 'rule_coverage_audit',
  gate: 'process_only',
  run: async ({ process, start, questions, options, model, loaded, sameMachine }) => {
    const audit = auditProcess(
      { ...process, scheduleFactor: (step) => scheduleFactor(start.schedule, step) },
      LORA,
    );
    const { said, status } = violationsOf(audit, true);
    const { obligations, distinctRules } = audit;
    const { askAgain: most = 0, signal } = options;
    const again =
      questions === null || most === 0
        ? null
        : await askAgain(questions, {
            model,
            sha256: start.model.sha256,
            adapter: loaded,
            most,
            signal,
          });
    if (again !== null && sameMachine && again.same < again.asked)
      throw new HardFail(
        'rule_coverage_audit',
        `of ${plural(again.asked, 'question')} that the base model was asked again, it answered ${again.same} as the run says`,
      );
    const deciders =
      questions === null ? null : { ...deciderFigures(questions, audit), askedAgain: again };
    return {
      found: { audit, deciders },
      detail: [
        `${plural(obligations.length, 'obligation')} of ${plural(distinctRules, 'rule')}`,
        said,
        ...(deciders === null ? [] : [bySource(deciders)]),
        ...(again === null
          ? []
          : [`asked again: ${again.reason ?? `${again.same} of ${again.asked} alike`}`]),
      ].join('; '),
      status,
    };
  },
};

export const decisionDefensibility: Step<'process' | 'audit'> = {
  name: 'decision_defensibility',
  gate: 'process_only',
  run: ({ process, audit }) => {
    const { said, status } = violationsOf(audit, false);
    return {
      found: {},
      detail: `${plural(process.decisions.length, 'decision')} read; ${said}`,
      status,
    };
  },
};

export const emitTwoScores: Step<'options' | 'audit' | 'testSet', 'scores'> = {
  name: 'emit_two_scores',
  gate: 'scoring',
  run: ({ options: { target = DEFAULT_TARGET }, audit, testSet: { fresh, heldOut } }) => {
    const { valid = false, mean = null } = fresh?.measured ?? heldOut?.after.measured ?? {};
    const scores = emitScores(scoreProcess(audit), valid ? mean : null, target, null);
    return {
      found: { scores },
      detail:
        `accuracy ${scores.accuracy_score?.toFixed(3) ?? 'null'} of target ${target}, process ` +
        `${scores.process_score?.toFixed(3) ?? 'null'}`,
    };
  },
};
