/** Files that callers have sent for their jobs: data of theirs, under ids, each seen by its owner alone. Nothing of them names a path. */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { IsoproError } from '../../errors.js';
import { isFile, makeFolder, unwritable } from '../../files.js';
import type { JobStore, Upload } from './store.js';

const MOST_BYTES = 2 ** 30;
/** By which a task knows what a file of rows is; any other name is a text's. */
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
  async add(owner: string, upload: NewUpload): Promise<Upload> {
    const [coming, { length }] = [this.#coming.get(owner) ?? 0, upload.bytes];
    if (this.#store.uploadedBytes(owner) + coming + length > this.#mostBytes)
      throw new IsoproError('WRITE_FAILED', `the files of ${owner} would have more than ${this.#mostBytes} bytes`, {
        remedy: 'Delete files that are not needed any more.',
      });
    this.#coming.set(owner, coming + length);
    try {
      return await this.#write(owner, upload);
    } finally {
      const left = this.#coming.get(owner)! - length;
      if (left > 0) this.#coming.set(owner, left);
      else this.#coming.delete(owner);
    }
  }

  async #write(owner: string, { filename, purpose, bytes }: NewUpload): Promise<Upload> {
    const extension = EXTENSION.exec(filename)?.[0].toLowerCase() ?? '.txt';
    const id = `file-${randomBytes(12).toString('hex')}`;
    makeFolder(this.#folder, 0o700);
    const name = `${id}${extension}`;
    const upload = { id, owner, filename, purpose, bytes: bytes.length, createdAt: new Date().toISOString(), file: name };
    await writeFileAtomically(this.#pathOf(upload), [bytes]);
    try {
      this.#store.addUpload(upload);
    } catch (error) {
      rmSync(this.#pathOf(upload), { force: true }); // nobody would find it
      throw error;
    }
    return upload;
  }

  /** Undefined where there is none of this owner's, or somebody took the file away. */
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

  /** Whether there was one. @throws IsoproError WRITE_FAILED */
  remove(owner: string, id: string): boolean {
    const found = this.#sent(owner, id);
    if (found === undefined) return false;
    const file = this.#pathOf(found);
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
    return isFile(this.#pathOf(upload));
  }
}
