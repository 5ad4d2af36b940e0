/**
 * A file of JSON lines that outlives a kill: each line is on the disk when `append` returns, and a
 * line that a kill has cut is left out when the file is read.
 */
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs';
import path from 'node:path';
import type { z } from 'zod';
import { IsoproError } from '../errors.js';
import { isFile, makeFolder, readText, requireTarget, unwritable } from '../files.js';

/**
 * @returns nothing where there is no file
 * @throws IsoproError BANK_MISMATCH for a whole line of another form, FILE_UNREADABLE
 */
export function readLinesOf<T>(file: string, form: z.ZodType<T>): T[] {
  if (!isFile(file)) return [];
  return readText(file)
    .split('\n')
    .flatMap((each): T[] => {
      let data: unknown;
      try {
        data = JSON.parse(each);
      } catch {
        return [];
      }
      const parsed = form.safeParse(data);
      if (parsed.success) return [parsed.data];
      throw new IsoproError('BANK_MISMATCH', `${file} holds a line of another form`);
    });
}

export class DurableLines<T> implements Disposable {
  readonly #file: string;
  readonly #handle: number;

  /** @throws IsoproError WRITE_FAILED */
  constructor(file: string) {
    this.#file = file;
    makeFolder(path.dirname(file));
    requireTarget(file);
    try {
      this.#handle = openSync(file, 'a+', 0o644);
    } catch (cause) {
      throw unwritable(file, cause);
    }
    const { size } = fstatSync(this.#handle);
    const last = Buffer.alloc(1);
    if (size > 0) readSync(this.#handle, last, 0, 1, size - 1);
    if (size > 0 && last.toString() !== '\n') this.#write('\n');
  }

  #write(text: string): void {
    try {
      writeSync(this.#handle, text);
      fsyncSync(this.#handle);
    } catch (cause) {
      throw unwritable(this.#file, cause);
    }
  }

  /** @throws IsoproError WRITE_FAILED */
  append(line: T): void {
    this.#write(`${JSON.stringify(line)}\n`);
  }

  [Symbol.dispose](): void {
    closeSync(this.#handle);
  }
}
