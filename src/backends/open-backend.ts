/** Whoever answers, by one word of the user: `openai:MODEL`, `recorded:FILE`, `human`, others. */
import { loadModel, type LoadModelOptions } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { Backend } from './backend.js';
import { commandBackend } from './command.js';
import { humanBackend, type AskPerson } from './human.js';
import { localBackend } from './local.js';
import { BACKEND_FORMS, backendKind, SERVER, SERVICE_NAMES } from './names.js';
import { recordedBackend } from './recorded.js';
import { serverNamed, serviceBackend, type ServiceOptions } from './remote/services.js';

export interface OpenBackendOptions extends ServiceOptions {
  /** For `local:MODEL`. */
  readonly loading?: LoadModelOptions | undefined;
  /** For `human`. */
  readonly ask?: AskPerson | undefined;
}

type Opener = (rest: string, options: OpenBackendOptions) => Promise<Backend>;

const OPENERS: Readonly<Record<string, Opener>> = {
  local: async (model, { loading }) => localBackend(await loadModel(model, loading)),
  recorded: (file) => recordedBackend(file),
  ...Object.fromEntries(
    SERVICE_NAMES.map((service): [string, Opener] => [
      service,
      (model, { loading: _, ask: __, ...options }) => serviceBackend(service, model, options),
    ]),
  ),
  command: async (command, { attemptSeconds }) =>
    commandBackend(command, attemptSeconds === undefined ? {} : { replySeconds: attemptSeconds }),
};

/**
 * Opens a back end. `dispose` closes it.
 * @throws IsoproError INVALID_ARGUMENT for what names none; KEY_MISSING, PACKAGE_MISSING; as
 *   loadModel, recordedBackend, commandBackend and humanBackend
 */
export async function openBackend(
  spec: string,
  options: OpenBackendOptions = {},
): Promise<Backend> {
  if (spec === 'human') return humanBackend(options.ask);
  if (SERVER.test(spec)) {
    const { loading: _, ask: __, ...service } = options;
    const { url, model } = serverNamed(spec, options.insecure);
    return serviceBackend(url, model, service);
  }
  const kind = backendKind(spec);
  if (kind === null)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `backend: expected ${BACKEND_FORMS}; got ${JSON.stringify(spec.slice(0, 100))}`,
    );
  return OPENERS[kind]!(spec.slice(kind.length + 1), options);
}
