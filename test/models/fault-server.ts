/** A server of OpenAI's chat completions that fails as it is told, and counts what it is asked. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Question {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
  readonly [member: string]: unknown;
}

export interface Asked {
  /** Content of the last message. */
  readonly content: string;
  /** Number of the request with this content, from 1. */
  readonly nth: number;
  readonly body: Question;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export type Answerer = (asked: Asked) => void | Promise<void>;

export const completion = (text: string | null, over: object = {}): object => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'served-name',
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
  ...over,
});

export function send(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(text);
}

export const error = (message: string, over: object = {}): object => ({
  error: { message, type: 'invalid_request_error', code: null, ...over },
});

export class FaultServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #counts = new Map<string, number>();
  /** Requests that were answered at the same time, at most. */
  most = 0;
  #open = 0;
  total = 0;

  private constructor(answer: Answerer) {
    this.#server = createServer((request, response) => {
      this.total++;
      this.#open++;
      this.most = Math.max(this.most, this.#open);
      response.on('close', () => this.#open--);
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = JSON.parse(Buffer.concat(chunks).toString('utf8') || '{}') as Question;
        const content = body.messages?.at(-1)?.content ?? '';
        const nth = (this.#counts.get(content) ?? 0) + 1;
        this.#counts.set(content, nth);
        void answer({ content, nth, body, request, response });
      });
    });
  }

  static async start(answer: Answerer): Promise<FaultServer> {
    const server = new FaultServer(answer);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Requests with a content. */
  count(content: string): number {
    return this.#counts.get(content) ?? 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
