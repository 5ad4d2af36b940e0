/** Reasons why replies did not pass, as sentences and as a table for a terminal. */
import { MORE_ROOM } from '../engine/context-overflow.js';
import type {
  Failure,
  FailureExample,
  FailureKind,
  Failures,
} from '../run-folder/derived-figures.js';
import { SHOWING, type Unshown } from '../example-hint.js';
import { label } from './hostile-text.js';
import { filled, labelWithin, length, wrapped, type TerminalStyle } from './terminal-style.js';

/** Meaning of each category. */
export const FAILURE_NOTES: Readonly<Record<FailureKind, string>> = {
  format: 'no answer could be read',
  truncated: 'cut off at the token limit',
  wrong: 'read, but wrong',
  undecided: 'the verifier reached no verdict',
  aborted: 'cancelled',
  context: 'no room in the context for the next turn',
  refused: 'refused by a content filter',
  failed: 'no reply from the model or service',
};

const SHOWN = 8;
/** Rows for each of several methods or conditions. */
export const SHOWN_OF_EACH = 3;
const WHY = 36;

export const failed = ({ replies, passed }: Failures): number => replies - passed;

/**
 * The category with the most replies, and the commonest reason in it; null where all passed or a
 * log does not tell.
 */
export function commonestFailure({
  rows,
}: Failures): { readonly kind: FailureKind; readonly count: number; readonly why: string } | null {
  const sums = new Map<FailureKind, number>();
  for (const { kind, count } of rows) sums.set(kind, (sums.get(kind) ?? 0) + count);
  const [most] = [...sums].sort(([, a], [, b]) => b - a);
  return most === undefined
    ? null
    : { kind: most[0], count: most[1], why: rows.find(({ kind }) => kind === most[0])!.why };
}

/** Reason that a verifier gives; if that only repeats the category, the meaning of the category. */
export const reasonShown = ({ kind, why }: Pick<Failure, 'kind' | 'why'>): string =>
  why === '' || why === kind ? FAILURE_NOTES[kind] : why;

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

const MOST_RIGHT = 40;

/**
 * An example below its row: on one line where it fits, else what was asked on the first, and reply
 * and right answer on the second.
 */
function exampleLines({ text, asked, right }: FailureExample, room: number): string[] {
  const part = (name: string, said: string, width: number): string =>
    `${name} "${labelWithin(escaped(said), Math.max(1, width - name.length - 3))}"`;
  const correct =
    right === undefined ? '' : `, ${part('right', right, Math.min(MOST_RIGHT, room / 2))}`;
  const [question, reply] = [
    part('asked', asked ?? '', room),
    part('said', text, room - length(correct)) + correct,
  ];
  return length(question) + 2 + length(reply) <= room
    ? [`${question}, ${reply}`]
    : [question, reply];
}

/**
 * A line a reason, the commonest first, each with the beginning of one reply as far as the width
 * goes, below it where it is known what was asked; empty where all passed.
 * @param most reasons with a line of their own
 */
export function failureTable(
  failures: Failures,
  what: string,
  style: Pick<TerminalStyle, 'width' | 'prose'>,
  most: number = SHOWN,
): string {
  const { width } = style;
  const { rows } = failures;
  if (rows.length === 0) return '';
  const shown = rows.slice(0, most);
  const whys = shown.map((row) => labelWithin(reasonShown(row), WHY));
  const [kinds, counts, column] = [
    Math.max(...shown.map(({ kind }) => kind.length)),
    Math.max(...shown.map(({ count }) => String(count).length)),
    Math.max(...whys.map(length)),
  ];
  const lines = shown.flatMap(({ kind, count, example }, i) => {
    const line = `  ${kind.padEnd(kinds)}  ${String(count).padStart(counts)}  ${filled(whys[i]!, column)}`;
    if (example?.asked !== undefined)
      return [line.trimEnd(), ...exampleLines(example, width - 6).map((each) => `      ${each}`)];
    const room = width - length(line) - 2;
    return [
      room < 12 || example === null
        ? line.trimEnd()
        : `${line}  ${labelWithin(escaped(example.text), room)}`.trimEnd(),
    ];
  });
  const rest = rows.slice(most).reduce((sum, { count }) => sum + count, 0);
  return [
    wrapped(
      `why ${failed(failures)} of ${failures.replies} ${what} did not pass: category, count, reason, an example`,
      style,
    ),
    ...lines,
    ...(rest === 0
      ? []
      : [
          `  and ${rest} for ${rows.length - most} other reason${rows.length - most === 1 ? '' : 's'}`,
        ]),
  ].join('\n');
}

