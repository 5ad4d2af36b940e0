/** Addresses of reports: random, for ten minutes, and no more than 32 of them at once. */
import { expect, test } from '@jest/globals';
import fastify from 'fastify';
import { ReportTickets } from '../../src/server/page/report-tickets.js';

const MINUTE = 60_000;
const tickets = (): {
  issue: ReportTickets['issue'];
  ask: (address: string) => Promise<number>;
} => {
  const issued = new ReportTickets();
  const app = fastify();
  issued.addRoute(app);
  return {
    issue: (...of) => issued.issue(...of),
    ask: async (address) => (await app.inject(address)).statusCode,
  };
};
const there = 200;
const gone = 404;

test('the address of a text gives that text, sandboxed, and is kept by nobody', async () => {
  const issued = new ReportTickets();
  const app = fastify();
  issued.addRoute(app);
  const [one, other] = [issued.issue('one'), issued.issue('other')];
  expect(one).toMatch(/^\/reports\/[\w-]{32}$/);
  expect(one).not.toBe(other);
  const { payload, headers } = await app.inject(one);
  expect(payload).toBe('one');
  expect(headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': "sandbox allow-scripts; frame-ancestors 'self'",
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  });
  expect((await app.inject('/reports/nothing')).payload).toContain('has expired');
});

test('an address is there for ten minutes', async () => {
  const { issue, ask } = tickets();
  expect(await ask(issue('x', Date.now() - 9.9 * MINUTE))).toBe(there);
  expect(await ask(issue('x', Date.now() - 10.01 * MINUTE))).toBe(gone);
});

test('of more than 32 the oldest are gone', async () => {
  const { issue, ask } = tickets();
  const addresses = Array.from({ length: 33 }, (_, i) => issue(`${i}`));
  expect(await Promise.all(addresses.map(ask))).toEqual([
    gone,
    ...Array.from({ length: 32 }, () => there),
  ]);
});

test('whatever is over its time goes with the next that is issued', async () => {
  const { issue, ask } = tickets();
  const now = Date.now();
  const old = issue('old', now);
  issue('new', now + 11 * MINUTE);
  expect(await ask(old)).toBe(gone);
});
