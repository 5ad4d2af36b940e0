/**
 * Streams of a kind of log. The log itself knows only `control`: its own start, resumptions, nonce
 * and end.
 */
import { ownValue } from '../dictionary.js';
import { IsoproError } from '../errors.js';

/**
 * Streams that the writer or reader of a log passes in. They are part of the file format and never
 * change for existing logs.
 */
export interface LogStreams<Name extends string = string> {
  /** Each stream's number inside the leaf hash, 1 to 255. */
  readonly codes: Readonly<Record<Name | 'control', number>>;
  /** Views of the file, each of one stream with the session's start and end. */
  readonly views?: Readonly<Record<string, Name>>;
}

const NAME = /^[a-z][a-z_]{0,62}$/;
const TAKEN: readonly string[] = ['log', 'checkpoint', 'live', 'sqlite'];
const checked = new WeakSet<LogStreams>();

/** @throws IsoproError INVALID_ARGUMENT if they are no streams that a log can have */
export function checkStreams(streams: LogStreams): void {
  if (checked.has(streams)) return;
  const { codes, views = {} } = streams;
  const numbers = Object.values(codes);
  const refuse = (reason: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', `streams of a log: ${reason}`);
  };
  if (!Object.hasOwn(codes, 'control')) refuse('the stream control is missing');
  if (numbers.some((code) => !Number.isSafeInteger(code) || code < 1 || code > 255))
    refuse('each number must be between 1 and 255');
  if (new Set(numbers).size < numbers.length) refuse('two streams have the same number');
  const wrong = [...Object.keys(codes), ...Object.keys(views)].find((name) => !NAME.test(name));
  if (wrong !== undefined)
    refuse(`${JSON.stringify(wrong)} is not a valid name: use small letters and _`);
  for (const [view, stream] of Object.entries(views)) {
    if (TAKEN.some((name) => view === name || view.startsWith(`${name}_`)))
      refuse(`${view} is reserved for the log file itself`);
    if (stream === 'control' || ownValue(codes, stream) === undefined)
      refuse(`the view ${view} does not show one of these streams`);
  }
  checked.add(streams);
}

/** Returns the names of the streams by number. */
export const streamNames = <Name extends string>({
  codes,
}: LogStreams<Name>): ReadonlyMap<number, Name | 'control'> =>
  new Map(Object.entries<number>(codes).map(([name, code]) => [code, name as Name | 'control']));
