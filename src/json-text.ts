/**
 * JSON with what its text says and its value does not: how numbers are written, and members that
 * stand there twice.
 */
import { canonicalJson, type Json } from './canonical-json.js';
import { decimalOf, decimalText, isHeld } from './decimal.js';
import { dictionary, type Dictionary } from './dictionary.js';

export type JsonPath = readonly (string | number)[];

/**
 * A number that JSON.stringify would write otherwise: 1.50, or 9007199254740993, which a double
 * does not hold.
 */
export interface WrittenNumber {
  readonly path: JsonPath;
  readonly text: string;
  /** Its value is what the text says. */
  readonly held: boolean;
}

export interface JsonText {
  readonly value: Json;
  readonly numbers: readonly WrittenNumber[];
  /** The first member that stands a second time in its object. */
  readonly twice: string | null;
}

/** From where to where, of the numbers so far, a member's lie. */
interface Member {
  readonly from: number;
  to: number;
}

interface Frame {
  /** An object's members so far, by name; null in a list. */
  readonly members: Map<string, Member> | null;
  /** Of the member, or the element, that is being read; undefined before an object's next name. */
  at: string | number | undefined;
}

const NUMBER = /-?\d[\d.eE+-]*/y;

/** Where the string that begins at `from` ends. @param json valid */
function endOfString(json: string, from: number): number {
  for (let end = json.indexOf('"', from + 1); ; end = json.indexOf('"', end + 1)) {
    let first = end;
    while (json[first - 1] === '\\') first--;
    if ((end - first) % 2 === 0) return end + 1;
  }
}

/** @param json valid: it is read once more, for what its value no longer tells */
function scanned(json: string): Omit<JsonText, 'value'> {
  const stack: Frame[] = [];
  const numbers: WrittenNumber[] = [];
  /** Numbers of members that a later one of the same name replaces: the value has the last one. */
  const replaced = new Set<number>();
  let twice: string | null = null;
  const path = (): JsonPath => stack.map(({ at }) => at!);
  const end = ({ members, at }: Frame): void => {
    if (members !== null && at !== undefined) members.get(at as string)!.to = numbers.length;
  };
  for (let i = 0; i < json.length; ) {
    const character = json[i]!;
    const frame = stack.at(-1);
    if (character === '"') {
      const behind = endOfString(json, i);
      if (frame?.members != null && frame.at === undefined) {
        const name = JSON.parse(json.slice(i, behind)) as string;
        const before = frame.members.get(name);
        if (before !== undefined) {
          twice ??= name;
          for (let at = before.from; at < before.to; at++) replaced.add(at);
        }
        frame.at = name;
        frame.members.set(name, { from: numbers.length, to: numbers.length });
      }
      i = behind;
      continue;
    }
    if (character === '-' || (character >= '0' && character <= '9')) {
      NUMBER.lastIndex = i;
      const [text] = NUMBER.exec(json)!;
      if (JSON.stringify(Number(text)) !== text)
        numbers.push({ path: path(), text, held: isHeld(text) });
      i += text.length;
      continue;
    }
    if (character === '{') stack.push({ members: new Map(), at: undefined });
    else if (character === '[') stack.push({ members: null, at: 0 });
    else if (character === '}' || character === ']') end(stack.pop()!);
    else if (character === ',') {
      end(frame!);
      frame!.at = frame!.members === null ? (frame!.at as number) + 1 : undefined;
    }
    i++;
  }
  return {
    numbers: replaced.size === 0 ? numbers : numbers.filter((_, at) => !replaced.has(at)),
    twice,
  };
}

/** @throws SyntaxError where it is no JSON */
export function readJsonText(json: string): JsonText {
  const value = JSON.parse(json) as Json;
  return { value, ...scanned(json) };
}

/**
 * The value, in which a number that a double does not hold is its digits, as a text. Changes the
 * value.
 */
export function withDigits({ value, numbers }: Pick<JsonText, 'value' | 'numbers'>): Json {
  let whole = value;
  for (const { path, text, held } of numbers) {
    if (held) continue;
    const last = path.at(-1);
    if (last === undefined) whole = text;
    else {
      const holder = path
        .slice(0, -1)
        .reduce<Json>((at, name) => (at as Dictionary<Json>)[name]!, whole);
      Object.defineProperty(holder, last, {
        value: text,
        enumerable: true,
        configurable: true,
        writable: true,
      });
    }
  }
  return whole;
}

/** One text of each number that a double does not hold, however the file writes it. */
export const comparable = ({
  value,
  numbers,
}: Pick<JsonText, 'value' | 'numbers'>): Pick<JsonText, 'value' | 'numbers'> => ({
  value,
  numbers: numbers.map((number) => {
    const decimal = number.held ? null : decimalOf(number.text);
    return decimal === null ? number : { ...number, text: decimalText(decimal) };
  }),
});

/** As people read it. */
export const placeOf = (path: JsonPath): string => path.join('.');

const pointerOf = (path: JsonPath): string =>
  path.map((name) => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');

/** The numbers that a double does not hold, by JSON pointer (RFC 6901). */
export function digitsOf(numbers: readonly WrittenNumber[]): Dictionary<string> {
  return dictionary(
    numbers.flatMap(({ path, text, held }): [string, string][] =>
      held ? [] : [[pointerOf(path), text]],
    ),
  );
}

/** JSON of a value in which the numbers at these places are written so. */
export function writtenJson(value: Json, texts: ReadonlyMap<string, string>, pointer = ''): string {
  const text = texts.get(pointer);
  if (text !== undefined) return text;
  if (typeof value !== 'object' || value === null || texts.size === 0) return JSON.stringify(value);
  const within = (name: string | number, member: Json): string =>
    writtenJson(member, texts, `${pointer}${pointerOf([name])}`);
  if (Array.isArray(value))
    return `[${value.map((member: Json, i) => within(i, member)).join(',')}]`;
  return `{${Object.entries(value as Dictionary<Json>)
    .map(([name, member]) => `${JSON.stringify(name)}:${within(name, member)}`)
    .join(',')}}`;
}

/** How numbers are written, by JSON pointer. */
export const textsOf = (numbers: readonly WrittenNumber[]): ReadonlyMap<string, string> =>
  new Map(numbers.map(({ path, text }) => [pointerOf(path), text]));

/**
 * Equal for equal values, whatever their layout: numbers by all their digits.
 * @param value as withDigits makes it of comparable
 */
export function comparedJson(value: Json, digits: Dictionary<string>): string {
  const canonical = canonicalJson(value);
  return Object.keys(digits).length === 0 ? canonical : `${canonical}\n${canonicalJson(digits)}`;
}
