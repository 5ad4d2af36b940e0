/**
 * Files that callers have sent for their jobs: data of theirs, under ids, each seen by its owner
 * alone. Nothing of them names a path.
 */
import { randomBytes } from 'node:crypto';
import { rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { isFile, makeFolder, unwritable } from '../files.js';
import type { JobStore, Upload } from './store.js';

const MOST_BYTES = 2 ** 30;
/** Extensions by which a task knows the format of rows; other names are text. */
const EXTENSION = /\.(jsonl|ndjson|csv|json)$/i;

export interface NewUpload {
  readonly filename: string;
  readonly purpose: string;
  readonly bytes: Uint8Array;
}

export class Uploads {
  readonly #folder: string;
  readonly #store: JobStore;
  readonly #mostBytes: number;
  /** Bytes that are being written, by owner. */
  readonly #coming = new Map<string, number>();

  /** @param mostBytes of one owner's files together */
  constructor(folder: string, store: JobStore, mostBytes = MOST_BYTES) {
    this.#folder = folder;
    this.#store = store;
    this.#mostBytes = mostBytes;
  }

  /** @throws IsoproError WRITE_FAILED, also where an owner would have too much */
  async add(owner: string, { filename, purpose, bytes }: NewUpload): Promise<Upload> {
    const { length } = bytes;
    return this.#counted(owner, length, () =>
      this.#write(owner, { filename, purpose }, async (file) => {
        await writeFileAtomically(file, [bytes]);
        return length;
      }),
    );
  }

  /**
   * Adds a file that is derived from another one of the same owner.
   * @param most bytes that it may have, where there is room
   * @param write makes the file of a name, of so many bytes at most
   * @throws IsoproError WRITE_FAILED, also where an owner would have too much; as `write`
   */
  async derive(
    owner: string,
    named: Pick<NewUpload, 'filename' | 'purpose'>,
    most: number,
    write: (file: string, mostBytes: number) => Promise<void>,
  ): Promise<Upload> {
    const room = Math.min(
      most,
      this.#mostBytes - this.#store.uploadedBytes(owner) - (this.#coming.get(owner) ?? 0),
    );
    return this.#counted(owner, room, () =>
      this.#write(owner, named, async (file) => {
        await write(file, room);
        return statSync(file).size;
      }),
    );
  }

  /** Uploads of all owners with one purpose. */
  ofPurpose(purpose: string): Upload[] {
    return this.#store.uploadsOfPurpose(purpose);
  }

  async #counted<T>(owner: string, length: number, work: () => Promise<T>): Promise<T> {
    const coming = this.#coming.get(owner) ?? 0;
    if (this.#store.uploadedBytes(owner) + coming + length > this.#mostBytes)
      throw new IsoproError(
        'WRITE_FAILED',
        `the files of ${owner} would exceed ${this.#mostBytes} bytes`,
        { remedy: 'Delete files that you no longer need.' },
      );
    this.#coming.set(owner, coming + length);
    try {
      return await work();
    } finally {
      const left = this.#coming.get(owner)! - length;
      if (left > 0) this.#coming.set(owner, left);
      else this.#coming.delete(owner);
    }
  }

  async #write(
    owner: string,
    { filename, purpose }: Pick<NewUpload, 'filename' | 'purpose'>,
    write: (file: string) => Promise<number>,
  ): Promise<Upload> {
    const extension = EXTENSION.exec(filename)?.[0].toLowerCase() ?? '.txt';
    const id = `file-${randomBytes(12).toString('hex')}`;
    // a folder of its own, so that files that jobs keep next to their data are removed with it
    const name = `${id}/${id}${extension}`;
    const file = path.join(this.#folder, name);
    makeFolder(path.dirname(file), 0o700);
    try {
      const bytes = await write(file);
      const upload = {
        id,
        owner,
        filename,
        purpose,
        bytes,
        createdAt: new Date().toISOString(),
        file: name,
      };
      this.#store.addUpload(upload);
      return upload;
    } catch (error) {
      rmSync(path.dirname(file), { force: true, recursive: true }); // nobody would find it
      throw error;
    }
  }

  /**
   * Upload of an owner; undefined if there is none, or if its file is missing or has another size.
   */
  get(owner: string, id: string): Upload | undefined {
    const found = this.#sent(owner, id);
    return found !== undefined && this.#isHere(found) ? found : undefined;
  }

  /** Newest first. */
  list(owner: string): Upload[] {
    return this.#store.uploads(owner).filter((each) => this.#isHere(each));
  }

  pathOf(owner: string, id: string): string | null {
    const found = this.get(owner, id);
    return found === undefined ? null : this.#pathOf(found);
  }

  /**
   * Removes an upload.
   * @returns whether there was one
   * @throws IsoproError WRITE_FAILED
   */
  remove(owner: string, id: string): boolean {
    const found = this.#sent(owner, id);
    if (found === undefined) return false;
    const file = found.file.includes('/') ? path.join(this.#folder, found.id) : this.#pathOf(found);
    try {
      rmSync(file, { force: true, recursive: true }); // whatever was put in its place goes with it
    } catch (cause) {
      throw unwritable(file, cause);
    }
    this.#store.removeUpload(id);
    return true;
  }

  #sent(owner: string, id: string): Upload | undefined {
    const found = this.#store.upload(id);
    return found?.owner === owner ? found : undefined;
  }

  #pathOf({ file }: Upload): string {
    return path.join(this.#folder, file);
  }

  #isHere(upload: Upload): boolean {
    const file = this.#pathOf(upload);
    return isFile(file) && statSync(file, { throwIfNoEntry: false })?.size === upload.bytes;
  }
}
