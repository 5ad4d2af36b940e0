/** Models that the calls of a provider share. */
import { IsoproError } from '../errors.js';
import type { HostedAdapter } from '../host/hosted-adapter.js';
import type { HostedModel } from '../host/hosted-model.js';
import { ModelHost, type HostLoadOptions } from '../host/model-host.js';

/** Model and adapter that a call uses until it ends. */
export interface OpenModel {
  readonly model: HostedModel;
  readonly adapter: HostedAdapter | null;
}

/** Loads or shares a model and runs `work` on it. */
export type UseModel = <T>(
  signal: AbortSignal | undefined,
  work: (open: OpenModel) => Promise<T>,
) => Promise<T>;

/** Models that a provider has loaded. */
export class Models {
  readonly #host: ModelHost;
  readonly #own: boolean;
  readonly #load: HostLoadOptions;
  /** One handle per model, which keeps it loaded. */
  readonly #kept = new Map<string, HostedModel>();
  readonly #handles = new Set<HostedModel>();
  #disposed = false;

  /** @param host where there is none, one of its own */
  constructor(host: ModelHost | undefined, load: HostLoadOptions = {}) {
    this.#host = host ?? new ModelHost();
    this.#own = host === undefined;
    this.#load = load;
  }

  use(modelId: string, adapter: string | undefined): UseModel {
    const key = JSON.stringify([modelId, adapter ?? null]);
    return async (signal, work) => {
      if (this.#disposed)
        throw new IsoproError('OBJECT_DISPOSED', 'the provider has been disposed');
      const cancel = signal === undefined ? {} : { signal };
      const model = await this.#host.load(modelId, { ...this.#load, ...cancel });
      this.#handles.add(model);
      try {
        const loaded = adapter === undefined ? null : await model.loadAdapter(adapter, cancel);
        if (this.#disposed)
          throw new IsoproError('OBJECT_DISPOSED', 'the provider has been disposed');
        if (!this.#kept.has(key)) this.#kept.set(key, model);
        return await work({ model, adapter: loaded });
      } finally {
        if (this.#disposed || this.#kept.get(key) !== model) {
          this.#handles.delete(model);
          await model.dispose();
        }
      }
    };
  }

  async dispose(): Promise<void> {
    this.#disposed = true;
    await (this.#own
      ? this.#host.dispose()
      : Promise.all([...this.#handles].map((model) => model.dispose())));
  }
}
