/** Many clients at once, some of whom go away, some of whom send nonsense: every other one gets the reply that it would have had alone. */
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterAll, expect, test } from '@jest/globals';
import { ModelHost, type HostedAdapter } from '../../src/index.js';
import { Random } from '../../src/random.js';
import type { Server } from '../../src/server/server.js';
import { adapterFile, asAdmin, closeAll, eventsOf, file, folder, reported, send, start, UNDISTURBED, untilIdle } from '../models/server.js';

const CLIENTS = 16;
const REQUESTS = 80;
const PATH = '/v1/chat/completions';
const messages = [{ role: 'user' as const, content: 'Name a river.' }];

/** Reads the first bytes of a stream and goes away. */
async function leave(server: Server, body: object): Promise<void> {
  const sent = httpRequest(`${server.url}${PATH}`, { method: 'POST', headers: { 'content-type': 'application/json' }, agent: false });
  sent.on('error', () => {});
  sent.end(JSON.stringify({ ...body, stream: true, max_tokens: 400, ignore_eos: true }));
  const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream];
  await once(response, 'data');
  sent.destroy();
}

afterAll(closeAll);

test('no reply is lost or another one’s, and nothing is left behind', async () => {
  const files = { base: null, one: adapterFile('one', 11n), two: adapterFile('two', 12n) };
  const names = Object.keys(files) as (keyof typeof files)[];
  const host = new ModelHost();
  const direct = await host.load(file, { ...UNDISTURBED, contextTokens: 4096 });
  const alone = new Map<string, string>();
  for (const name of names) {
    const adapter: HostedAdapter | null = files[name] === null ? null : await direct.loadAdapter(files[name]);
    for (let seed = 0; seed < 8; seed++) {
      const reply = await direct.generate({ messages, maxTokens: 16, sampling: { seed }, id: '0', adapter });
      alone.set(`${name} ${seed}`, reply.text);
    }
  }
  await host.dispose();

  const server = await start({
    adapters: [
      { name: 'one', file: files.one },
      { name: 'two', file: files.two },
    ],
    adapterFolder: folder,
    load: { ...UNDISTURBED, contextTokens: 8192, maxSequences: 8 },
    limits: { waiting: CLIENTS },
  });
  const random = new Random(7n);
  const jobs = Array.from({ length: REQUESTS }, () => {
    const [kind, name, seed] = [random.nextInteger(0, 7), names[random.nextInteger(0, names.length - 1)]!, random.nextInteger(0, 7)];
    const body = { model: name, messages, seed, max_tokens: 16 };
    const expected = alone.get(`${name} ${seed}`);
    if (kind === 0) return () => leave(server, body);
    if (kind === 1) return async () => expect((await send(server, PATH, { body: '{"model": ' })).status).toBe(400);
    if (kind === 2)
      return async () => {
        const load = { lora_name: 'three', lora_path: files.two };
        expect((await send(server, '/load_lora_adapter', { body: load, headers: asAdmin })).status).toBe(200);
        const { status, body: reply } = await send(server, PATH, { body: { ...body, model: 'three' } });
        expect(status).toBe(200);
        expect(reply.choices[0].message.content).toBe(alone.get(`two ${seed}`));
      };
    if (kind === 3)
      return async () => {
        const { events } = eventsOf((await send(server, PATH, { body: { ...body, stream: true } })).text);
        expect(
          events.flatMap(({ choices }) => choices.map(({ delta }: never) => (delta as { content?: string }).content ?? '')).join(''),
        ).toBe(expected);
      };
    return async () => expect((await send(server, PATH, { body })).body.choices[0].message.content).toBe(expected);
  });
  const clients = Array.from({ length: CLIENTS }, async () => {
    for (let job = jobs.pop(); job !== undefined; job = jobs.pop()) await job();
  });
  await Promise.all(clients);
  await untilIdle(server);
  await send(server, '/unload_lora_adapter', { body: { lora_name: 'three' }, headers: asAdmin });
  const { text } = await send(server, '/metrics');
  expect(text).toMatch(/^isopro_running_replies 0$/m);
  expect(text).toMatch(/^isopro_waiting_replies 0$/m);
  expect(server.usage().models.map(({ adapters }) => adapters.length)).toEqual([2]);
  expect(reported).toEqual([]);
});
