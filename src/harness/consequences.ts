/**
 * What each answer to a scenario's first firing leads to. A training run is a function of its seed,
 * so that a second run from the same seed is a copy of the first: each copy gets one of the
 * answers, and nothing else is changed in it up to the horizon.
 */
import { createHash } from 'node:crypto';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { acts } from '../monitor/decision.js';
import { observe } from '../monitor/policy.js';
import { isDecider, poseQuestion, type AskedQuestion } from '../monitor/question.js';
import { DEFAULT_RULES } from '../monitor/rules.js';
import { menu } from '../trainees/lora/menu.js';
import { scriptedOption } from '../trainees/lora/scripted.js';
import type { LoraDecisionContext, LoraPolicy, LoraTypes } from '../trainees/lora/trainee.js';
import { monitoredRun, type MonitoredRun, type MonitoredRunOptions } from './monitored-run.js';
import type { ScenarioDraw } from './scenarios.js';

/** Iterations behind those of a scenario, in which an answer shows what it is worth. */
export const HORIZON = 6;
/** Iterations after the firing at which the early horizon lies. */
export const EARLY = 3;

/** The rule of a scenario fired on its side. */
export interface Firing {
  readonly iteration: number;
  /** SHA-256 of all that a decider is told: the same in each copy. */
  readonly situation: string;
  /** Ids of the answers, in the order of the menu. */
  readonly menu: readonly string[];
}

