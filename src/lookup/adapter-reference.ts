/**
 * The adapter that a user names: by its file, by the run that made it, or by a name in the
 * registry.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { hashFile } from '../engine/adapter.js';
import { inspectModel } from '../engine/inspect.js';
import { PEFT_CONFIG, PEFT_WEIGHTS } from '../engine/peft.js';
import { IsoproError } from '../errors.js';
import { parseReference } from '../registry/names.js';
import { Registry } from '../registry/registry.js';
import {
  requireFit,
  resolveAdapter,
  servingOf,
  unresolvedError,
  type Resolved,
} from '../registry/resolve.js';
import { findAdapter, type FoundAdapter } from './adapters.js';
import { kindOf, runFolders, RUNS } from './runs.js';

export interface NamedAdapter extends FoundAdapter {
  /** Entry of the registry, if the name is one of its names; the bytes were hashed. */
  readonly published: Resolved | null;
}

/** A model that answers, in this process or elsewhere. */
interface Answering {
  hash(): Promise<string>;
  readonly rendererId: string;
  readonly formerRendererId: string | null;
}

const isUnknownRun = (error: unknown): boolean =>
  error instanceof IsoproError && error.code === 'RUN_NOT_FOUND';

/** Runs that a refusal names. */
const MOST_NAMED = 6;

/**
 * A folder that holds runs, or neither a run nor an adapter, is left as it is by findAdapter;
 * nothing could be loaded from it.
 * @throws IsoproError INVALID_ARGUMENT, RUN_NOT_FOUND
 */
function refuseFolderWithoutAdapter({ file, run }: FoundAdapter): void {
  if (run !== null || kindOf(file) !== 'folder') return;
  const runs = runFolders(file);
  if (runs.length === 0) {
    if ([PEFT_CONFIG, PEFT_WEIGHTS].some((name) => existsSync(path.join(file, name)))) return;
    throw new IsoproError(
      'RUN_NOT_FOUND',
      `${file} is a folder that holds neither a run nor an adapter`,
      {
        remedy:
          'Give a run folder, which holds manifest.json and log.sqlite, or an adapter in GGUF or PEFT format.',
      },
    );
  }
  throw new IsoproError(
    'INVALID_ARGUMENT',
    `${file} holds ${runs.length === 1 ? 'a run' : `${runs.length} runs`} but no adapter`,
    {
      remedy:
        `Name a run: ${runs.slice(-MOST_NAMED).join(', ')}${runs.length > MOST_NAMED ? ', …' : ''}; ` +
        '`isopro-native runs list` shows the result of each.',
    },
  );
}

async function inRegistry(name: string, registry: Registry): Promise<NamedAdapter> {
  const found = await resolveAdapter(registry, name);
  if (!found.ok) throw unresolvedError(found);
  if (found.id === null)
    throw new IsoproError(
      'REGISTRY_UNRESOLVED',
      `${name} points to the base model without an adapter`,
    );
  return { file: found.file, run: null, published: found };
}

/**
 * Finds an adapter as findAdapter does, or by a name in the registry that is neither a file nor a
 * run.
 * @throws IsoproError as findAdapter; MODEL_NOT_FOUND where a path leads nowhere, RUN_NOT_FOUND
 *   where to a folder without any; REGISTRY_NOT_FOUND, REGISTRY_UNRESOLVED, ADAPTER_CORRUPT,
 *   LOG_TAMPERED
 */
export async function nameAdapter(
  target: string,
  registry = new Registry(),
  parent = RUNS,
): Promise<NamedAdapter> {
  const reference = kindOf(target) === 'none' ? parseReference(target) : null;
  if (reference?.kind === 'alias' || (reference?.kind === 'id' && reference.base !== null))
    return inRegistry(target, registry);
  try {
    const found = findAdapter(target, parent);
    if (found.run === null && kindOf(found.file) === 'none')
      throw new IsoproError('MODEL_NOT_FOUND', `there is no file ${target}`, {
        remedy:
          'Give the path of an adapter in GGUF, a run folder, the beginning of a run id, or a name in the registry.',
      });
    refuseFolderWithoutAdapter(found);
    return { ...found, published: null };
  } catch (error) {
    if (reference === null || !isUnknownRun(error)) throw error;
    try {
      return await inRegistry(target, registry);
    } catch (other) {
      const isElsewhere =
        other instanceof IsoproError &&
        ['REGISTRY_NOT_FOUND', 'REGISTRY_UNRESOLVED'].includes(other.code);
      throw isElsewhere ? error : other; // it looks like a run as much as like an id
    }
  }
}

/**
 * Refuses a model that a published adapter is not for, by its bytes and by how it is asked.
 * @throws IsoproError ADAPTER_MISMATCH
 */
export async function requireServable(
  { published }: Pick<NamedAdapter, 'published'>,
  model: Answering,
): Promise<void> {
  if (published !== null) requireFit(published.record, await servingOf(model));
}

/**
 * Refuses a file that is not the base that an adapter was made on, as far as that is on record.
 * @throws IsoproError ADAPTER_MISMATCH, FILE_UNREADABLE
 */
export async function requireBase(found: NamedAdapter, model: string): Promise<void> {
  const expected = baseSha256Of(found);
  if (expected === undefined) return;
  const sha256 = await hashFile(model);
  if (sha256 === expected) return;
  throw new IsoproError(
    'ADAPTER_MISMATCH',
    `${found.file} was trained on the base ${expected}, but ${model} is ${sha256}`,
  );
}

/** Model to load if the user names none: that of the run, or of the registry record. */
export const baseNameOf = ({ run, published }: NamedAdapter): string | undefined =>
  run?.manifest.start.model.name ?? published?.record.base.name;

/** SHA-256 of the base that the adapter was trained on, if it is on record. */
export const baseSha256Of = ({
  run,
  published,
}: Pick<NamedAdapter, 'run' | 'published'>): string | undefined =>
  run?.manifest.start.model.sha256 ?? published?.record.base.sha256;

/** SHA-256 of the base, from the record or else from the GGUF of the adapter. */
export async function namedBaseSha256(found: NamedAdapter): Promise<string | undefined> {
  const recorded = baseSha256Of(found);
  if (recorded !== undefined) return recorded;
  // loading it reports what is wrong with it
  const inspection = await inspectModel(found.file).catch(() => null);
  return inspection?.metadata['isopro.base_model.sha256'];
}
