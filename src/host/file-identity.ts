/** Which file a path leads to: the same for every name of it, another once it was written again. */
import { stat } from 'node:fs/promises';
import { unreadable } from '../files.js';

export interface FileIdentity {
  readonly key: string;
  readonly bytes: number;
}

/** @throws IsoproError FILE_UNREADABLE, SYSTEM_LIMIT */
export async function fileIdentity(file: string): Promise<FileIdentity> {
  try {
    const { dev, ino, size, mtimeNs } = await stat(file, { bigint: true });
    return { key: [dev, ino, size, mtimeNs].join(':'), bytes: Number(size) };
  } catch (cause) {
    throw unreadable(file, cause);
  }
}
