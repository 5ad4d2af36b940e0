/**
 * Output of `eval`: rows of the model and the trivial policies, and reasons for failing replies.
 */
import type { Evaluation } from '../../operations/evaluate.js';
import type { TaskEvaluation } from '../../operations/evaluate-task.js';
import { failureTable } from '../../text/failures.js';
import { forgettingSentences, RATE_NOTES, RATE_TITLES } from '../../text/figures.js';
import { label } from '../../text/hostile-text.js';
import { wrapped, type TerminalStyle } from '../../text/terminal-style.js';
import { READINGS } from '../../statistics/index.js';
import type { Failures } from '../../tasks/failures.js';
import { measureTables, table, type Row } from '../estimate-tables.js';
import { formatDuration } from '../quantities.js';

const isRecorded = ({ kind }: TaskEvaluation['backend']): boolean => kind === 'recorded';

type Titled = readonly (readonly [title: string, Row])[];

export const evaluationText = (evaluation: Evaluation, style: TerminalStyle): string =>
  'forgetting' in evaluation
    ? `${forgettingSentences(evaluation.forgetting).join('\n')}\nintervals are over texts\n`
    : taskText(evaluation, style);

/**
 * Rows of a set of samples: pass@k, selection without the verifier, and the share of well-formed
 * replies.
 */
function sampledRows({
  passAtK,
  lenientPassAtK,
  format,
  majority,
  bestOfK,
  samples,
}: TaskEvaluation): Titled {
  const named = (how: string, of: TaskEvaluation['passAtK']): Titled =>
    Object.entries(of ?? {}).map(([k, row]) => [`pass@${k}${how}`, row]);
  return [
    ...named('', passAtK),
    [`majority of ${samples}`, majority!],
    ...(bestOfK == null ? [] : [[`most likely of ${samples}`, bestOfK] as const]),
    [RATE_TITLES.format, format!],
    ...named(', leniently', lenientPassAtK),
  ];
}

const greedyRows = ({ accuracy, backend }: TaskEvaluation): Titled => [
  [isRecorded(backend) ? 'recorded' : 'greedy', accuracy!],
  ...READINGS.flatMap((reading) => {
    const row = accuracy![reading];
    return row === undefined ? [] : [[RATE_TITLES[reading], row] as const];
  }),
];

/** Full reason of the first reply without a verdict, which the table truncates. */
function whyUndecided({ rows }: Failures): string {
  const first = rows.find(({ kind }) => kind === 'undecided');
  return first === undefined || first.why === ''
    ? ''
    : `: ${label(first.why, 300)}. \`tasks check\` tests the verifier`;
}

function headLine(evaluation: TaskEvaluation, style: TerminalStyle): string {
  const { task, set, adapter, fewShot, constrained, maxTokens } = evaluation;
  return wrapped(
    `${task.id} ${task.version}, ${set.name} set, ${set.problems} ` +
      `problems${adapter === null ? '' : `, adapter ${adapter.sha256.slice(0, 12)}`}` +
      `${fewShot === 0 ? '' : `, ${fewShot} examples before each question`}` +
      `${constrained ? ', with the answer grammar' : ''}` +
      `${maxTokens === undefined ? '' : `, style ${evaluation.style}, max ${maxTokens} tokens per reply`}; ` +
      'per cent solved, 95 % interval below',
    style,
  );
}

/** The tables, and what their rows mean. */
function tables(evaluation: TaskEvaluation, style: TerminalStyle): string {
  const { accuracy, lenientPassAtK, trivialPolicies, samples } = evaluation;
  const own = accuracy === undefined ? sampledRows(evaluation) : greedyRows(evaluation);
  const policies = Object.entries(trivialPolicies);
  const measures = [
    [
      accuracy === undefined ? `${samples} samples` : own[0]![0],
      (accuracy ?? evaluation).measures,
    ] as const,
    ...policies.map(([policy, summary]) => [policy, summary.measures] as const),
  ];
  const readings = READINGS.filter(
    (reading) =>
      reading === 'format' || (accuracy === undefined ? lenientPassAtK : accuracy[reading]),
  );
  return (
    `${table([...own, ...policies], style)}\n\n${measureTables(measures, style)}` +
    `${readings.map((reading) => wrapped(RATE_NOTES[reading], style, 2)).join('\n')}\n`
  );
}

const counted = (count: number, one: string, more = `${one}s`): string =>
  `${count} ${count === 1 ? one : more}`;

/** Who answered at a service, and what that cost. */
function spendingText({ backend, spending, failed = 0, refused = 0 }: TaskEvaluation): string {
  const lost = [
    failed > 0 ? `${counted(failed, 'sample')} without a reply` : '',
    refused > 0 ? `${counted(refused, 'reply', 'replies')} refused by a content filter` : '',
  ].filter((text) => text !== '');
  if (spending === undefined) return lost.length === 0 ? '' : `${lost.join(', ')}\n`;
  const { requests, retries, recorded, promptTokens, replyTokens, reasoningTokens, cost } =
    spending;
  const who = backend.served === undefined ? backend.name : backend.served.join(', ');
  const parts = [
    `${label(who, 200)} answered: ${counted(requests, 'request')}`,
    ...(retries > 0 ? [`${retries} of them repeated`] : []),
    ...(recorded > 0 ? [`${counted(recorded, 'reply', 'replies')} from the recording`] : []),
    `${promptTokens} tokens of prompts and ${replyTokens} of replies`,
    ...(reasoningTokens > 0 ? [`${reasoningTokens} of them reasoning`] : []),
    ...(cost === undefined ? [] : [`cost ${Number(cost.toPrecision(4))}`]),
    ...lost,
  ];
  return `${parts.join(', ')}\n`;
}

function taskText(evaluation: TaskEvaluation, style: TerminalStyle): string {
  const { samples, temperature, failures, advice, none, accuracy } = evaluation;
  const { sampledTokens, seconds, policyNotes } = evaluation;
  const notes = Object.entries(policyNotes);
  const [replies, are] = none === 1 ? ['reply has', 'is'] : ['replies have', 'are'];
  return [
    `${headLine(evaluation, style)}\n\n${tables(evaluation, style)}`,
    samples > 1
      ? `${samples} samples a problem${temperature === undefined ? '' : ` at temperature ${temperature}`}; pass@k is a ceiling: ` +
        'choosing the right one needs the verifier\n'
      : '',
    failures.rows.length > 0 ? `\n${failureTable(failures, 'answers', style)}\n\n` : '',
    ...advice.map((text) => `${wrapped(text, style)}\n`),
    none > 0
      ? `${none} ${replies} no verdict and ${are} not ` +
        `counted${accuracy?.valid === false ? ', and the figures are not a valid result' : ''}${whyUndecided(failures)}\n`
      : '',
    sampledTokens === null
      ? ''
      : `${sampledTokens} tokens ${isRecorded(evaluation.backend) ? 'judged' : 'sampled'} in ${formatDuration(seconds)}\n`,
    spendingText(evaluation),
    notes.length > 0
      ? `\n${notes.map(([name, note]) => wrapped(`${name}: ${note}`, style, 2)).join('\n')}\n`
      : '',
  ].join('');
}
