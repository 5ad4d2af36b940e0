/** Models that a request may name: the base, or the base with an adapter. */
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../../errors.js';
import type { HostedAdapter } from '../../host/hosted-adapter.js';
import type { HostedModel } from '../../host/hosted-model.js';
import { forbidden, invalid, RequestFailure } from '../failures.js';
import type { LoraBody } from './requests.js';
import { unixSeconds } from './shapes.js';

/**
 * A model that is held until the caller has its reply: `using served = await models.open(name,
 * key)`.
 */
export interface Served extends Disposable {
  readonly model: HostedModel;
  readonly adapter: HostedAdapter | null;
}

/** Names that are moved from outside, such as those of a registry. */
export interface NameService {
  /** Names and the SHA-256 of the adapter that each points to; null: the base alone. */
  names(): readonly { readonly name: string; readonly adapterId: string | null }[];
  /** @throws IsoproError REGISTRY_UNRESOLVED, ADAPTER_CORRUPT, ADAPTER_MISMATCH */
  resolve(
    name: string,
    key: string,
  ): Promise<{ readonly adapter: HostedAdapter | null; release(): void }>;
}

/** A named adapter. When the name is taken from it, its last holder releases it. */
class NamedAdapter {
  #holders = 1;

  constructor(
    readonly adapter: HostedAdapter,
    readonly created = unixSeconds(),
  ) {}

  hold(): () => void {
    this.#holders++;
    return () => void this.release();
  }

  async release(): Promise<void> {
    if (--this.#holders === 0) await this.adapter.dispose();
  }
}

/** A model as OpenAI lists it, or an adapter as vLLM does. */
const modelEntry = (
  { contextTokens }: HostedModel,
  id: string,
  created: number,
  root: string,
  parent: string | null,
) => ({
  id,
  object: 'model',
  created,
  owned_by: 'isopro-native',
  root,
  parent,
  max_model_len: contextTokens,
});
type ModelEntry = ReturnType<typeof modelEntry>;

/**
 * Matches names that may be read as something other than a file: a scheme, a home folder, a
 * program.
 */
const NOT_A_FILE = /^[a-z][\w+.-]+:|^~/i;

export class ServedModels {
  readonly model: HostedModel;
  readonly base: string;
  readonly #created = unixSeconds();
  readonly #folder: string | undefined;
  readonly #adapters = new Map<string, NamedAdapter>();
  readonly #service: NameService | undefined;

  /**
   * @param base the name that the bare model answers to
   * @param folder where requests may load adapters from; undefined: from nowhere
   * @param service further names
   */
  constructor(
    model: HostedModel,
    base: string,
    { folder, service }: { folder?: string | undefined; service?: NameService | undefined },
  ) {
    this.model = model;
    this.base = base;
    this.#service = service;
    this.#folder = folder === undefined ? undefined : realpathSync(folder);
  }

  /** @throws IsoproError as HostedModel.loadAdapter; INVALID_ARGUMENT where the name is taken */
  async add(name: string, file: string): Promise<void> {
    if (this.#isTaken(name))
      throw new IsoproError('INVALID_ARGUMENT', `two models are named ${name}`);
    this.#adapters.set(name, new NamedAdapter(await this.model.loadAdapter(file, { probe: true })));
  }

  /**
   * @param key whoever has the same one gets the same version, where a name stands for two for a
   *   while
   * @throws RequestFailure 404; IsoproError as NameService.resolve
   */
  async open(name: string | undefined, key: string): Promise<Served> {
    if (name === undefined || name === this.base) return this.#served(null, () => {});
    const own = this.#adapters.get(name);
    if (own !== undefined) return this.#served(own.adapter, own.hold());
    if (this.#service === undefined) throw notFound(name);
    const { adapter, release } = await this.#service.resolve(name, key).catch((error: unknown) => {
      throw error instanceof IsoproError && error.code === 'REGISTRY_UNRESOLVED'
        ? notFound(name, error.message)
        : error;
    });
    return this.#served(adapter, release);
  }

