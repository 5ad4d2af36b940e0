/**
 * The built page (`npm run build:web`): a handful of files that are kept in memory and need no key,
 * since nothing of a user is in them.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { FastifyInstance } from 'fastify';
import { packageRoot } from '../../engine/addon.js';
import { RequestFailure } from '../failures.js';

/**
 * Policy of the page: its own scripts and styles only. The report in a frame has a policy of its
 * own.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export const PAGE = '/ui/';

/** Reads files by their path below PAGE; empty if the page was not built. */
export function readPage(
  folder = path.join(packageRoot(), 'dist', 'web'),
): ReadonlyMap<string, Buffer> {
  let names: string[];
  try {
    names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  } catch {
    return new Map();
  }
  const known = names.filter((name) => path.extname(name) in TYPES);
  return new Map(
    known.map((name) => [name.replaceAll(path.sep, '/'), readFileSync(path.join(folder, name))]),
  );
}

export function addPageFiles(app: FastifyInstance, files: ReadonlyMap<string, Buffer>): void {
  if (files.size === 0) return;
  const hidden = { schema: { hide: true } };
  for (const place of ['/', '/ui']) app.get(place, hidden, (_, reply) => reply.redirect(PAGE));
  app.get(`${PAGE}*`, hidden, (request, reply) => {
    const name = (request.params as { readonly '*': string })['*'] || 'index.html';
    const bytes = files.get(name);
    if (bytes === undefined)
      throw new RequestFailure(404, 'the page has no such file', 'file_not_found');
    return reply
      .headers({
        'content-security-policy': POLICY,
        'content-type': TYPES[path.extname(name)]!,
        // their names carry a hash of what is in them
        'cache-control': name.startsWith('assets/')
          ? 'public, max-age=31536000, immutable'
          : 'no-cache',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
      })
      .send(bytes);
  });
}
