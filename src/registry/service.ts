/**
 * Service for a process that serves from a registry: it resolves names from memory, hashes adapters
 * before loading them, and lets a promotion wait until they are loaded. It follows the log;
 * requests read no file.
 */
import { statSync } from 'node:fs';
import { checked } from '../engine/argument-check.js';
import { IsoproError } from '../errors.js';
import { z } from 'zod';
import { given } from '../given.js';
import { armOf, type Arm } from './canary.js';
import { withLock } from './folder.js';
import { requireThere, type Reading } from './ledger.js';
import { aliasText, parseReference } from './names.js';
import { nameOf } from './record.js';
import type { Registry } from './registry.js';
import {
  lookUp,
  not,
  noteFallback,
  resolveEntry,
  unresolvedError,
  type NotResolved,
  type Resolved,
  type Serving,
  type Unresolved,
} from './resolve.js';
import { Registration, type Answer, type Question } from './servers.js';
import type { AliasState } from './state.js';

/** Loaded adapter of a server; `id` is the SHA-256 of the bytes that were loaded. */
export interface LoadedVersion {
  readonly id: string;
}

export interface ServiceOptions<T extends LoadedVersion> extends Serving {
  /** Loads a file that was just hashed: `({ file }) => model.loadAdapter(file)`. */
  readonly load: (version: Resolved) => Promise<T>;
  /** Called when no one holds the adapter and no name refers to it any more. */
  readonly unload: (loaded: T) => Promise<void> | void;
  /** Aliases to load at once and keep ready; default: every alias of an adapter of `baseSha256`. */
  readonly names?: readonly string[];
  /**
   * `base` or a fallback name for versions that cannot be served; each use is written to the
   * registry's log. Absent: no fallback.
   */
  readonly fallback?: string;
  /**
   * Called with background errors: a name that cannot be loaded, a changed log. Loaded versions are
   * still served.
   */
  readonly onError?: (error: IsoproError) => void;
  /** Called when a name refers to a different version and that version is loaded. */
  readonly onMoved?: (alias: string, id: string | null) => void;
  /** Milliseconds between two looks at the registry. Default 200. */
  readonly lookMs?: number;
}

/** A hold on one version; what answers with it has to `release` it when the reply has ended. */
export interface ServedVersion<T> extends Omit<Arm, 'other'> {
  /** `base#hash`; null: the base without an adapter. */
  readonly name: string | null;
  /** Loaded adapter; null for the base model without an adapter. */
  readonly adapter: T | null;
  /**
   * Version to compare with in the shadow: a name for `resolve`, `base` for the base model, null if
   * there is no other version.
   */
  readonly shadow: string | null;
  /** Reason for a fallback; null if it is the requested version. */
  readonly fallback: Unresolved | null;
  release(): void;
  [Symbol.dispose](): void;
}

interface Held<T> {
  readonly loaded: Promise<T>;
  holders: number;
}

/** Milliseconds before an unreadable log is read again, since checking it may take long. */
const REST_MS = 5000;

const lookForm = z.number().min(1).max(3_600_000).default(200);

export class AdapterService<T extends LoadedVersion> {
  readonly #registry: Registry;
  readonly #options: ServiceOptions<T>;
  readonly #registration: Registration;
  #reading: Reading;
  #seen: string;
  /** Held versions by record id. */
  readonly #held = new Map<string, Held<T>>();
  /** Requested versions by question, each with the time until which it is kept. */
  readonly #asked = new Map<string, { readonly id: string; readonly until: number }>();
  /** Version of each name at the last look. */
  readonly #stood = new Map<string, string | null>();
  readonly #fellBack = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  /** True if the versions of this reading were loaded, or tried. */
  #isReady = false;
  #restsUntil = 0;
  #looking: Promise<void> = Promise.resolve();
  #closed = false;

