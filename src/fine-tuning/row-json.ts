/** Rows of JSON to train on, with what their text says and their value does not. */
import type { Dictionary } from '../dictionary.js';
import { given } from '../given.js';
import {
  placeOf,
  readJsonText,
  textsOf,
  withDigits,
  writtenJson,
  type WrittenNumber,
} from '../json-text.js';
import { isObject } from './row-members.js';

/**
 * Members that reach the model beside an answer: a number in them is rendered, and has to be the
 * file's.
 */
const RENDERED = new Set(
  (
    'messages conversations prompt completion chosen rejected input preferred_output ' +
    'non_preferred_output tools functions chat_template_kwargs'
  ).split(' '),
);

/**
 * A row, or a list of them. An answer that is no text is the JSON that is learned, its numbers as
 * they are written; another number that a double does not hold is its digits, as a text.
 * @param refuse of a row of a list by its index
 * @throws SyntaxError where it is no JSON
 */
export function readRowJson(
  text: string,
  refuse: (index: number | null, what: string) => never,
): unknown {
  const json = readJsonText(text);
  const { value } = json;
  const read = (row: unknown, numbers: readonly WrittenNumber[], index: number | null): unknown => {
    if (!isObject(row) || numbers.length === 0) return row;
    const lost = numbers.find(({ held, path: [member] }) => !held && RENDERED.has(String(member)));
    if (lost !== undefined)
      refuse(
        index,
        `${placeOf(lost.path)} is ${lost.text.slice(0, 60)}, which has more digits than a number can hold; write it as a string`,
      );
    const { answer, ...others } = row as Dictionary<never>;
    const of = (isAnswer: boolean): WrittenNumber[] =>
      numbers.filter(({ path: [member] }) => (member === 'answer') === isAnswer);
    const written = of(true).map((each) => ({ ...each, path: each.path.slice(1) }));
    const learned = written.length === 0 ? answer : writtenJson(answer!, textsOf(written));
    return {
      ...(withDigits({ value: others, numbers: of(false) }) as object),
      ...given({ answer: learned }),
    };
  };
  if (!Array.isArray(value)) return read(value, json.numbers, null);
  const byRow = new Map<number, WrittenNumber[]>();
  for (const {
    path: [index, ...path],
    ...number
  } of json.numbers)
    byRow.set(index as number, [...(byRow.get(index as number) ?? []), { ...number, path }]);
  return value.map((row: unknown, index) => read(row, byRow.get(index) ?? [], index));
}
