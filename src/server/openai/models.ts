/** What a request names as its model: the base, or the base with an adapter. */
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../../errors.js';
import type { HostedAdapter } from '../../host/hosted-adapter.js';
import type { HostedModel } from '../../host/hosted-model.js';
import { forbidden, invalid, RequestFailure } from '../failures.js';

/** What answers under a name. */
export interface Served {
  readonly model: HostedModel;
  readonly adapter: HostedAdapter | null;
}

interface NamedAdapter {
  readonly adapter: HostedAdapter;
  readonly created: number;
}

/** As OpenAI lists a model, and vLLM an adapter. */
export interface ModelEntry {
  readonly id: string;
  readonly object: 'model';
  readonly created: number;
  readonly owned_by: string;
  readonly root: string;
  readonly parent: string | null;
  readonly max_model_len: number;
}

const now = (): number => Math.floor(Date.now() / 1000);
/** What a file's name may be read as something else by: a scheme, a home folder, a program. */
const NOT_A_FILE = /^[a-z][\w+.-]+:|^~/i;

export class ServedModels {
  readonly model: HostedModel;
  readonly base: string;
  readonly #created = now();
  readonly #folder: string | undefined;
  readonly #adapters = new Map<string, NamedAdapter>();

  /**
   * @param base the name that the bare model answers to
   * @param folder where requests may load adapters from; undefined: from nowhere
   */
  constructor(model: HostedModel, base: string, { folder }: { folder?: string | undefined } = {}) {
    this.model = model;
    this.base = base;
    this.#folder = folder === undefined ? undefined : realpathSync(folder);
  }

  /** @throws IsoproError as HostedModel.loadAdapter; INVALID_ARGUMENT where the name is taken */
  async add(name: string, file: string): Promise<void> {
    if (this.#isTaken(name)) throw new IsoproError('INVALID_ARGUMENT', `two models are named ${name}`);
    this.#adapters.set(name, { adapter: await this.model.loadAdapter(file), created: now() });
  }

  /** @throws RequestFailure 404 */
  served(name: string | undefined): Served {
    if (name === undefined || name === this.base) return { model: this.model, adapter: null };
    const found = this.#adapters.get(name);
    if (found === undefined) throw notFound(name);
    return { model: this.model, adapter: found.adapter };
  }

  entries(): ModelEntry[] {
    const base = this.#entry(this.base, this.#created, this.base, null);
    return [base, ...[...this.#adapters].map(([name, { adapter, created }]) => this.#entry(name, created, adapter.id, this.base))];
  }

  /** @throws RequestFailure 404 */
  entry(name: string): ModelEntry {
    const found = this.entries().find(({ id }) => id === name);
    if (found === undefined) throw notFound(name);
    return found;
  }

  /**
   * Loads an adapter that a request names by its file, under a name.
   * @throws RequestFailure 400 where the name is taken, 403 where the file is not one that requests may load; IsoproError
   */
  async load(name: string, file: string, inPlace: boolean): Promise<void> {
    if (name === this.base || (!inPlace && this.#adapters.has(name)))
      throw invalid('lora_name', `${name} is loaded already; load_inplace puts another adapter in the place of one`);
    const adapter = await this.model.loadAdapter(this.#confined(file));
    if (!inPlace && this.#isTaken(name)) {
      await adapter.dispose();
      throw invalid('lora_name', `${name} was loaded meanwhile`);
    }
    const before = this.#adapters.get(name);
    this.#adapters.set(name, { adapter, created: now() });
    await before?.adapter.dispose();
  }

  /** Replies that run with it end as they would have. @throws RequestFailure 404 */
  async unload(name: string): Promise<void> {
    const found = this.#adapters.get(name);
    if (found === undefined) throw notFound(name);
    this.#adapters.delete(name);
    await found.adapter.dispose();
  }

  #isTaken(name: string): boolean {
    return name === this.base || this.#adapters.has(name);
  }

  #entry(id: string, created: number, root: string, parent: string | null): ModelEntry {
    return { id, object: 'model', created, owned_by: 'isopro-native', root, parent, max_model_len: this.model.contextTokens };
  }

  /** The file itself, wherever links lead. */
  #confined(file: string): string {
    const refuse = (): RequestFailure =>
      forbidden('lora_path: requests may load files of the folder that --adapters names, and no others', 'path_not_allowed', 'lora_path');
    if (this.#folder === undefined || NOT_A_FILE.test(file) || file.includes('\0')) throw refuse();
    const given = path.resolve(this.#folder, file);
    if (!isWithin(this.#folder, given)) throw refuse();
    let real: string;
    try {
      real = realpathSync(given);
    } catch {
      throw new RequestFailure(404, 'not_found_error', 'lora_path: there is no such file', { param: 'lora_path', code: 'file_not_found' });
    }
    if (!isWithin(this.#folder, real)) throw refuse();
    return real;
  }
}

const isWithin = (folder: string, file: string): boolean => file.startsWith(folder.endsWith(path.sep) ? folder : folder + path.sep);

const notFound = (name: string): RequestFailure =>
  new RequestFailure(
    404,
    'not_found_error',
    `there is no model ${JSON.stringify(name.slice(0, 200))} here; GET /v1/models lists what there is`,
    {
      param: 'model',
      code: 'model_not_found',
    },
  );
