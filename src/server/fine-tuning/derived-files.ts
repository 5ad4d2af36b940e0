/**
 * Files that are derived from a caller's file for a job: rows in another form, a schema, a grader.
 * They belong to the caller, and count in its list and its quota. They are removed when their job
 * was refused, failed or was cancelled, and with the file that they were derived from.
 */
import type { Asker, JobQueue } from '../../jobs/queue.js';
import type { RowForm } from './row-forms.js';
import { readRows } from './rows.js';

const DERIVED = 'derived';
/** A template may say the same of each row; it does not make much of little. */
const LARGER = 4;

/** Derived files of one request. */
export class DerivedFiles {
  readonly #queue: JobQueue;
  readonly #asker: Asker;
  readonly #made: string[] = [];

  constructor(queue: JobQueue, asker: Asker) {
    this.#queue = queue;
    this.#asker = asker;
  }

  /** The id of a file of some JSON. @throws IsoproError as Uploads.add */
  async json(filename: string, value: unknown): Promise<string> {
    const bytes = Buffer.from(JSON.stringify(value));
    return this.#kept(
      (await this.#queue.uploads.add(this.#asker.name, { filename, purpose: DERIVED, bytes })).id,
    );
  }

  /** The id of a file of the same rows in a form. @throws as readRows */
  async rows(id: string, form: RowForm): Promise<string> {
    const { uploads } = this.#queue;
    const file = this.#pathOf(id);
    const most = LARGER * uploads.get(this.#asker.name, id)!.bytes + 2 ** 20;
    const named = { filename: `${id}.jsonl`, purpose: DERIVED };
    const made = await uploads.derive(this.#asker.name, named, most, (out, mostBytes) =>
      readRows({ file, form, out, mostBytes }, id),
    );
    return this.#kept(made.id);
  }

  /** Looks at the rows of a file that has the form already. @throws as readRows */
  async check(id: string, form: RowForm): Promise<string> {
    await readRows({ file: this.#pathOf(id), form, out: null, mostBytes: Infinity }, id);
    return id;
  }

  /** Removes what no job took. */
  [Symbol.dispose](): void {
    for (const id of this.#made) removeUnused(this.#queue, this.#asker.name, id);
  }

  #pathOf(id: string): string {
    return this.#queue.uploads.pathOf(this.#asker.name, id)!;
  }

  #kept(id: string): string {
    this.#made.push(id);
    return id;
  }
}

function removeUnused(queue: JobQueue, owner: string, id: string): void {
  if (!queue.isInUse(id)) queue.uploads.remove(owner, id);
}

/**
 * Removes derived files of all owners that no job uses.
 * @param ended the job whose files they are; else those of all, when a queue is opened: none is
 *   being made for a request then
 */
export function removeUnusedFiles(queue: JobQueue, ended?: string): void {
  const settings = ended === undefined ? undefined : JSON.stringify(queue.get(ended)?.settings);
  for (const { id, owner } of queue.uploads.ofPurpose(DERIVED))
    if (ended === undefined || settings?.includes(id) === true) removeUnused(queue, owner, id);
}

/** Removes a file and the files made of it. @returns whether there was such a file */
export function removeWithDerived({ uploads }: JobQueue, owner: string, id: string): boolean {
  if (!uploads.remove(owner, id)) return false;
  for (const made of uploads.list(owner))
    if (made.purpose === DERIVED && made.filename === `${id}.jsonl`) uploads.remove(owner, made.id);
  return true;
}
