/**
 * Processes that serve from a registry, and how a promotion asks them. Each has a file that says
 * what it serves and a lock that the kernel releases when it ends. To move a name, a process leaves
 * a question next to that file and waits for the answer. The name is moved when every living server
 * has loaded the version.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';
import { OwnerLock } from '../log/owner-lock.js';
import type { RegistryPaths } from './folder.js';
import { sha256 } from './record.js';

/** Self-description of a server. */
const presence = z.object({
  /** Served aliases; null means every name of an adapter of its base. */
  names: z.array(z.string()).nullable(),
  baseSha256: z.string().nullable(),
});
export type Presence = z.output<typeof presence>;

const question = z.object({ id: sha256, alias: z.string(), patienceMs: z.number() });
export type Question = z.output<typeof question>;
const answer = z.discriminatedUnion('ok', [
  z.object({ ok: z.literal(true) }),
  z.object({ ok: z.literal(false), reason: z.string(), message: z.string() }),
]);
export type Answer = z.output<typeof answer>;

const SERVER = /^([0-9a-f]{16})\.json$/;
const QUESTION = /^([0-9a-f]{16})\.([0-9a-f]{16})\.ask$/;
const nonce = (): string => randomBytes(8).toString('hex');

/**
 * Reads a file in a form; null if it is incomplete or missing, since another process may be writing
 * or may have just removed it.
 */
function read<T>(file: string, form: z.ZodType<T>): T | null {
  try {
    const parsed = form.safeParse(JSON.parse(readFileSync(file, 'utf8')));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

const write = (file: string, value: unknown): Promise<void> =>
  writeFileAtomically(file, [Buffer.from(`${JSON.stringify(value)}\n`)]);

/** Milliseconds between two looks at the files of others. */
const LOOK_MS = 50;

const namesIn = (folder: string): string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
};

/** This process among those that serve. */
export class Registration {
  readonly #folder: string;
  readonly #name: string;
  readonly #lock: OwnerLock;

  private constructor(folder: string, name: string, lock: OwnerLock) {
    this.#folder = folder;
    this.#name = name;
    this.#lock = lock;
  }

  /**
   * Registers this process. Call it under the registry's lock, so that no name moves before the
   * first reading.
   * @throws IsoproError WRITE_FAILED
   */
  static async take({ servers }: RegistryPaths, said: Presence): Promise<Registration> {
    makeFolder(servers);
    const name = nonce();
    const lock = OwnerLock.take(join(servers, `${name}.lock`));
    if (lock === null)
      throw new IsoproError('WRITE_FAILED', `another process holds the lock ${name} in ${servers}`);
    const registration = new Registration(servers, name, lock);
    try {
      await write(join(servers, `${name}.json`), said);
    } catch (error) {
      registration.end();
      throw error;
    }
    return registration;
  }

  /** Returns the open questions by the ids that their answers use. */
  questions(): ReadonlyMap<string, Question> {
    const found = new Map<string, Question>();
    for (const name of namesIn(this.#folder)) {
      const [, server, asked] = QUESTION.exec(name) ?? [];
      if (server !== this.#name || asked === undefined) continue;
      const given = read(join(this.#folder, name), question);
      if (given !== null) found.set(asked, given);
    }
    return found;
  }

  /** Takes a question away that its asker has left behind. */
  drop(asked: string): void {
    for (const kind of ['ask', 'answer'])
      rmSync(join(this.#folder, `${this.#name}.${asked}.${kind}`), { force: true });
  }

  async answer(asked: string, given: Answer): Promise<void> {
    await write(join(this.#folder, `${this.#name}.${asked}.answer`), given);
  }

  end(): void {
    this.#lock.release();
    sweep(this.#folder, this.#name);
  }
}

/**
 * Removes the files of a server that has ended. Names are random and never repeat. Files that
 * another process holds open stay for the next sweep.
 */
function sweep(folder: string, server: string): void {
  for (const name of namesIn(folder)) {
    if (!name.startsWith(`${server}.`)) continue;
    try {
      rmSync(join(folder, name), { force: true });
    } catch {}
  }
}

/** Returns the living servers of a name by their ids. */
export function serversOf({ servers }: RegistryPaths, alias: string, baseSha256: string): string[] {
  return namesIn(servers).flatMap((name) => {
    const [, server] = SERVER.exec(name) ?? [];
    if (server === undefined) return [];
    const lock = OwnerLock.take(join(servers, `${server}.lock`), 0);
    if (lock !== null) {
      lock.release();
      sweep(servers, server);
      return [];
    }
    const said = read(join(servers, name), presence);
    if (said === null) return [];
    const serves =
      said.names?.includes(alias) ?? (said.baseSha256 === null || said.baseSha256 === baseSha256);
    return serves ? [server] : [];
  });
}

/**
 * Questions to servers about one move; each server keeps the version loaded while they are open.
 */
export class Questions {
  readonly #folder: string;
  readonly #question: Question;
  readonly #deadline: number;
  /** Question ids by server. */
  readonly #asked = new Map<string, string>();

  constructor({ servers }: RegistryPaths, asked: Question) {
    this.#folder = servers;
    this.#question = asked;
    this.#deadline = performance.now() + asked.patienceMs;
  }

  /** Returns true if all of these servers were asked and have loaded the version. */
  covers(servers: readonly string[]): boolean {
    return servers.every((server) => this.#asked.has(server));
  }

  /**
   * Asks the servers that were not yet asked and waits until each has loaded the version or ended.
   * @throws IsoproError SERVER_NOT_READY if one refuses or does not answer in time
   */
  async ask(servers: readonly string[]): Promise<void> {
    const asked = servers
      .filter((server) => !this.#asked.has(server))
      .map((server) => [server, nonce()] as const);
    for (const [server, name] of asked) {
      this.#asked.set(server, name);
      await write(this.#file(server, name, 'ask'), this.#question);
    }
    for (const [server, name] of asked)
      await this.#await(server, this.#file(server, name, 'answer'));
  }

  async #await(server: string, file: string): Promise<void> {
    const { id, alias, patienceMs } = this.#question;
    for (;;) {
      const given = read(file, answer);
      if (given?.ok === true) return;
      if (given !== null)
        throw new IsoproError(
          'SERVER_NOT_READY',
          `a running server cannot load ${id} for ${alias}: ${given.reason}: ${given.message}`,
        );
      const lock = existsSync(join(this.#folder, `${server}.json`))
        ? OwnerLock.take(join(this.#folder, `${server}.lock`), 0)
        : null;
      lock?.release();
      // it has ended and serves no one
      if (lock !== null || !existsSync(join(this.#folder, `${server}.json`))) return;
      if (performance.now() >= this.#deadline)
        throw new IsoproError(
          'SERVER_NOT_READY',
          `a running server has not loaded ${id} for ${alias} within ${patienceMs / 1000} s`,
        );
      await delay(LOOK_MS);
    }
  }

  withdraw(): void {
    for (const [server, name] of this.#asked)
      for (const kind of ['ask', 'answer'] as const)
        rmSync(this.#file(server, name, kind), { force: true });
  }

  #file(server: string, name: string, kind: 'ask' | 'answer'): string {
    return join(this.#folder, `${server}.${name}.${kind}`);
  }
}
