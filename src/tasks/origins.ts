/** Finds the place in a user's files that threw an exception in their bundle (`task-bundle.ts`). */
import { visible } from '../visible-text.js';
import { SourceMap, type SourceMapPayload } from 'node:module';

/** A place in the bundle, as V8 names it: line and column from 1. */
const FRAME = /data:text\/javascript;base64,[^:\s]*:(\d+):(\d+)/;

/** Returns a thrown value as text. */
export function wordsOf(error: unknown): string {
  try {
    return String(error);
  } catch {
    return 'something that cannot be shown';
  }
}

export class Origins {
  readonly #map: SourceMap;
  readonly #told = new Set<string>();

  /** @param sourceMap JSON of the bundle's (https://tc39.es/ecma426) */
  constructor(sourceMap: string) {
    this.#map = new SourceMap(JSON.parse(sourceMap) as SourceMapPayload);
  }

  /**
   * Returns `task.ts:12`, relative to the folder of the task; null if the exception has no place.
   */
  placeOf(error: unknown): string | null {
    const found = error instanceof Error ? FRAME.exec(error.stack ?? '') : null;
    if (found === null) return null;
    const entry = this.#map.findEntry(Number(found[1]) - 1, Number(found[2]) - 1);
    return 'originalSource' in entry ? `${entry.originalSource}:${entry.originalLine + 1}` : null;
  }

  /** Prints what a member threw and where, once per place. */
  tell(member: string, error: unknown): void {
    const place = this.placeOf(error);
    if (place === null || this.#told.has(place)) return;
    this.#told.add(place);
    const said = visible(`${place}: ${member} threw ${wordsOf(error).slice(0, 500)}`);
    process.stderr.write(`${said} (further errors from this line are not shown)\n`);
  }
}
