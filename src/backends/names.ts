/** Names of back ends, as a user writes them, and what some work needs of whoever answers. */
import { IsoproError } from '../errors.js';

/** Services by the first word of their names. */
export const SERVICE_NAMES = ['openai', 'anthropic', 'huggingface', 'ollama'] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];

const KINDS: ReadonlySet<string> = new Set(['local', 'recorded', 'command', ...SERVICE_NAMES]);
export const SERVER = /^https?:\/\//i;

/** What `--backend` takes, for the help and for messages. */
export const BACKEND_FORMS =
  'local, local:MODEL, recorded:FILE, openai:MODEL, anthropic:MODEL, huggingface:MODEL, ollama:MODEL, ' +
  'URL#MODEL, command:PROGRAM ARGS, or human';

/** Kind of what a text names as a back end; null: it names none. */
export function backendKind(spec: string): string | null {
  if (spec === 'human') return spec;
  if (SERVER.test(spec)) return spec.includes('#') ? 'server' : null;
  const [, kind] = /^([a-z]+):./s.exec(spec) ?? [];
  return kind !== undefined && KINDS.has(kind) ? kind : null;
}

/**
 * Refuses the name of a back end where only a model in this process will do, before anything is
 * fetched or written.
 * @throws IsoproError BACKEND_INCAPABLE
 */
export function requireModelName(name: string, needed: readonly string[], purpose: string): void {
  const kind = backendKind(name);
  if (kind === null) return;
  throw new IsoproError(
    'BACKEND_INCAPABLE',
    `the back end ${name} lacks ${needed.join(', ')}, which ${purpose} needs`,
    {
      remedy:
        'Name a local model: a GGUF file, an alias or an hf: URI. `eval`, `generate` and `tasks verify` work with other back ends.',
    },
  );
}

/** What training needs of whoever samples. */
export const OF_TRAINING = ['tokenIds', 'logprobs', 'seeds', 'adapters'] as const;
