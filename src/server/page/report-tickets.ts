/**
 * Addresses of reports for a frame, which cannot send a key: each is random and valid for some
 * minutes. The report is a document without an origin, so its content reaches neither the page
 * around it nor its key.
 */
import { randomBytes } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { RequestFailure } from '../failures.js';

const MINUTES = 10;
const MOST = 32;
const REPORTS = '/reports/';

export class ReportTickets {
  readonly #texts = new Map<string, { readonly text: string; readonly untilMs: number }>();

  /** The address of a text. */
  issue(text: string, nowMs = Date.now()): string {
    const ticket = randomBytes(24).toString('base64url');
    this.#texts.set(ticket, { text, untilMs: nowMs + MINUTES * 60_000 });
    for (const [oldest, { untilMs }] of this.#texts)
      if (this.#texts.size > MOST || untilMs < nowMs) this.#texts.delete(oldest);
    return REPORTS + ticket;
  }

  addRoute(app: FastifyInstance): void {
    app.get(`${REPORTS}:ticket`, { schema: { hide: true } }, (request, reply) => {
      const found = this.#texts.get((request.params as { readonly ticket: string }).ticket);
      if (found === undefined || found.untilMs < Date.now())
        throw new RequestFailure(
          404,
          'the link to this report has expired; open the report from its run again',
          'gone',
        );
      return reply
        .headers({
          'content-type': 'text/html; charset=utf-8',
          // what it may run and load is said in the document itself
          'content-security-policy': "sandbox allow-scripts; frame-ancestors 'self'",
          'cache-control': 'no-store',
          'referrer-policy': 'no-referrer',
        })
        .send(found.text);
    });
  }
}
