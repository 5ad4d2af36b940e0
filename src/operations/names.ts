/**
 * Names that the settings of a job may use: those allowed when the server was started. A name
 * stands for a file or a program of the server, so no path, address or program is ever taken from a
 * request.
 */
import { lstatSync, realpathSync, statSync } from 'node:fs';
import path from 'node:path';
import { isRunFolder } from '../run-folder/paths.js';
import { needsNoFile } from '../tasks/data/check.js';
import { isTruthRun } from '../truth-seeking/run/folder.js';
import { readGrader } from '../tasks/data/named-check.js';
import { BUILT_IN_IDS, isBuiltIn } from '../tasks/registry.js';
import { OWN_MODELS, readPolicySetting } from '../training/policy-setting.js';
import { NotAllowed, type NotAllowedKind } from './not-allowed.js';

/** Who answers in place of a model of the server, as the operator said. */
export interface AllowedBackend {
  /** In any form of --backend. */
  readonly spec: string;
  /** Variable with its key, in any form of --key-env; absent: the usual one of its kind. */
  readonly keyEnv?: string;
}

export interface AllowedNames {
  /** Model of jobs that name none. */
  readonly model: string;
  /** Models by name, in any form of --model. */
  readonly models: ReadonlyMap<string, string>;
  /** Tasks by name in addition to the built-in ones, in any form of --task. */
  readonly tasks: ReadonlyMap<string, string>;
  /** Back ends by name, beside the model that is served. */
  readonly backends?: ReadonlyMap<string, AllowedBackend>;
  /** Files of adapters by name. */
  readonly adapters: ReadonlyMap<string, string>;
  /** Folder of the registry that is served; undefined: none. */
  readonly registry?: string | undefined;
  /** Folder of results. */
  readonly runs: string;
}

/** Names that belong to one caller. */
export interface CallersNames {
  /** Its own ended jobs that made an adapter, and the adapter's file. */
  adapterOf(name: string): string | null;
  /** Checks whether the caller may read this run folder. */
  mayRead(run: string): boolean;
  /** True for a key with full access. */
  readonly isAdmin: boolean;
  /** Its own uploads: the path. */
  fileOf(id: string): string | null;
}

/** Max bytes of an uploaded grader, which is read on the request thread. */
const LARGEST_GRADER = 2 ** 20;

/** The back end of jobs that name none: a model of the server. */
const LOCAL = 'local';

const some = (names: Iterable<string>): string => [...names].slice(0, 30).join(', ') || 'none';
const quoted = (text: string): string => JSON.stringify(text.slice(0, 100));
const refuse = (kind: NotAllowedKind, param: string, message: string): never => {
  throw new NotAllowed(`${kind}_not_allowed`, param, message);
};

export class Names {
  readonly allowed: AllowedNames;
  readonly #callers: CallersNames;

  constructor(allowed: AllowedNames, callers: CallersNames) {
    this.allowed = allowed;
    this.#callers = callers;
  }

  get isAdmin(): boolean {
    return this.#callers.isAdmin;
  }

  /** @throws NotAllowed */
  model(name: string, param: string): string {
    const found = this.allowed.models.get(name);
    if (found !== undefined) return found;
    return refuse(
      'model',
      param,
      `${quoted(name)} is not a model of this server (${some(this.allowed.models.keys())}); start the server with --allow-model to add it`,
    );
  }

  /** @throws NotAllowed */
  task(name: string, param: string): string {
    if (isBuiltIn(name)) return name;
    const found = this.allowed.tasks.get(name) ?? this.#callers.fileOf(name);
    if (found !== null) return found;
    return refuse(
      'task',
      param,
      `${quoted(name)} is neither a task of this server (${some(this.tasks())}) nor the id of an uploaded file of ` +
        `rows; start the server with --allow-task to add it`,
    );
  }

  /** What `local` and a name of --allow-backend stand for. @throws NotAllowed */
  backend(name: string, param: string): string {
    if (name === LOCAL) return name;
    return this.allowedBackend(name, param).spec;
  }

