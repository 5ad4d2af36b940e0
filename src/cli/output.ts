import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { IsoproError } from '../errors.js';
import { asFileError } from '../files.js';
import { WrongSettings } from '../operations/wrong-settings.js';
import { visible } from '../visible-text.js';
import { fitted, painted, screened, terminalStyle, wrapped } from '../text/terminal-style.js';

/**
 * Characters that JSON leaves unescaped but `visible` shows, as UTF-16 code units, so that a
 * surrogate pair becomes a pair of escapes.
 */
const UNSEEN =
  /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

/** Wrong flags or arguments: exit code 2, no stack. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** `bench` brings one of its own into the bundled command. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'UsageError';
  }
}

/** JSON text without terminal control characters; parsing it gives the same value. */
export const jsonText = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replace(UNSEEN, (units) =>
    Array.from(
      { length: units.length },
      (_, i) => `\\u${units.charCodeAt(i).toString(16).padStart(4, '0')}`,
    ).join(''),
  );

/** Prints one JSON document on stdout. */
export function printJson(value: unknown): void {
  process.stdout.write(`${jsonText(value, 2)}\n`);
}

/** Prints one line of a JSONL list on stdout. */
export function printJsonLine(value: unknown): void {
  process.stdout.write(`${jsonText(value)}\n`);
}

/**
 * Prints what a person reads on stdout, fitted to its terminal. Of control characters it lets our
 * own colours through.
 */
export function print(text: string): void {
  const style = terminalStyle(process.stdout);
  process.stdout.write(fitted(screened(text, style), style));
}

/** The same on stderr: what goes on, and what is worth knowing beside a result. */
export function printNote(text: string): void {
  const style = terminalStyle(process.stderr);
  process.stderr.write(fitted(screened(text, style), style));
}

/**
 * Prints on stdout and waits where its reader is slower: what is printed without end is not kept in
 * memory.
 */
export async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

/** Aborted by the first Ctrl-C; a second one ends the process at once. */
export function interruption(): AbortSignal {
  const controller = new AbortController();
  const interrupt = (): void => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  };
  process.on('SIGINT', interrupt);
  process.on('SIGTERM', interrupt);
  return controller.signal;
}

/** Resolves when the signal is aborted, and at once where it was. */
export async function end(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/**
 * An interruption in a command's own words: what is kept, and how to go on. Any other error is left
 * as it is.
 */
export function interrupted(error: unknown, what: string, remedy: string): unknown {
  return error instanceof IsoproError && error.code === 'ABORTED'
    ? new IsoproError('ABORTED', `${what} was interrupted`, { cause: error, remedy })
    : error;
}

const DOCS = fileURLToPath(new URL('../../../docs/', import.meta.url));

/** Pages of the documentation by where they lie for whoever types here. */
const withPages = (remedy: string): string =>
  remedy.replace(
    /`docs\/([\w/-]+\.md)`/g,
    (_, page: string) => `\`${path.relative('.', path.join(DOCS, page))}\``,
  );

/**
 * Prints what went wrong and what to do on stderr; returns the exit code. `command`: whose --help
 * says more.
 */
export function reportFailure(failure: unknown, json: boolean, command?: string): number {
  const error = asFileError(failure);
  if (error instanceof UsageError || error instanceof WrongSettings) {
    if (json)
      process.stderr.write(`${jsonText({ error: { code: 'USAGE', message: error.message } })}\n`);
    else
      process.stderr.write(
        `${visible(error.message)}\nSee isopro-native ${command === undefined ? '' : `${command} `}--help.\n`,
      );
    return 2;
  }
  if (error instanceof IsoproError) {
    if (json) process.stderr.write(`${jsonText({ error })}\n`);
    else {
      const style = terminalStyle(process.stderr);
      const [what, remedy] = [
        `error ${error.code}: ${visible(error.message)}`,
        `  what to do: ${visible(withPages(error.remedy))}`,
      ];
      process.stderr.write(
        `${painted(wrapped(what, style, 2), 'bad', style)}\n${wrapped(remedy, style, 2)}\n`,
      );
    }
    return error.code === 'ABORTED' ? 130 : 1;
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  if (json)
    process.stderr.write(`${jsonText({ error: { code: 'NATIVE_FAILURE', message: text } })}\n`);
  else process.stderr.write(`unexpected failure, please report it:\n${visible(text)}\n`);
  return 1;
}
