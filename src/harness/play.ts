/**
 * A decider that answers every question of a drawn scenario up to the horizon: what the run ends
 * with, whether its obligations were kept, and who decided.
 */
import { given } from '../given.js';
import { auditProcess, type ProcessAudit } from '../judge/obligations.js';
import { DEFAULT_RULES } from '../monitor/rules.js';
import type { NewRunRecord } from '../run-folder/streams.js';
import { LORA } from '../trainees/lora/trainee.js';
import { HORIZON } from './consequences.js';
import { monitoredRun, type MonitoredRunOptions } from './monitored-run.js';
import type { ScenarioDraw } from './scenarios.js';

export interface Played {
  /** Held-out loss at the end; null where it is not finite. */
  readonly loss: number | null;
  readonly audit: ProcessAudit;
  /** Decisions by who made them: the policy, or what a question's record names. */
  readonly sources: Readonly<Record<string, number>>;
  /** Rules left without an answer that holds. */
  readonly refused: number;
  readonly tokens: number;
  readonly seconds: number;
}

interface Asked {
  readonly source: string;
  readonly tokens: { readonly prompt: number; readonly sampled: number };
  readonly seconds: number;
}

/** @throws what `monitoredRun` throws */
export async function playDraw(
  { options, seed }: ScenarioDraw,
  policy: MonitoredRunOptions['policy'],
  signal?: AbortSignal,
): Promise<Played> {
  const asked: Asked[] = [];
  const append = (records: readonly NewRunRecord[]): void => {
    for (const { payload } of records)
      if (payload.kind === 'question') asked.push(payload as unknown as Asked);
  };
  const { reports, session, finalHeldOutLoss } = await monitoredRun({
    ...options,
    ...given({ signal }),
    iterations: options.iterations! + HORIZON,
    seed,
    rules: DEFAULT_RULES,
    policy,
    log: { append },
  });
  const decisions = reports.flatMap(({ iteration, decisions: made }) =>
    made.map((decision) => ({ iteration, decision })),
  );
  const audit = auditProcess(
    {
      evaluations: reports.map(({ evaluation }) => evaluation),
      decisions,
      effects: reports.flatMap(({ effects }) => effects),
      history: session.history,
      config: DEFAULT_RULES,
    },
    LORA,
  );
  // the monitor itself defers the rules that wait for an action
  const own = decisions.filter(
    ({ decision: { justification } }) => !justification.startsWith('deferred_to_'),
  ).length;
  const sources: Record<string, number> = {};
  for (const { source } of asked) sources[source] = (sources[source] ?? 0) + 1;
  return {
    loss: Number.isFinite(finalHeldOutLoss) ? finalHeldOutLoss : null,
    audit,
    sources: asked.length > 0 ? sources : own > 0 ? { [policy.name]: own } : {},
    refused: reports.filter(({ refused }) => refused !== null).length,
    tokens: asked.reduce((sum, { tokens }) => sum + tokens.prompt + tokens.sampled, 0),
    seconds: asked.reduce((sum, each) => sum + each.seconds, 0),
  };
}

/** The audits of several runs as one: obligations of all count alike. */
export const pooledAudit = (audits: readonly ProcessAudit[]): ProcessAudit => ({
  obligations: audits.flatMap(({ obligations }) => obligations),
  violations: audits.flatMap(({ violations }) => violations),
  undetermined: audits.reduce((sum, { undetermined }) => sum + undetermined, 0),
  kept: audits.reduce((sum, { kept }) => sum + kept, 0),
  distinctRules: new Set(audits.flatMap(({ obligations }) => obligations.map(({ rule }) => rule)))
    .size,
});
