/**
 * Resolves a name to a file with checked bytes. If nothing fits, the result has a typed reason, and
 * a fallback is used only on request.
 */
import { rendererChange } from '../engine/renderer-change.js';
import { IsoproError, type ErrorCode } from '../errors.js';
import { given } from '../given.js';
import { describeBytes, type Registry } from './registry.js';
import { aliasText, parseReference, type Reference } from './names.js';
import { nameOf, type AdapterRecord } from './record.js';
import type { Entry, RegistryState } from './state.js';

export type Unresolved =
  | 'not-a-name'
  | 'unknown-alias'
  /** A rollback went back to before the first adapter. */
  | 'base-model'
  | 'unknown-id'
  | 'ambiguous-id'
  | 'withdrawn'
  | 'bytes-missing'
  | 'bytes-changed'
  | 'foreign-base'
  | 'renderer-mismatch';

export interface Resolved {
  readonly ok: true;
  readonly id: string;
  readonly name: string;
  readonly record: AdapterRecord;
  /** File whose bytes were just hashed. */
  readonly file: string;
  /** Reason for a fallback; null if it is the requested version. */
  readonly fallback: Unresolved | null;
}
/** The base without an adapter, which was asked for as a fallback. */
export interface BaseAlone {
  readonly ok: true;
  readonly id: null;
  readonly fallback: Unresolved;
}
export interface NotResolved {
  readonly ok: false;
  readonly reason: Unresolved;
  readonly message: string;
  /** Remedy, if that of the error's code does not fit. */
  readonly remedy?: string;
}

/** Model that the adapter will be used with; members that are not given are not compared. */
export interface Serving {
  readonly baseSha256?: string;
  readonly rendererId?: string;
  /**
   * Id that the model's template had before the renderer was corrected; null if it still has that
   * id.
   */
  readonly formerRendererId?: string | null;
}

/** Returns what adapters are compared with in a model. */
export async function servingOf(model: {
  hash(): Promise<string>;
  readonly rendererId: string;
  readonly formerRendererId: string | null;
}): Promise<Serving> {
  return {
    baseSha256: await model.hash(),
    rendererId: model.rendererId,
    formerRendererId: model.formerRendererId,
  };
}

export interface ResolveOptions extends Serving {
  /** `base` or a fallback name; each use is written to the registry's log. Absent: no fallback. */
  readonly fallback?: string;
}

export const not = (reason: Unresolved, message: string): NotResolved => ({
  ok: false,
  reason,
  message,
});

/** Returns the only entry whose id begins with the prefix and whose base matches, if given. */
function entryOf(
  state: RegistryState,
  { base, prefix }: Extract<Reference, { kind: 'id' }>,
  text: string,
): Entry | NotResolved {
  const found = [...state.entries.values()].filter(
    ({ id, record }) =>
      id.startsWith(prefix) && (base === null || nameOf(record, id).startsWith(`${base}#`)),
  );
  if (found.length > 1)
    return not(
      'ambiguous-id',
      `${text} matches ${found.length} ids: ${found.map(({ id }) => id).join(', ')}`,
    );
  return found[0] ?? not('unknown-id', `nothing is published as ${text}`);
}

/** Looks up a name without reading files. */
export function lookUp(state: RegistryState, text: string): Entry | NotResolved {
  const reference = parseReference(text);
  if (reference === null)
    return not('not-a-name', `${JSON.stringify(text.slice(0, 100))} is not the name of an adapter`);
  if (reference.kind === 'id') return entryOf(state, reference, text);
  const found = state.alias(reference.slot, reference.alias);
  const full = aliasText(reference.slot, reference.alias);
  if (found === null) return not('unknown-alias', `nothing was ever promoted to ${full}`);
  if (found.current === null)
    return not('base-model', `${full} was rolled back to the base without an adapter`);
  return state.entries.get(found.current)!;
}

const TRAIN_AGAIN =
  'Train the adapter again with this version, or use it with the version of isopro-native that trained it.';

