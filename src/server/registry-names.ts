/**
 * The names of a registry, as those of a server: they follow its log, and a promotion waits until
 * this server has loaded the version.
 */
import type { IsoproError } from '../errors.js';
import type { HostedAdapter } from '../host/hosted-adapter.js';
import type { HostedModel } from '../host/hosted-model.js';
import { serveAdapters, type Registry } from '../registry/index.js';
import { aliasText } from '../registry/names.js';
import type { NameService } from './openai/models.js';

export interface RegistryNames extends NameService {
  close(): Promise<void>;
}

/** @throws IsoproError as Registry.read */
export async function registryNames(
  registry: Registry,
  model: HostedModel,
  onError: (error: IsoproError) => void,
): Promise<RegistryNames> {
  const service = await serveAdapters<HostedAdapter>(registry, {
    baseSha256: await model.hash(),
    rendererId: model.rendererId,
    formerRendererId: model.formerRendererId,
    load: ({ file }) => model.loadAdapter(file, { probe: true }),
    unload: (adapter) => adapter.dispose(),
    onError,
  });
  return {
    names() {
      const { aliases } = service.reading.state;
      const current = new Map(
        aliases.map(({ slot, alias, current: id }) => [aliasText(slot, alias), id]),
      );
      return service.names().map((name) => ({ name, adapterId: current.get(name) ?? null }));
    },
    resolve: (name, key) => service.resolve(name, key),
    close: () => service.close(),
  };
}
