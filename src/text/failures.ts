/** Why replies did not pass, in words and in a table of the terminal. */
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

/** What each category says. */
export const FAILURE_NOTES: Readonly<Record<FailureKind, string>> = {
  format: 'no answer could be read',
  truncated: 'cut off at the limit of tokens',
  wrong: 'read, and not right',
  undecided: 'the verifier found no verdict',
  aborted: 'cancelled',
  context: 'no room in the context for the next turn',
};

const SHOWN = 8;
/** Of each method or condition that stands among others. */
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

/** What a verifier says; where that is no more than the category, what the category is. */
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
      `why ${failed(failures)} of ${failures.replies} ${what} did not pass: category, count, reason, one of them`,
      style,
    ),
    ...lines,
    ...(rest === 0
      ? []
      : [
          `  and ${rest} for ${rows.length - most} further reason${rows.length - most === 1 ? '' : 's'}`,
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
    'their reasoning contradicts the problem. Ask for the answer alone with --style plain, or take a model that reasons better',
  incomplete:
    'they were cut off. Raise --max-tokens, or give episodes of several turns that had no room for the next one a larger context',
  uninformative:
    'all samples of their problems passed, so that there was nothing to contrast them with. Take harder tiers, more samples a problem ' +
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
 * In parentheses: passes that training did not take, the commonest reason first; empty where there
 * are none.
 */
export function leftOut(refused: Readonly<Record<string, number>>): string {
  const parts = Object.entries(refused).sort(([, a], [, b]) => b - a);
  const total = parts.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return '';
  return ` (${total} more passed: ${parts.map(([admission, count]) => `${count} ${LEFT_OUT[admission] ?? admission}`).join(', ')})`;
}

/**
 * Why a run found nothing to train on, and what to change: by what the replies fail of, or by what
 * became of those that passed.
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
      `${failures.passed} of ${failures.replies} replies passed, and none was taken: ` +
      `${REFUSED[mostly[0]] ?? `${mostly[0]}. Change what the run accepts (--accept)`}.`
    );
  const cause = commonestFailure(failures);
  if (cause === null)
    return 'An easier tier, more samples or a larger model may find a first success.';
  const of = `${cause.count} of ${failures.replies} replies`;
  const why = cause.why === '' || cause.why === cause.kind ? '' : ` (${label(cause.why, 200)})`;
  const plain = style === 'plain' ? '' : ', ask for the answer alone with --style plain';
  const shown = unshown === 'rows' ? ` ${SHOWING.rows}, so that the model sees the form.` : '';
  const solved =
    unshown === 'problems' ? ` Where the task has solved examples, ${SHOWING.problems}.` : shown;
  switch (cause.kind) {
    case 'format':
      return (
        `The commonest cause: in ${of} no answer could be read${why}. Show the form of an answer in the task's prompt${plain}, or take ` +
        `a model that follows instructions.${solved}`
      );
    case 'truncated':
      return (
        `The commonest cause: ${of} were cut off at ${maxTokens} tokens.${shown} ` +
        `${shown === '' ? 'Raise' : 'Where answers are longer, raise'} --max-tokens${plain.replace(', ', ', or ')}; ` +
        'where the replies only repeat themselves, take an easier tier or a larger model.'
      );
    case 'context':
      return `The commonest cause: ${of} had no room in the context for their next turn. Either ${MORE_ROOM}.`;
    case 'undecided':
      return `The commonest cause: no verdict on ${of}${why}. Correct the verifier first; \`tasks verify\` tries replies one by one.`;
    case 'aborted':
      return `The commonest cause: ${of} were cancelled. Run again.`;
    case 'wrong':
      return (
        `The commonest cause: ${of} have a wrong answer${why}. An easier tier, more samples a problem (--samples` +
        `${samples === undefined ? '' : `, now ${samples}`}) or a larger model may find a first success; ` +
        `\`tasks calibrate\` measures which.${shown}`
      );
  }
}