  /** @throws NotAllowed */
  allowedBackend(name: string, param: string): AllowedBackend {
    const { backends = new Map<string, AllowedBackend>() } = this.allowed;
    const found = backends.get(name);
    if (found !== undefined) return found;
    return refuse(
      'backend',
      param,
      `${quoted(name)} is not a back end of this server (${some([LOCAL, ...backends.keys()])}); start the server with ` +
        '--allow-backend to add it',
    );
  }

  /**
   * Who answers the rules of a run; a model is one of this server.
   * @throws NotAllowed for another model, and for a person
   */
  decider(policy: string, param: string): string {
    const setting = readPolicySetting(policy);
    if (setting?.kind === 'human')
      throw new NotAllowed('setting_not_allowed', param, 'human needs a terminal; a job has none');
    return setting?.kind !== 'model' || OWN_MODELS.includes(setting.model)
      ? policy
      : `model:${this.model(setting.model, param)}`;
  }

  /** Names of back ends. */
  backends(): string[] {
    return [LOCAL, ...(this.allowed.backends?.keys() ?? [])];
  }

  /**
   * @throws NotAllowed for what reads a file or runs a program, and a grader of another model;
   *   IsoproError where it is no grader
   */
  check(name: string, param: string): string {
    if (needsNoFile(name)) return name;
    const schema = name.startsWith('json:')
      ? this.#callers.fileOf(name.slice('json:'.length))
      : null;
    if (schema !== null) return `json:${schema}`;
    const grader = name.startsWith('model:')
      ? this.#callers.fileOf(name.slice('model:'.length))
      : null;
    if (grader !== null && statSync(grader).size > LARGEST_GRADER)
      return refuse(
        'check',
        param,
        `${quoted(name)}: a grader has at most ${LARGEST_GRADER} bytes`,
      );
    if (grader !== null)
      return `model:${grader}@${this.model(readGrader(grader).grader.model, param)}`;
    const what =
      'requests can only use checks that run no program and read no file except an upload (json:ID, model:ID)';
    return refuse('check', param, `${quoted(name)}: ${what}`);
  }

  /** @throws NotAllowed */
  adapter(name: string, param: string): string {
    const found = this.allowed.adapters.get(name) ?? this.#callers.adapterOf(name);
    if (found !== null) return found;
    return refuse(
      'adapter',
      param,
      `${quoted(name)} is neither an adapter of this server (${some(this.allowed.adapters.keys())}) nor a job of this ` +
        `key that produced one`,
    );
  }

  /** The folder. @throws NotAllowed */
  run(name: string, param: string): string {
    return this.#folder(name, param, 'run', isRunFolder);
  }

  /** The folder of a run of `truth run`. @throws NotAllowed */
  truthRun(name: string, param: string): string {
    return this.#folder(name, param, 'truth run', isTruthRun);
  }

  #folder(name: string, param: string, what: string, isOne: (folder: string) => boolean): string {
    const { runs } = this.allowed;
    const parts = name.split('/'); // of an ablation: JOB/NAME
    const isName =
      parts.length <= 2 && parts.every((part) => /^[A-Za-z0-9][\w.-]{0,200}$/.test(part));
    const folders = parts.map((_, i) => path.join(runs, ...parts.slice(0, i + 1)));
    const isLinked = (): boolean => folders.some((folder) => lstatSync(folder).isSymbolicLink());
    if (isName && this.#callers.mayRead(name) && isOne(folders.at(-1)!) && !isLinked())
      return realpathSync(folders.at(-1)!);
    return refuse(
      'run',
      param,
      `${quoted(name)} is not a ${what} of this key in the runs folder of this server`,
    );
  }

  /** The path. @throws NotAllowed */
  file(id: string, param: string): string {
    const found = this.#callers.fileOf(id);
    if (found !== null) return found;
    return refuse('file', param, `${quoted(id)} is not a file that was uploaded with this key`);
  }

  /** The folder. @throws NotAllowed */
  registry(param: string): string {
    if (this.allowed.registry !== undefined) return this.allowed.registry;
    return refuse('registry', param, 'this server has no registry; start it with --registry');
  }

  tasks(): string[] {
    return [...BUILT_IN_IDS, ...this.allowed.tasks.keys()];
  }
}
