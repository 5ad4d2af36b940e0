/**
 * From what a user calls a model (a path, an alias, the embedded one's name, an hf: or http(s):
 * URI) to a file on this machine.
 */
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';
import type { DownloadProgress } from './download.js';
import { hubFileOfTag } from './download-probe.js';
import { EMBEDDED_MODEL, EMBEDDED_MODEL_FILE, MODEL_ALIASES } from './model-aliases.js';
import {
  locateRemote,
  modelsFolder,
  taggedModelFile,
  type RemoteModel,
  type TaggedModel,
} from './model-location.js';
import { shellWord } from '../shell-word.js';

export type { DownloadProgress } from './download.js';
export { homeFolder, modelsFolder } from './model-location.js';
export { EMBEDDED_MODEL, EMBEDDED_MODEL_LICENCE, MODEL_ALIASES } from './model-aliases.js';

export interface ResolveModelOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Download the model if it is not in the cache. Default true. */
  readonly download?: boolean;
}

export interface ResolvedModel {
  /** Absolute path of the GGUF file; of a model in several parts, of the first. */
  readonly path: string;
  /** URL that the file was downloaded from, now or earlier; null for the user's own file. */
  readonly url: string | null;
}

async function isFile(file: string): Promise<boolean> {
  return stat(file).then(
    (entry) => entry.isFile(),
    () => false,
  );
}

/**
 * Returns the file of a model, and downloads it if it is not in the cache.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_DOWNLOAD_FAILED, INVALID_ARGUMENT, ABORTED
 */
export async function resolveModel(
  name: string,
  options: ResolveModelOptions = {},
): Promise<ResolvedModel> {
  const { signal, onProgress, download = true } = options;
  if (name === EMBEDDED_MODEL) return { path: fileURLToPath(EMBEDDED_MODEL_FILE), url: null };
  const located = locateRemote(name);
  if (located === null) return { path: await localFile(name), url: null };
  if (!download) return await inCache(located);
  const remote: RemoteModel =
    'url' in located
      ? located
      : taggedModelFile(
          located,
          await hubFileOfTag(located.owner, located.repository, located.tag, signal),
        );
  if (!(await isFile(remote.path))) {
    // Only now: the downloader and its lock are not needed for a model that is there.
    const { downloadModel } = await import('./download.js');
    await downloadModel(remote, { signal, onProgress });
  }
  return { path: remote.path, url: remote.url };
}

/**
 * In the cache, the one file of the repository that has the tag in its name; null where there is
 * none, or several.
 */
async function cachedOfTag(model: TaggedModel): Promise<RemoteModel | null> {
  const folder = path.dirname(taggedModelFile(model, 'any').path);
  const tag = model.tag.toLowerCase();
  const named = (await readdir(folder).catch(() => [])).filter(
    (file) => /\.gguf$/i.test(file) && file.toLowerCase().includes(tag),
  );
  return named.length === 1 ? taggedModelFile(model, named[0]!) : null;
}

/** Asks no server. @throws IsoproError MODEL_NOT_FOUND */
async function inCache(located: RemoteModel | TaggedModel): Promise<ResolvedModel> {
  const remote = 'url' in located ? located : await cachedOfTag(located);
  if (remote !== null && (await isFile(remote.path))) return { path: remote.path, url: remote.url };
  throw new IsoproError(
    'MODEL_NOT_FOUND',
    `${located.name} is not in the cache${remote === null ? '' : ` at ${remote.path}`}`,
    { remedy: `Fetch it with \`isopro-native models pull ${shellWord(located.name)}\`.` },
  );
}

/**
 * The name by which a model is loaded that a folder names: a run, a registry. The folder may be a
 * stranger's, so the model is looked up on this machine, and nothing is fetched.
 * @throws IsoproError MODEL_NOT_FOUND, INVALID_ARGUMENT
 */
export async function modelOfRecord(name: string): Promise<string> {
  try {
    // a path of that form names another machine on Windows
    if (/^[\\/]{2}/.test(name))
      throw new IsoproError('MODEL_NOT_FOUND', `${name} is a path on another machine`);
    const { path: file } = await resolveModel(name, { download: false });
    const located = locateRemote(name);
    // which file has a tag, only the hub would say
    return located === null || 'url' in located ? name : file;
  } catch (cause) {
    if (!(cause instanceof IsoproError) || cause.code !== 'MODEL_NOT_FOUND') throw cause;
    throw new IsoproError(
      'MODEL_NOT_FOUND',
      `the folder refers to the model ${JSON.stringify(name)}, which is not on this machine`,
      {
        cause,
        remedy:
          'A model that only a folder refers to is not downloaded. If you trust it, pass it with --model.',
      },
    );
  }
}

async function localFile(name: string): Promise<string> {
  const file = path.resolve(name);
  const entry = await stat(file).catch(() => null);
  if (entry?.isFile() === true) {
    requireFile(file, 'MODEL_NOT_FOUND');
    return file;
  }
  if (entry?.isDirectory() === true) {
    const inside = (await readdir(file).catch(() => []))
      .filter((child) => child.toLowerCase().endsWith('.gguf'))
      .sort();
    throw new IsoproError(
      'MODEL_NOT_FOUND',
      `${name} is a folder${inside.length > 0 ? ` that contains ${inside.join(', ')}` : ' without a .gguf file'}`,
    );
  }
  // the name by which a manifest knows a file of the cache
  const cached =
    entry === null && path.basename(name) === name
      ? (await cachedModels()).find((each) => path.basename(each.path) === name)
      : undefined;
  if (cached !== undefined) return cached.path;
  if (entry !== null || /[\\/]|\.gguf$/i.test(name)) requireFile(file, 'MODEL_NOT_FOUND');
  throw new IsoproError(
    'MODEL_NOT_FOUND',
    `${JSON.stringify(name)} is neither a file nor an alias; aliases are ${[EMBEDDED_MODEL, ...Object.keys(MODEL_ALIASES)].join(', ')}`,
  );
}

export interface CachedModel {
  /** The alias under which the file can be loaded, or null. */
  readonly alias: string | null;
  readonly path: string;
  /** Size of all parts. */
  readonly bytes: number;
}

/** The model files in the cache, by path. */
export async function cachedModels(): Promise<CachedModel[]> {
  const root = modelsFolder();
  const aliasOfPath = new Map(
    Object.keys(MODEL_ALIASES).map((alias) => {
      const located = locateRemote(alias);
      return [located !== null && 'path' in located ? located.path : '', alias] as const;
    }),
  );
  const found = new Map<string, number>();
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true }).catch(
    () => [],
  )) {
    const file = path.join(entry.parentPath, entry.name);
    if (
      !entry.isFile() ||
      !entry.name.endsWith('.gguf') ||
      file.includes(`${path.sep}.partial${path.sep}`)
    )
      continue;
    // The parts of a split model count as one.
    const first = path.join(
      entry.parentPath,
      entry.name.replace(/-\d{5}(-of-\d{5}\.gguf)$/, '-00001$1'),
    );
    found.set(first, (found.get(first) ?? 0) + (await stat(file)).size);
  }
  return [...found.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([file, bytes]) => ({ alias: aliasOfPath.get(file) ?? null, path: file, bytes }));
}
