/** How each check reads a reply and judges it. Runs in the thread of the task. */
import type { Json } from '../../canonical-json.js';
import { decimalOf, isHeld, isNear, magnitude, times } from '../../decimal.js';
import { dictionary, type Dictionary } from '../../dictionary.js';
import { comparable, comparedJson, digitsOf, readJsonText, withDigits } from '../../json-text.js';
import type { GivenVerdict } from '../define-task.js';
import { fenced } from '../fence.js';
import { refused } from '../flat-object.js';
import type { ChatMessage, Parsed } from '../task.js';
import { compileSchema, regexOf, type Check } from './check.js';
import type { Checker } from './checker.js';
import type { DataProblem } from './data-problem.js';
import { compared, contains, namedChoices, normalised } from './compared-text.js';
import { lastNumber, readNumber } from './number.js';
import { programChecker } from './program-checkers.js';
import { askedOf, verdictOf, type Graded } from './score-model.js';

const read = <A>(answer: A): Parsed<A> => ({ ok: true, answer, form: 'answer' });

const verdict = (right: boolean, detail = 'The answer is not the right one.'): GivenVerdict =>
  right ? { kind: 'pass' } : { kind: 'fail', violations: [{ category: 'wrong', detail }] };

/** Reads the reply as text; an empty reply is not an answer. */
const readText = (text: string): Parsed<string> =>
  text.trim() === '' ? refused('The reply is empty.') : read(text.trim());

const SHOWN_CHARACTERS = 40;
const shortened = (text: string): string => text.slice(0, SHOWN_CHARACTERS).toWellFormed();

const expected = ({ answer }: DataProblem): string => answer as string;

interface Told {
  readonly value: Json;
  /** Equal for replies and answers that are equal. */
  readonly compared: string;
}

/** Normalises texts for comparison; member names stay as they are. */
const comparedTexts = (value: Json): Json =>
  typeof value === 'string'
    ? compared(value)
    : Array.isArray(value)
      ? value.map(comparedTexts)
      : typeof value === 'object' && value !== null
        ? dictionary(
            Object.entries(value as Dictionary<Json>).map(([name, member]) => [
              name,
              comparedTexts(member),
            ]),
          )
        : value;

function readJson(text: string): Parsed<Told> {
  try {
    const json = readJsonText(fenced(text) ?? text);
    if (json.twice !== null)
      return refused(`The member ${JSON.stringify(shortened(json.twice))} is there twice.`);
    const value = structuredClone(json.value); // of a schema, with numbers as doubles
    const { numbers } = comparable(json);
    return read({
      value,
      compared: comparedJson(
        comparedTexts(withDigits({ value: json.value, numbers })),
        digitsOf(numbers),
      ),
    });
  } catch {
    return refused('The reply is not one JSON value.');
  }
}

/** Accepts numbers within the tolerance of the answer. */
function numberChecker({
  tolerance,
  relative,
}: Check & { readonly kind: 'number' }): Checker<string> {
  // a share was divided by 100: its decimals are those of the per cent
  const given = decimalOf(
    String(relative ? Number((100 * tolerance).toPrecision(15)) : tolerance),
  )!;
  const share = relative ? { ...given, exponent: given.exponent - 2 } : given;
  return {
    read: (text) => {
      const said = lastNumber(text);
      if (said === null) return refused('There is no number in the reply.');
      return 'number' in said
        ? read(said.number)
        : refused(
            `The last number in the reply, ${JSON.stringify(shortened(said.unread))}, cannot be read.`,
          );
    },
    verify: (problem, answer) => {
      const wanted = readNumber(expected(problem))!;
      const right = decimalOf(wanted)!;
      const near = isNear(
        decimalOf(answer)!,
        right,
        relative ? times(share, magnitude(right)) : share,
      );
      return verdict(
        near || (Number(answer) === Number(wanted) && isHeld(answer) && isHeld(wanted)),
      );
    },
  };
}

function jsonChecker({ schema }: Check & { readonly kind: 'json' }): Checker<Told> {
  const complaintOf = schema === null ? null : compileSchema(schema);
  return {
    read: readJson,
    verify: ({ answer, digits = {} }, { value, compared }) => {
      const complaint = complaintOf?.(value) ?? null;
      if (complaint !== null)
        return { kind: 'fail', violations: [{ category: 'schema', detail: `${complaint}.` }] };
      return verdict(answer === null || compared === comparedJson(comparedTexts(answer), digits));
    },
  };
}

/** Tests the pattern on the text as written, and with both normalised. */
function matches(pattern: string, text: string): boolean {
  return regexOf(pattern).test(text) || regexOf(compared(pattern)).test(compared(text));
}

/** Asks the model of a check, which runs in another thread. */
export type AskModel = (messages: readonly ChatMessage[]) => Promise<Graded>;

/** @param ask for a check that is a model */
export function checkerOf(check: Check, ask?: AskModel): Checker {
  const text = (right: (problem: DataProblem, answer: string) => boolean): Checker =>
    ({
      read: readText,
      verify: (problem, answer) => verdict(right(problem, answer)),
    }) satisfies Checker<string> as Checker;
  switch (check.kind) {
    case 'exact':
      return text((problem, answer) => compared(answer) === compared(expected(problem)));
    case 'normalised':
      return text((problem, answer) => normalised(answer) === normalised(expected(problem)));
    case 'contains':
      return text((problem, answer) => contains(compared(answer), compared(expected(problem))));
    case 'regex':
      return text((problem, answer) => matches(expected(problem), answer));
    case 'choice':
      return {
        read: (reply, { choices = [] }) => {
          const found = namedChoices(reply, choices);
          return found.length === 1
            ? read(found[0]!)
            : refused(
                found.length === 0
                  ? 'The reply names none of the choices.'
                  : 'The reply names more than one of the choices.',
              );
        },
        verify: (problem, answer) => verdict(answer === expected(problem)),
      };
    case 'number':
      return numberChecker(check) as Checker;
    case 'json':
      return jsonChecker(check) as Checker;
    case 'model':
      return {
        read: readText,
        verify: async (problem, reply) => {
          if (ask === undefined) throw new Error('there is no model to ask');
          return verdictOf(check.grading, await ask(askedOf(check.grading, problem, reply)));
        },
      } satisfies Checker<string> as Checker;
    default:
      return programChecker(check);
  }
}
