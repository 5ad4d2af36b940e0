/**
 * Checks of Host and Origin. A page of another site can make a browser send requests here under a
 * name of its own that resolves to this machine (DNS rebinding); Host and Origin reveal it.
 */
import { isIP } from 'node:net';
import { forbidden } from './failures.js';

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);

/** `[::1]:8080` as `::1`. */
function nameOf(hostHeader: string): string {
  const match = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/.exec(hostHeader);
  return (match?.[1] ?? match?.[2] ?? '').toLowerCase();
}

export interface Names {
  /** Host that the server listens on. */
  readonly host: string;
  /** Further names that lead to it. */
  readonly hosts: readonly string[];
  /** Origins of pages that may call it; such as `https://example.org`. */
  readonly origins: readonly string[];
  /**
   * Whether it speaks HTTPS: a page that came over HTTP is then not one of its own. Without HTTPS,
   * a proxy in front of the server may add it.
   */
  readonly secure: boolean;
}

/** @throws RequestFailure 403 */
export function requireNamed(
  hostHeader: string | undefined,
  origin: string | undefined,
  names: Names,
): void {
  const { host, hosts, origins, secure } = names;
  const name = nameOf(hostHeader ?? '');
  // A server on all interfaces is reached by any address; a name has to be one that it was given.
  const known =
    isLoopback(name) ||
    name === host.toLowerCase() ||
    hosts.includes(name) ||
    (!isLoopback(host) && isIP(name) !== 0);
  if (!known)
    throw forbidden(
      `the host name ${JSON.stringify(name)} is not allowed; start the server with --allow-host`,
      'host_not_allowed',
    );
  if (origin === undefined || origins.includes(origin)) return;
  if (origin === `https://${hostHeader}` || (!secure && origin === `http://${hostHeader}`)) return;
  throw forbidden(
    `pages of ${JSON.stringify(origin)} may not call this server; start the server with --allow-origin`,
    'origin_not_allowed',
  );
}