export interface Outcome {
  /** Held-out loss at the end of the run; null where it is not finite. */
  readonly loss: number | null;
  /** The same some iterations after the firing. */
  readonly early: number | null;
  /** Why the answer could not be executed; null where it was. */
  readonly failure: string | null;
  readonly stopped: boolean;
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

function situationOf(context: LoraDecisionContext): string {
  const text = JSON.stringify(context, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? `${value}` : value,
  );
  return createHash('sha256').update(text, 'utf8').digest('hex');
}

/** Whether it is the question of the scenario. */
const asksAbout = (
  { scenario: { rule, side } }: ScenarioDraw,
  context: LoraDecisionContext,
): boolean => context.rule === rule && context.evaluations.at(-1)!.rules[rule].side === side;

/**
 * Observes up to the first question of the scenario, answers it by `choose`, and observes from then
 * on.
 */
function answering(
  draw: ScenarioDraw,
  choose: (context: LoraDecisionContext) => ReturnType<LoraPolicy['decide']>,
): LoraPolicy {
  let answered = false;
  return {
    name: 'consequence',
    decide: (context) => {
      if (answered || !asksAbout(draw, context)) return observe.decide(context);
      answered = true;
      return choose(context);
    },
  };
}

const run = (
  { options, seed }: ScenarioDraw,
  policy: LoraPolicy,
  more: {
    readonly iterations?: number;
    readonly signal?: AbortSignal | undefined;
    readonly policyTimeout?: number;
  } = {},
): Promise<MonitoredRun> =>
  monitoredRun({
    ...options,
    iterations: more.iterations ?? options.iterations! + HORIZON,
    ...given({ signal: more.signal, policyTimeout: more.policyTimeout }),
    seed,
    rules: DEFAULT_RULES,
    policy,
  });

function outcomeOf(
  { heldOutLoss, finalHeldOutLoss, stopped, reports }: MonitoredRun,
  iteration: number,
): Outcome {
  const failed = reports[iteration]!.effects.find(({ executed }) => !executed);
  return {
    loss: finite(finalHeldOutLoss),
    // a run that was stopped stays as it is
    early: finite(heldOutLoss[iteration + EARLY] ?? finalHeldOutLoss),
    failure: failed?.failure ?? null,
    stopped,
  };
}

/**
 * A run that only observes: whether the scenario's rule fires on its side, what could be answered,
 * and what comes of answering nothing.
 * @throws what `monitoredRun` throws
 */
export async function observedDraw(
  draw: ScenarioDraw,
  signal?: AbortSignal,
): Promise<{ readonly firing: Firing | null; readonly outcome: Outcome | null }> {
  let firing: Firing | null = null;
  const policy = answering(draw, (context) => {
    firing = {
      iteration: context.evaluations.at(-1)!.iteration,
      situation: situationOf(context),
      menu: menu(context).map(({ id }) => id),
    };
    return observe.decide(context);
  });
  const done = await run(draw, policy, { signal });
  const found = firing as Firing | null;
  return { firing: found, outcome: found === null ? null : outcomeOf(done, found.iteration) };
}

const notAgain = ({ scenario, purpose, index }: ScenarioDraw): IsoproError =>
  new IsoproError(
    'BANK_MISMATCH',
    `the run of ${scenario.id} ${purpose} ${index} did not come to its situation again`,
  );

/** Answers that change nothing: what comes of them is what comes of observing. */
export const isDeferral = (option: string): boolean => option.startsWith('defer ');

/**
 * What one answer leads to.
 * @throws IsoproError BANK_MISMATCH where the run does not come to the same situation again
 */
export async function consequenceOf(
  draw: ScenarioDraw,
  firing: Firing,
  option: string,
  signal?: AbortSignal,
): Promise<Outcome> {
  let met = false;
  const policy = answering(draw, (context) => {
    if (situationOf(context) !== firing.situation) return observe.decide(context);
    met = true;
    return menu(context).find(({ id }) => id === option)!.decision;
  });
  const done = await run(draw, policy, { signal });
  if (!met) throw notAgain(draw);
  return outcomeOf(done, firing.iteration);
}

/** An answer to the question of a draw. */
export interface Choice {
  /** The option's id; null where the answer is none of the menu. */
  readonly option: string | null;
  /** Who gave it: the policy by its name, or what a question's record names. */
  readonly source: string;
  readonly tokens: number;
  readonly seconds: number;
}

const UNLIMITED = 600_000;

/** Has somebody answer a question, as a run would. */
export async function choiceOf(
  policy: MonitoredRunOptions['policy'],
  context: LoraDecisionContext,
  signal: AbortSignal,
): Promise<Choice> {
  if (isDecider<LoraTypes>(policy)) {
    let asked: AskedQuestion<LoraTypes> | null = null;
    await poseQuestion(policy, context, {
      menu,
      fallback: scriptedOption,
      recorded: new Map(),
      record: async (question) => void (asked = question),
      signal,
      timeout: policy.timeout ?? UNLIMITED,
    });
    const { choice, source, tokens, seconds } = asked as unknown as AskedQuestion<LoraTypes>;
    return { option: choice, source, tokens: tokens.prompt + tokens.sampled, seconds };
  }
  const decision = await policy.decide(context, { signal, timeout: UNLIMITED });
  const same = menu(context).find(({ decision: { event_type, edit, deferral } }) =>
    event_type === decision.event_type && acts(decision)
      ? JSON.stringify(edit) === JSON.stringify(decision.edit)
      : deferral !== null && deferral.until === decision.deferral?.until,
  );
  return { option: same?.id ?? null, source: policy.name, tokens: 0, seconds: 0 };
}

/**
 * What policies answer to the question of a draw, by their place. The run ends with the question.
 * @throws what a policy throws; IsoproError BANK_MISMATCH where the run does not come to the
 *   question
 */
export async function choicesOf(
  draw: ScenarioDraw,
  { iteration }: Firing,
  policies: readonly MonitoredRunOptions['policy'][],
  signal: AbortSignal = new AbortController().signal,
): Promise<Choice[]> {
  const choices: Choice[] = [];
  let failure: unknown;
  const policy = answering(draw, async (context) => {
    try {
      for (const each of policies) choices.push(await choiceOf(each, context, signal));
    } catch (error) {
      failure = error;
    }
    return observe.decide(context);
  });
  await run(draw, policy, {
    iterations: iteration + 1,
    signal,
    // each of them has its own limit
    policyTimeout: 2 ** 31 - 1,
  });
  if (choices.length < policies.length) throw failure ?? notAgain(draw);
  return choices;
}