  /** @internal Use serveAdapters. */
  constructor(
    registry: Registry,
    options: ServiceOptions<T>,
    registration: Registration,
    reading: Reading,
    seen: string,
  ) {
    this.#registry = registry;
    this.#options = options;
    this.#registration = registration;
    this.#reading = reading;
    this.#seen = seen;
    for (const { slot, alias, current } of reading.state.aliases)
      this.#stood.set(aliasText(slot, alias), current);
    const lookMs = checked(lookForm, options.lookMs, 'lookMs');
    const look = (): void => {
      this.#looking = this.#looking
        .then(() => this.#look())
        .finally(() => {
          if (!this.#closed) this.#timer = setTimeout(look, lookMs);
        });
    };
    look();
  }

  /** The registry at the last look. */
  get reading(): Reading {
    return this.#reading;
  }

  /** Returns the aliases that can be requested here. */
  names(): readonly string[] {
    return this.#served().map(({ slot, alias }) => aliasText(slot, alias));
  }

  /**
   * Returns the version of a name. The same key (such as a user or a conversation) gets the same
   * version until the name is moved, even if only a share of the keys get the new one.
   * @throws IsoproError REGISTRY_UNRESOLVED, ADAPTER_CORRUPT, ADAPTER_MISMATCH if it cannot be
   *   served and no fallback is configured
   */
  async resolve(name: string, key?: string): Promise<ServedVersion<T>> {
    if (this.#closed) throw new IsoproError('OBJECT_DISPOSED', 'the service has been closed');
    const { fallback } = this.#options;
    const found = await this.#find(name, key);
    if (!('reason' in found)) return found;
    if (fallback === undefined) throw unresolvedError(found);
    const instead =
      fallback === 'base' ? this.#base('current', null) : await this.#find(fallback, key);
    if ('reason' in instead)
      throw unresolvedError({
        ...instead,
        message: `${found.message}; the fallback failed too: ${instead.message}`,
      });
    const note = `${name} ${found.reason} ${instead.id}`;
    if (!this.#fellBack.has(note)) {
      // once per process: a missing name may be requested a thousand times a second
      this.#fellBack.add(note);
      await noteFallback(this.#registry, name, found, instead.id).catch((error: unknown) => {
        this.#fellBack.delete(note);
        instead.release();
        throw error;
      });
    }
    return { ...instead, fallback: found.reason };
  }

  /** Looks at the registry now instead of at the next scheduled time. */
  async look(): Promise<void> {
    await this.#looking;
    await (this.#looking = this.#looking.then(() => this.#look()));
  }

  /** Stops serving; versions that are still held are unloaded on release. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#looking;
    clearTimeout(this.#timer);
    this.#registration.end();
    this.#asked.clear();
    this.#let();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #served(): AliasState[] {
    const { names, baseSha256 } = this.#options;
    const { state } = this.#reading;
    return state.aliases.filter(({ slot, alias, current }) => {
      if (names !== undefined) return names.includes(aliasText(slot, alias));
      return (
        current !== null &&
        (baseSha256 === undefined || state.entries.get(current)!.record.base.sha256 === baseSha256)
      );
    });
  }

  #base(arm: Arm['arm'], shadow: string | null): ServedVersion<T> {
    return served<T>({ id: null, name: null, adapter: null, arm, shadow }, () => {});
  }

  async #find(name: string, key?: string): Promise<ServedVersion<T> | NotResolved> {
    const { state } = this.#reading;
    const reference = parseReference(name);
    const named = reference?.kind === 'alias' ? state.alias(reference.slot, reference.alias) : null;
    const shadowOf = (other: string | null | undefined): string | null => {
      if (other === undefined) return null;
      return other === null ? 'base' : nameOf(state.entries.get(other)!.record, other);
    };
    if (named === null || named.current === null) {
      const entry = lookUp(state, name);
      return 'ok' in entry ? entry : this.#hold(entry.id, 'current', null);
    }
    const { id, arm, other } = armOf(state, named, key);
    return id === null ? this.#base(arm, shadowOf(other)) : this.#hold(id, arm, shadowOf(other));
  }

  async #hold(
    id: string,
    arm: Arm['arm'],
    shadow: string | null,
  ): Promise<ServedVersion<T> | NotResolved> {
    let held = this.#held.get(id);
    if (held === undefined) {
      const found = this.#load(id);
      held = { loaded: found, holders: 0 };
      this.#held.set(id, held);
      // the next request retries what did not load
      found.catch(() => this.#held.delete(id));
    }
    held.holders++;
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      held.holders--;
      this.#let();
    };
    try {
      const adapter = await held.loaded;
      const name = nameOf(this.#reading.state.entries.get(id)!.record, id);
      return served({ id, name, adapter, arm, shadow }, release);
    } catch (error) {
      release();
      if (error instanceof Refused) return error.why;
      throw error;
    }
  }

  /** Hashes the bytes, loads them and compares the loaded adapter with the record. */
  async #load(id: string): Promise<T> {
    const { load, unload } = this.#options;
    const serving = given(this.#options, 'baseSha256', 'rendererId', 'formerRendererId');
    const entry = this.#reading.state.entries.get(id);
    if (entry === undefined) throw new Refused(not('unknown-id', `nothing is published as ${id}`));
    const found = await resolveEntry(this.#registry, entry, serving);
    if (!found.ok) throw new Refused(found);
    const loaded = await load(found);
    if (loaded.id === found.record.adapter.sha256) return loaded;
    await unload(loaded);
    throw new Refused(not('bytes-changed', `${found.file} changed while it was loaded`));
  }

  /** Unloads versions that no one holds and no name refers to. */
  #let(): void {
    const wanted = new Set<string | null | undefined>(
      [...this.#asked.values()].map(({ id }) => id),
    );
    if (!this.#closed)
      for (const { slot, alias, current } of this.#served())
        wanted.add(current).add(this.#reading.state.before(slot, alias));
    for (const [id, { loaded, holders }] of this.#held) {
      if (holders > 0 || wanted.has(id)) continue;
      this.#held.delete(id);
      loaded
        .then((adapter) => this.#options.unload(adapter))
        .catch((error: unknown) => {
          if (!(error instanceof Refused)) this.#report(error);
        });
    }
  }

  #report(error: unknown): void {
    const { onError } = this.#options;
    if (error instanceof Refused) onError?.(unresolvedError(error.why));
    else if (error instanceof IsoproError) onError?.(error);
    else
      onError?.(new IsoproError('REGISTRY_UNRESOLVED', (error as Error).message, { cause: error }));
  }

  async #look(): Promise<void> {
    try {
      const seen = signature(this.#registry);
      if (seen !== this.#seen && performance.now() >= this.#restsUntil) {
        this.#reading = await this.#registry.read();
        this.#seen = seen;
        this.#isReady = false;
      }
      if (!this.#isReady) await this.#makeReady();
      this.#isReady = true;
      await this.#answer();
      this.#let();
    } catch (error) {
      this.#restsUntil = performance.now() + REST_MS;
      this.#report(error);
    }
  }

  /**
   * Loads the current versions and those that a rollback would restore, before the log needs them.
   */
  async #makeReady(): Promise<void> {
    for (const { slot, alias, current } of this.#served()) {
      const text = aliasText(slot, alias);
      const isReady = await this.#preload(current);
      await this.#preload(this.#reading.state.before(slot, alias));
      if (!isReady || this.#stood.get(text) === current) continue;
      this.#stood.set(text, current);
      this.#options.onMoved?.(text, current);
    }
  }

  async #preload(id: string | null | undefined): Promise<boolean> {
    if (id === null || id === undefined || this.#held.has(id)) return true;
    try {
      const found = await this.#hold(id, 'current', null);
      if ('reason' in found) throw new Refused(found);
      found.release();
      return true;
    } catch (error) {
      this.#report(error);
      return false;
    }
  }

  async #answer(): Promise<void> {
    const questions = this.#registration.questions();
    const now = performance.now();
    const left = new Set<string>();
    for (const [asked, { until }] of this.#asked) {
      const isLeft = now > until; // by a killed asker
      if (isLeft) this.#registration.drop(asked);
      if (isLeft) left.add(asked);
      if (isLeft || !questions.has(asked)) this.#asked.delete(asked);
    }
    for (const [asked, question] of questions) {
      if (this.#asked.has(asked) || left.has(asked)) continue;
      this.#asked.set(asked, { id: question.id, until: now + question.patienceMs + 60_000 });
      await this.#answerOne(asked, question);
    }
  }

  async #answerOne(asked: string, { id }: Question): Promise<void> {
    let said: Answer = { ok: true };
    try {
      if (!this.#reading.state.entries.has(id)) this.#reading = await this.#registry.read();
      const found = await this.#hold(id, 'current', null);
      if ('reason' in found) throw new Refused(found);
      found.release();
    } catch (error) {
      const reason =
        error instanceof Refused
          ? error.why.reason
          : error instanceof IsoproError
            ? error.code
            : 'error';
      said = { ok: false, reason, message: (error as Error).message.slice(0, 1000) };
    }
    await this.#registration.answer(asked, said);
  }
}

const served = <T>(
  version: Omit<ServedVersion<T>, 'fallback' | 'release' | typeof Symbol.dispose>,
  release: () => void,
): ServedVersion<T> => ({ ...version, fallback: null, release, [Symbol.dispose]: release });

/** Carries a typed reason through a promise that several wait for. */
class Refused extends Error {
  constructor(readonly why: NotResolved) {
    super(why.message);
  }
}

/** Changes when the log does; says nothing of what it holds. */
function signature({ paths }: Registry): string {
  return [paths.log, `${paths.log}-wal`, paths.pointer]
    .map((file) => {
      const found = statSync(file, { throwIfNoEntry: false });
      return found === undefined ? '-' : `${found.ino} ${found.size} ${found.mtimeMs}`;
    })
    .join(', ');
}

/**
 * Starts to serve from a registry: promotions wait for this process until `close`.
 * @throws IsoproError as Registry.read
 */
export async function serveAdapters<T extends LoadedVersion>(
  registry: Registry,
  options: ServiceOptions<T>,
): Promise<AdapterService<T>> {
  const { paths } = registry;
  requireThere(paths);
  const said = {
    names: options.names === undefined ? null : [...options.names],
    baseSha256: options.baseSha256 ?? null,
  };
  const registration = await withLock(paths.lock, () => Registration.take(paths, said));
  try {
    const seen = signature(registry);
    const reading = await registry.read();
    const service = new AdapterService(registry, options, registration, reading, seen);
    await service.look();
    return service;
  } catch (error) {
    registration.end();
    throw error;
  }
}