  /**
   * The name that a request's `lora` comes to beside the base's: that of an adapter at its full
   * strength, or the base's own.
   * @throws RequestFailure 400, 404
   */
  nameOf(model: string | undefined, lora: readonly LoraBody[]): string {
    if (model !== undefined && model !== this.base) {
      this.entry(model);
      throw invalid(
        'lora',
        `lora: requires the name of the base, ${this.base}; ${model} is itself an adapter`,
      );
    }
    const [asked, ...more] = lora;
    if (asked === undefined) return this.base;
    if (more.length > 0)
      throw invalid('lora', 'lora: takes one adapter; combining several is not supported');
    const { id, name, scale = 1 } = asked;
    if (scale !== 0 && scale !== 1)
      throw invalid('lora[0].scale', `lora[0].scale: takes 1, or 0 for the base, not ${scale}`);
    const found = this.entries().filter(({ id: own }) => own !== this.base);
    const wanted = name ?? id;
    const place = found.findIndex(({ id: own }, at) => wanted === own || wanted === at);
    if (place < 0)
      throw notFound(String(wanted), undefined, name === undefined ? 'lora[0].id' : 'lora[0].name');
    return scale === 0 ? this.base : found[place]!.id;
  }

  entries(): ModelEntry[] {
    const { model, base } = this;
    const others = (this.#service?.names() ?? []).filter(({ name }) => !this.#isTaken(name));
    return [
      modelEntry(model, base, this.#created, base, null),
      ...[...this.#adapters].map(([name, { adapter, created }]) =>
        modelEntry(model, name, created, adapter.id, base),
      ),
      ...others.map(({ name, adapterId }) =>
        modelEntry(model, name, this.#created, adapterId ?? base, base),
      ),
    ];
  }

  /** @throws RequestFailure 404 */
  entry(name: string): ModelEntry {
    const found = this.entries().find(({ id }) => id === name);
    if (found === undefined) throw notFound(name);
    return found;
  }

  /**
   * Loads an adapter that a request names by its file, under a name.
   * @throws RequestFailure 400 where the name is taken, 403 where the file is not one that requests
   *   may load; IsoproError
   */
  async load(name: string, file: string, inPlace: boolean): Promise<void> {
    if (name === this.base || (!inPlace && this.#adapters.has(name)))
      throw invalid('lora_name', `${name} is already loaded; use load_inplace to replace it`);
    const adapter = await this.model.loadAdapter(this.#confined(file), { probe: true });
    if (!inPlace && this.#isTaken(name)) {
      await adapter.dispose();
      throw invalid('lora_name', `${name} was loaded by another request meanwhile`);
    }
    const before = this.#adapters.get(name);
    this.#adapters.set(name, new NamedAdapter(adapter));
    await before?.release();
  }

  /** Unloads an adapter; running replies finish with it. @throws RequestFailure 404 */
  async unload(name: string): Promise<void> {
    const found = this.#adapters.get(name);
    if (found === undefined) throw notFound(name);
    this.#adapters.delete(name);
    await found.release();
  }

  #served(adapter: HostedAdapter | null, release: () => void): Served {
    return { model: this.model, adapter, [Symbol.dispose]: release };
  }

  #isTaken(name: string): boolean {
    return name === this.base || this.#adapters.has(name);
  }

  /** The file itself, wherever links lead. */
  #confined(file: string): string {
    const refuse = (): RequestFailure =>
      forbidden(
        'lora_path: requests may only load files from the folder that --adapters names',
        'path_not_allowed',
        'lora_path',
      );
    if (this.#folder === undefined || NOT_A_FILE.test(file) || file.includes('\0')) throw refuse();
    const given = path.resolve(this.#folder, file);
    if (!isWithin(this.#folder, given)) throw refuse();
    let real: string;
    try {
      real = realpathSync(given);
    } catch {
      throw new RequestFailure(404, 'lora_path: there is no such file', 'file_not_found', {
        param: 'lora_path',
      });
    }
    if (!isWithin(this.#folder, real)) throw refuse();
    return real;
  }
}

const isWithin = (folder: string, file: string): boolean =>
  file.startsWith(folder.endsWith(path.sep) ? folder : folder + path.sep);

function notFound(
  name: string,
  why = 'GET /v1/models lists the models',
  param = 'model',
): RequestFailure {
  const message = `there is no model ${JSON.stringify(name.slice(0, 200))}: ${why}`;
  return new RequestFailure(404, message, 'model_not_found', { param });
}
