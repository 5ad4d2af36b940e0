/**
 * Origin of a model and its place on this machine: aliases, hf: and http(s): URIs, the cache
 * folder.
 */
import { hash } from 'node:crypto';
import { homedir } from 'node:os';
import path from 'node:path';
import { IsoproError } from '../errors.js';
import { MODEL_ALIASES } from './model-aliases.js';

/** A model that is downloaded once and then kept in the cache. */
export interface RemoteModel {
  /** The alias or URI that was asked for. */
  readonly name: string;
  /** The file's address; of a model in several parts, the first part's. */
  readonly url: string;
  /** Absolute path of the file in the cache. */
  readonly path: string;
}

/**
 * An hf: URI that names a quantisation (`hf:owner/repository:Q4_K_M`); the hub knows which file
 * that is.
 */
export interface TaggedModel {
  readonly name: string;
  readonly owner: string;
  readonly repository: string;
  readonly tag: string;
}

/**
 * Returns the folder of everything that isopro-native keeps between runs: ISOPRO_HOME, else the
 * operating system's cache folder (XDG_CACHE_HOME or ~/.cache; ~/Library/Caches; %LOCALAPPDATA%).
 */
export function homeFolder(
  env: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  if (env.ISOPRO_HOME) return path.resolve(env.ISOPRO_HOME);
  const base =
    platform === 'win32'
      ? (env.LOCALAPPDATA ?? path.join(homedir(), 'AppData', 'Local'))
      : platform === 'darwin'
        ? path.join(homedir(), 'Library', 'Caches')
        : // The XDG base directory specification: a relative path there is to be ignored.
          env.XDG_CACHE_HOME !== undefined && path.isAbsolute(env.XDG_CACHE_HOME)
          ? env.XDG_CACHE_HOME
          : path.join(homedir(), '.cache');
  return path.join(base, 'isopro-native');
}

export function modelsFolder(): string {
  return path.join(homeFolder(), 'models');
}

/**
 * Returns the URL of the hub, or of the mirror in HF_ENDPOINT or MODEL_ENDPOINT, as in llama.cpp
 * and node-llama-cpp.
 */
export function hubEndpoint(env: NodeJS.ProcessEnv = process.env): string {
  const endpoint = env.MODEL_ENDPOINT ?? env.HF_ENDPOINT ?? 'https://huggingface.co/';
  return endpoint.endsWith('/') ? endpoint : `${endpoint}/`;
}

/**
 * A part of a URL as a file name: no separators, no dots alone, nothing that a file system forbids.
 */
function fileNamePart(text: string): string {
  const name = text.replace(/[^\w.@+-]+/g, '_').replace(/^\.+$/, '_');
  return name === '' ? '_' : name;
}

function hubModel(
  name: string,
  owner: string,
  repository: string,
  filePath: string,
  branch: string,
): RemoteModel {
  const segments = filePath.split('/');
  const encoded = [owner, repository, 'resolve', branch, ...segments]
    .map(encodeURIComponent)
    .join('/');
  const folder = branch === 'main' ? repository : `${repository}@${branch}`;
  return {
    name,
    url: `${hubEndpoint()}${encoded}`,
    path: path.join(
      modelsFolder(),
      'huggingface',
      ...[owner, folder, ...segments].map(fileNamePart),
    ),
  };
}

/** The model of a tagged URI once the hub has named its file. */
export function taggedModelFile(model: TaggedModel, filePath: string): RemoteModel {
  return hubModel(model.name, model.owner, model.repository, filePath, 'main');
}

/**
 * What an alias, an hf: or an http(s): URI stands for; null for anything else, which is then a
 * path.
 * @throws IsoproError INVALID_ARGUMENT for a malformed URI
 */
export function locateRemote(name: string): RemoteModel | TaggedModel | null {
  const alias = Object.hasOwn(MODEL_ALIASES, name) ? MODEL_ALIASES[name] : undefined;
  const uri = alias?.uri ?? name;
  const hub = /^(?:hf|huggingface):(?:\/\/)?(.*)$/.exec(uri)?.[1];
  if (hub !== undefined) {
    const [address = '', branch = 'main'] = hub.split('#', 2);
    const [owner = '', repository = '', ...file] = address.split('/');
    const filePath = file.join('/');
    if (owner === '' || repository === '' || branch === '' || file.includes('')) {
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `${name} does not have the form hf:<owner>/<repository>/<file>.gguf or hf:<owner>/<repository>:<quantisation>`,
      );
    }
    if (filePath !== '') return hubModel(name, owner, repository, filePath, branch);
    const [bare = '', tag = 'Q4_K_M'] = repository.split(':', 2);
    return { name, owner, repository: bare, tag };
  }
  if (!/^https?:\/\//i.test(uri)) return null;
  let url: URL;
  try {
    url = new URL(uri);
  } catch (cause) {
    throw new IsoproError('INVALID_ARGUMENT', `${name} is not a valid URL`, { cause });
  }
  if (url.username !== '' || url.password !== '')
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'a model URL must not contain a user name or password',
    );
  const segments = url.pathname
    .split('/')
    .filter((segment) => segment !== '')
    .map(fileNamePart);
  const file = segments.pop() ?? 'model';
  const stem = file.toLowerCase().endsWith('.gguf') ? file.slice(0, -'.gguf'.length) : file;
  // Two queries at one path are two files.
  const query = url.search === '' ? '' : `-${hash('sha256', url.search).slice(0, 8)}`;
  return {
    name,
    url: url.href,
    path: path.join(
      modelsFolder(),
      'http',
      fileNamePart(url.host),
      ...segments,
      `${stem}${query}.gguf`,
    ),
  };
}

/**
 * The names of all parts of a file called `…-00001-of-00003.gguf`; of any other file, its own name
 * alone.
 */
export function splitParts(name: string): string[] {
  const match = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i.exec(name);
  if (match === null) return [name];
  const count = Number(match[3]);
  return Array.from(
    { length: count },
    (_, part) => `${match[1]}-${String(part + 1).padStart(5, '0')}-of-${match[3]}.gguf`,
  );
}
