/**
 * The prompt of a decider: rules, playbook, measurements, earlier decisions and what came of them,
 * feedback and the menu. It depends on the context alone, so that a judge writes the same again.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { LoggedDecision } from '../decision.js';
import type { Evaluation } from '../evaluate-rules.js';
import type { Iteration, Measurement } from '../measurements.js';
import type { Menu } from '../menu.js';
import type { DecisionContext } from '../context.js';
import { mean } from '../smoothing.js';
import type { TraineeTypes } from '../trainee.js';

/** A prompt whose options can be shown in another order. */
export interface Prompt {
  readonly before: string;
  /** One line for each option, in the order of the menu. */
  readonly options: readonly string[];
  readonly after: string;
}

/** How the answer is asked for. */
export type AnswerForm = 'letter' | 'json';

const FOLDER = new URL('../../../../assets/deciders/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, FOLDER), 'utf8');

interface Template {
  readonly text: string;
  readonly answer: string;
  /** SHA-256 of the files. */
  readonly digest: string;
}

const templates = new Map<AnswerForm, Template>();

/** The files of a form, read once. */
export function templateOf(form: AnswerForm): Template {
  const known = templates.get(form);
  if (known !== undefined) return known;
  const [text, answer] = [read('choice.md'), read(`answer-${form}.md`)];
  const digest = createHash('sha256').update(`${text}\0${answer}`, 'utf8').digest('hex');
  const made = { text, answer: answer.trimEnd(), digest };
  templates.set(form, made);
  return made;
}

/** Label of the option at a place: A, B, C, …; a menu has fewer options than letters. */
export const letterAt = (place: number): string => String.fromCharCode(65 + place);

/** The whole prompt, its options in an order: by default that of the menu. */
export function promptText({ before, options, after }: Prompt, order?: readonly number[]): string {
  const shown = order ?? options.map((_, i) => i);
  const lines = shown.map((option, place) => `${letterAt(place)}. ${options[option]!}`);
  return `${before}${lines.join('\n')}${after}`;
}

/** Iterations, and decisions, that a prompt tells of. */
const TOLD = 6;

const figure = (value: number | null | undefined): string =>
  value === null || value === undefined ? 'none' : String(Number(value.toPrecision(4)));
/** Text that a file or a person brought: one quoted line of bounded length. */
const quoted = (text: string): string => JSON.stringify(text.slice(0, 60));
const list = (lines: readonly string[]): string =>
  lines.length === 0 ? 'None.' : lines.map((line) => `- ${line}`).join('\n');

const heldOut = ({ heldOut: of }: Pick<Measurement, 'heldOut'>): string =>
  of === null
    ? 'none'
    : 'loss' in of
      ? `loss ${figure(of.loss)}`
      : `pass rate ${figure(of.passRate)}`;

function measured(of: Iteration | Measurement): string {
  const { iteration, steps, objective, kl } = of;
  const applied = steps.filter((step) => step.applied);
  const over = (name: 'loss' | 'gradNorm'): string =>
    figure(applied.length === 0 ? null : mean(applied.map((step) => step[name])));
  const rate = steps.at(-1)?.learningRate;
  return (
    `iteration ${iteration}: held-out ${heldOut(of)}, objective ${figure(objective?.value)}, train loss ${over('loss')}, ` +
    `gradient norm ${over('gradNorm')}, steps ${steps.length} (${steps.length - applied.length} not applied), ` +
    `learning rate ${figure(rate)}, KL ${figure(kl)}`
  );
}

/** What a decision was, and what the log shows of the time after it. */
function outcome<T extends TraineeTypes>(
  { iteration, decision }: LoggedDecision<T['operation']>,
  { history, measurements, evaluations }: DecisionContext<T>,
): string {
  const [rule] = decision.cites;
  const all: readonly (Iteration | Measurement)[] = [...history, measurements];
  const executed = history.find((each) => each.iteration === iteration)?.executed.includes(rule);
  const done =
    decision.edit.length === 0
      ? `deferred until iteration ${decision.deferral?.until}`
      : `${decision.edit
          .map(({ op }) => op)
          .slice(0, 3)
          .join(', ')}, ${executed === true ? 'executed' : 'not executed'}`;
  const at = all.find((each) => each.iteration === iteration);
  const firedAgain = evaluations.some(
    (each) => each.iteration > iteration && each.rules[rule].fired,
  );
  return (
    `iteration ${iteration}, ${rule}: ${done}; ${rule} ${firedAgain ? 'fired again' : 'has not fired since'}; ` +
    `held-out ${at === undefined ? 'none' : heldOut(at)} then, ${heldOut(measurements)} now`
  );
}

/** Numbers of the trainee's settings; what is no number is not told. A log keeps no order. */
const numbers = (settings: unknown): string[] =>
  Object.entries(settings as object)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, value]) => (typeof value === 'number' ? [`${name}: ${figure(value)}`] : []));

function situation<T extends TraineeTypes>({
  rule,
  evaluations,
  settings,
}: DecisionContext<T>): string {
  const { iteration, fired, rules } = evaluations.at(-1) as Evaluation;
  const { side, value, threshold, modules, recurrence } = rules[rule];
  const named = modules.slice(0, 3).map(quoted).join(', ');
  return list([
    `iteration ${iteration}`,
    `${rule} has fired on its ${side} side: ${figure(value)} against a threshold of ` +
      `${figure(threshold)}${recurrence ? ', again soon after its remedy' : ''}`,
    ...(modules.length === 0 ? [] : [`modules that breach: ${modules.length} (${named})`]),
    `rules that fire now: ${fired.join(', ')}; the others wait for your choice`,
    ...numbers(settings),
  ]);
}

/** Feedback is somebody's text: each of its lines is marked as such. */
const marked = (text: string): string =>
  text
    .split(/\r\n|[\n\r\u2028\u2029]/)
    .map((line) => `> ${line}`)
    .join('\n');

export interface PromptOptions {
  readonly form: AnswerForm;
  /** Feedback on earlier attempts, as one text. */
  readonly feedback?: string | null;
}

/** Writes the prompt of a question. */
export function renderPrompt<T extends TraineeTypes>(
  context: DecisionContext<T>,
  menu: Menu<T>,
  { form, feedback = null }: PromptOptions,
): Prompt {
  const { text, answer } = templateOf(form);
  const { history, measurements, decisions, playbook } = context;
  const parts: Readonly<Record<string, string>> = {
    playbook,
    situation: situation(context),
    measurements: list([...history.slice(1 - TOLD), measurements].map(measured)),
    decisions: list(decisions.slice(-TOLD).map((each) => outcome(each, context))),
    feedback: feedback === null || feedback === '' ? 'None.' : marked(feedback),
    answer,
  };
  // each part is put in once: what a part says is never taken for a place of the template
  const filled = (of: string): string =>
    of.replace(/\{\{(\w+)\}\}/g, (_, name: string) => parts[name] ?? '');
  const [before = '', after = ''] = text.split('{{options}}');
  return {
    before: filled(before),
    options: menu.map(({ id, words }) => `${id}: ${words}`),
    after: filled(after),
  };
}