export interface HowAsked {
  readonly style: string;
  readonly maxTokens: number;
  readonly samples?: number | undefined;
  /**
   * Questions are asked without solved ones before them, and may be asked with them: always where
   * they are rows of data.
   */
  readonly unshown?: Unshown;
}

const REFUSED: Readonly<Record<string, string>> = {
  contradictory:
    'their reasoning contradicts the problem. Ask for the answer alone with --style plain, or use a model that reasons better',
  incomplete:
    'they were cut off. Raise --max-tokens; if episodes of several turns ran out of context, enlarge the context',
  uninformative:
    'all samples of their problems passed, so there was nothing to contrast them with. Use harder tiers, more samples per problem ' +
    '(--samples) or the algorithm rft',
};

const LEFT_OUT: Readonly<Record<string, string>> = {
  // a pass is left out as failed only where verdicts do not choose
  failed: 'not what this control trains on',
  duplicate: 'nearly the same as another reply to its problem',
  incomplete: 'cut off',
  contradictory: 'its reasoning contradicts the problem',
  uninformative: 'all samples of its problem passed',
};

/**
 * Lists in parentheses the passes that training did not take, the most common reason first; empty
 * if there are none.
 */
export function leftOut(refused: Readonly<Record<string, number>>): string {
  const parts = Object.entries(refused).sort(([, a], [, b]) => b - a);
  const total = parts.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return '';
  return ` (${total} more passed: ${parts.map(([admission, count]) => `${count} ${LEFT_OUT[admission] ?? admission}`).join(', ')})`;
}

/**
 * Explains why a run found nothing to train on, and what to change: by the failures, or by what
 * happened to the replies that passed.
 * @param refused passes that training did not take, by what became of them
 */
export function nothingAccepted(
  failures: Failures,
  refused: Readonly<Record<string, number>>,
  { style, maxTokens, samples, unshown }: HowAsked,
): string {
  const [mostly] = Object.entries(refused).sort(([, a], [, b]) => b - a);
  if (mostly !== undefined)
    return (
      `${failures.passed} of ${failures.replies} replies passed, but no reply was accepted: ` +
      `${REFUSED[mostly[0]] ?? `${mostly[0]}. Change what the run accepts (--accept)`}.`
    );
  const cause = commonestFailure(failures);
  if (cause === null) return 'Try an easier tier, more samples or a larger model.';
  const of = `${cause.count} of ${failures.replies} replies`;
  const why = cause.why === '' || cause.why === cause.kind ? '' : ` (${label(cause.why, 200)})`;
  const plain = style === 'plain' ? '' : ', ask for the answer alone with --style plain';
  const shown = unshown === 'rows' ? ` ${SHOWING.rows}, so that the model sees the format.` : '';
  const solved =
    unshown === 'problems' ? ` If the task has solved examples, ${SHOWING.problems}.` : shown;
  switch (cause.kind) {
    case 'format':
      return (
        `Most common cause: no answer could be read in ${of}${why}. Show the answer format in the task's prompt${plain}, or use ` +
        `a model that follows instructions.${solved}`
      );
    case 'truncated':
      return (
        `Most common cause: ${of} were cut off at ${maxTokens} tokens.${shown} ` +
        `${shown === '' ? 'Raise' : 'If answers are longer, raise'} --max-tokens${plain.replace(', ', ', or ')}; ` +
        'if replies only repeat themselves, use an easier tier or a larger model.'
      );
    case 'context':
      return `Most common cause: ${of} had no room in the context for their next turn. Either ${MORE_ROOM}.`;
    case 'undecided':
      return `Most common cause: no verdict on ${of}${why}. Fix the verifier first; \`tasks verify\` tries replies one by one.`;
    case 'refused':
      return `Most common cause: a content filter refused ${of}. Ask another model.`;
    case 'failed':
      return `Most common cause: ${of} have no text, because the model or service gave none${why}. Run again.`;
    case 'aborted':
      return `Most common cause: ${of} were cancelled. Run again.`;
    case 'wrong':
      return (
        `Most common cause: ${of} have a wrong answer${why}. Try an easier tier, more samples per problem (--samples` +
        `${samples === undefined ? '' : `, now ${samples}`}) or a larger model; ` +
        `\`tasks calibrate\` measures which of them helps.${shown}`
      );
  }
}
