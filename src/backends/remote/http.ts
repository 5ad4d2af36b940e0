/**
 * The one way to a server: a `fetch` that goes to one origin, over TLS unless the server is on this
 * machine, follows no redirect elsewhere, and reads bodies of a bounded size whole. Node's own
 * fetch gives up on a reply after 300 s, which a model on a processor may take.
 */
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { IsoproError } from '../../errors.js';
import { TransportError } from './attempt-failure.js';

export type Fetch = typeof globalThis.fetch;

const LARGEST_BODY = 2 ** 26;
const MOST_REDIRECTS = 3;

const isLoopback = (host: string): boolean =>
  host === 'localhost' ||
  host.endsWith('.localhost') ||
  host === '[::1]' ||
  /^127(\.\d{1,3}){3}$/.test(host);

/**
 * Address of a server as it may be used.
 * @param from what named it, for the message
 * @throws IsoproError INVALID_ARGUMENT
 */
export function serverUrl(text: string, isInsecure: boolean, from = 'backend'): URL {
  const refuse = (what: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', `${from}: ${what}`);
  };
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return refuse('expected the address of a server, such as http://127.0.0.1:8080/v1');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    refuse(`expected an address with http or https, got ${url.protocol}`);
  // a key in an address would be in every log
  if (url.username !== '' || url.password !== '' || url.search !== '')
    refuse(
      'an address may have neither a user, a password nor a query. Put the key into a variable and name it with --key-env',
    );
  if (url.protocol === 'http:' && !isInsecure && !isLoopback(url.hostname))
    refuse(
      `http to ${url.hostname} is not encrypted: use https, or --insecure if you trust the network`,
    );
  url.hash = '';
  return url;
}

interface Sent {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly signal: AbortSignal | undefined;
}

async function exchange(url: URL, { method, headers, body, signal }: Sent): Promise<Response> {
  const { request } = url.protocol === 'https:' ? https : http;
  const sent = request(url, {
    method,
    headers: { ...headers, 'accept-encoding': 'identity' },
    ...(signal !== undefined && { signal }),
  });
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [http.IncomingMessage];
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > LARGEST_BODY) {
      sent.destroy();
      throw new TransportError('invalid', `the body has more than ${LARGEST_BODY} bytes`);
    }
    chunks.push(chunk);
  }
  const status = answer.statusCode ?? 0;
  if (status < 200 || status > 599)
    throw new TransportError('invalid', `the server answered with the status ${status}`);
  const headersBack = Object.entries(answer.headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  const isEmpty = status === 204 || status === 205 || status === 304;
  return new Response(isEmpty ? null : Buffer.concat(chunks), { status, headers: headersBack });
}

/** @param endpoint as serverUrl returns it: no other origin is asked */
export const fetchFrom =
  (endpoint: URL): Fetch =>
  async (input, init = {}) => {
    let url = new URL(input instanceof Request ? input.url : input);
    const sent: Sent = {
      method: init.method ?? 'GET',
      headers: Object.fromEntries(new Headers(init.headers)),
      body: typeof init.body === 'string' ? init.body : undefined,
      signal: init.signal ?? undefined,
    };
    for (let redirects = 0; ; redirects++) {
      if (url.origin !== endpoint.origin)
        throw new TransportError('redirect', `the server points to ${url.origin}, another origin`);
      const response = await exchange(url, sent).catch((error: unknown) => {
        // as fetch: an abort is the reason of its signal
        sent.signal?.throwIfAborted();
        throw error;
      });
      if (response.status < 300 || response.status > 399) return response;
      const place = response.headers.get('location');
      // others turn a question into a GET
      if (place === null || (response.status !== 307 && response.status !== 308))
        throw new TransportError('redirect', `the server redirects with ${response.status}`);
      if (redirects === MOST_REDIRECTS)
        throw new TransportError(
          'redirect',
          `the server redirects more than ${MOST_REDIRECTS} times`,
        );
      url = URL.canParse(place, url.href) ? new URL(place, url.href) : url;
    }
  };