/** Returns why an adapter does not fit a model; null if it does. */
export function misfit({ base, rendererId }: AdapterRecord, serving: Serving): NotResolved | null {
  if (serving.baseSha256 !== undefined && serving.baseSha256 !== base.sha256)
    return not(
      'foreign-base',
      `the adapter was trained on ${base.name} (${base.sha256}), but the model is ${serving.baseSha256}`,
    );
  if (serving.rendererId === undefined || rendererId === null) return null;
  const { formerRendererId = null } = serving;
  const change = rendererChange(rendererId, { rendererId: serving.rendererId, formerRendererId });
  if (change === null) return null;
  return {
    ...not('renderer-mismatch', `the adapter cannot answer here: ${change}`),
    ...(rendererId === formerRendererId && { remedy: TRAIN_AGAIN }),
  };
}

async function resolveOne(
  registry: Registry,
  state: RegistryState,
  text: string,
  serving: Serving,
): Promise<Resolved | NotResolved> {
  const entry = lookUp(state, text);
  return 'ok' in entry ? entry : resolveEntry(registry, entry, serving);
}

/** Checks a published adapter against a model and hashes its bytes. */
export async function resolveEntry(
  registry: Registry,
  entry: Entry,
  serving: Serving,
): Promise<Resolved | NotResolved> {
  const { id, record } = entry;
  if (entry.withdrawn !== null)
    return not('withdrawn', `${nameOf(record, id)} was withdrawn: ${entry.withdrawn}`);
  if (entry.collected)
    return not('bytes-missing', `the bytes of ${nameOf(record, id)} were deleted by gc`);
  const unfit = misfit(record, serving);
  if (unfit !== null) return unfit;
  const { file, bytes } = await registry.bytesOf(record);
  if (bytes !== 'sound') return not(`bytes-${bytes}`, describeBytes(file, bytes));
  return { ok: true, id, name: nameOf(record, id), record, file, fallback: null };
}

/** Records that a fallback was used. */
export async function noteFallback(
  registry: Registry,
  text: string,
  { reason: why, message }: NotResolved,
  to: string | null,
): Promise<void> {
  const reference = parseReference(text);
  const { slot, alias } =
    reference?.kind === 'alias'
      ? reference
      : { slot: { scenario: 'none', role: 'default', environment: 'default' }, alias: 'none' };
  const reason = `${text}: ${why}: ${message}`.slice(0, 2000);
  await registry.write(({ write }) => write([{ kind: 'fell_back', slot, alias, reason, to }]));
}

/**
 * Resolves a name to its current version and hashes its bytes.
 * @param text `sql@champion`, `sql/solver/staging@shadow`, `qwen2.5-3b#3f2a9c`, or the beginning of
 *   an id
 * @throws IsoproError as Registry.read; a version that does not fit is not an error here
 */
export async function resolveAdapter(
  registry: Registry,
  text: string,
  options: ResolveOptions = {},
): Promise<Resolved | BaseAlone | NotResolved> {
  const { fallback, ...serving } = options;
  const { state } = await registry.read();
  const found = await resolveOne(registry, state, text, serving);
  if (found.ok || fallback === undefined) return found;
  const instead = fallback === 'base' ? null : await resolveOne(registry, state, fallback, serving);
  if (instead?.ok === false)
    return not(instead.reason, `${found.message}; the fallback failed too: ${instead.message}`);
  await noteFallback(registry, text, found, instead?.id ?? null);
  return instead === null
    ? { ok: true, id: null, fallback: found.reason }
    : { ...instead, fallback: found.reason };
}

const ERROR_CODES: Readonly<Partial<Record<Unresolved, ErrorCode>>> = {
  'bytes-missing': 'ADAPTER_CORRUPT',
  'bytes-changed': 'ADAPTER_CORRUPT',
  'foreign-base': 'ADAPTER_MISMATCH',
  'renderer-mismatch': 'ADAPTER_MISMATCH',
};

/** Converts a typed reason to the error of a command. */
export function unresolvedError({ reason, message, remedy }: NotResolved): IsoproError {
  const code = ERROR_CODES[reason] ?? 'REGISTRY_UNRESOLVED';
  return new IsoproError(code, message, given({ remedy }));
}

/** Refuses a model that the adapter is not for. @throws IsoproError ADAPTER_MISMATCH */
export function requireFit(record: AdapterRecord, serving: Serving): void {
  const unfit = misfit(record, serving);
  if (unfit !== null) throw unresolvedError(unfit);
}
