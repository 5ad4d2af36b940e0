/** A server of the tests: a synthetic model on a port of this machine, as a client sees it. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import path from 'node:path';
import { startServer, type Server, type ServerOptions } from '../../src/server/server.js';
import { hashKey } from '../../src/server/keys.js';
import { file, folder } from '../host/fixtures.js';
import type { Parsed } from './parsed.js';
import { writeSyntheticModel } from './synthetic.js';

export { adapterFile, file, fileQ41, folder, unquantised } from '../host/fixtures.js';

/**
 * As in the tests of the host: the order of attention's sums, which depends on who else runs, shows
 * in no token.
 */
export const UNDISTURBED = { threads: 1, fixedThreads: true, kvType: 'bf16' } as const;

export const ADMIN = 'admin-key-of-the-tests';
/** Defects that a server told of. */
export const reported: unknown[] = [];

const started: Server[] = [];
/** For `afterAll`: a server that a test that failed has left open keeps the suite from ending. */
export const closeAll = (): Promise<unknown> =>
  Promise.all(started.map((server) => server.close(0)));

export async function start(options: Partial<ServerOptions> = {}): Promise<Server> {
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    hosts: [],
    origins: [],
    model: file,
    name: 'base',
    adapters: [],
    keys: [hashKey('admin', ADMIN, ['admin'])],
    load: { ...UNDISTURBED, contextTokens: 4096 },
    limits: {},
    report: (error) => void reported.push(error),
    ...options,
  });
  started.push(server);
  return server;
}

/** Of a context so long that no reply fills it before a test has looked at it. */
export function longModel(): string {
  const long = path.join(folder, 'long.gguf');
  writeSyntheticModel(long, { architecture: 'llama', contextLength: 32_768, seed: 1n });
  return long;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Of a reply in JSON. */
  readonly body: Parsed;
}

export interface Sent {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** As it is; anything else than a text or bytes as JSON. */
  readonly body?: unknown;
}

/** Says exactly what it is told to, which fetch does not: Host and Origin too. */
export function send(
  server: Pick<Server, 'url'>,
  target: string,
  { method, headers = {}, body }: Sent = {},
): Promise<Answer> {
  const { hostname, port } = new URL(server.url);
  const bytes =
    body === undefined || typeof body === 'string' || Buffer.isBuffer(body)
      ? body
      : JSON.stringify(body);
  const type = bytes === undefined ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const sent = httpRequest({
      hostname,
      port,
      path: target,
      method: method ?? (bytes === undefined ? 'GET' : 'POST'),
      headers: { ...type, ...headers },
      agent: false,
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(parts).toString();
        const isJson = String(response.headers['content-type']).startsWith('application/json');
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text,
          body: isJson ? JSON.parse(text) : undefined,
        });
      });
    });
    sent.end(bytes);
  });
}

export const asAdmin = { authorization: `Bearer ${ADMIN}` };

/** The events of a stream, and whether it was ended as OpenAI ends one. */
export function eventsOf(text: string): { events: Parsed[]; done: boolean } {
  const lines = text.split('\n\n').filter((line) => line !== '' && !line.startsWith(':'));
  const data = lines.map((line) => line.replace(/^data: /, ''));
  return {
    events: data.filter((line) => line !== '[DONE]').map((line) => JSON.parse(line)),
    done: data.at(-1) === '[DONE]',
  };
}

/** Nothing runs any more; a reply that was left is let go of between two steps. */
export async function untilIdle(server: Server): Promise<void> {
  while (server.usage().models.some(({ requests }) => requests > 0))
    await new Promise((resolve) => setImmediate(resolve));
}
