/**
 * A8 with a process that serves: what it answers with is what was promoted last, which it had
 * loaded before the name was moved.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';
import { EMBEDDED_MODEL } from '../../src/engine/model-aliases.js';
import { createTrainer, loadModel } from '../../src/index.js';
import { resolveModel } from '../../src/engine/model-files.js';
import { publishFile } from '../../src/operations/publish.js';
import { Registry } from '../../src/registry/index.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-serving-'));
const children: ChildProcessWithoutNullStreams[] = [];
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});
const file = (name: string): string => path.join(folder, name);

interface Said {
  readonly ready?: string[];
  readonly moved?: string;
  readonly key?: string;
  readonly id?: string | null;
  readonly text?: string;
  readonly code?: string;
}

/**
 * A running service; `ask` gives the answer to one key, `heard` waits for something that it says by
 * itself.
 */
function start(registry: string): {
  ask(key: string): Promise<Said>;
  heard(what: (said: Said) => boolean): Promise<Said>;
  kill(): Promise<unknown>;
} {
  const script = fileURLToPath(new URL('./serving.mjs', import.meta.url));
  const child = spawn(process.execPath, [
    script,
    registry,
    file('home'),
    EMBEDDED_MODEL,
    'sql@champion',
  ]);
  children.push(child);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (errors += text));
  const all: Said[] = [];
  const waiting = new Set<() => void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    all.push(JSON.parse(line) as Said);
    for (const look of waiting) look();
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  const heard = (what: (said: Said) => boolean): Promise<Said> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = all.find(what);
        if (found === undefined) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
      void ended.then(() => reject(new Error(`the service ended: ${errors}`)));
      look();
    });
  return {
    heard,
    ask: (key) => {
      child.stdin.write(`${key}\n`);
      return heard((said) => said.key === key);
    },
    kill: () => {
      child.kill('SIGKILL');
      return ended;
    },
  };
}

test('a process with the embedded model follows the champion, and refuses a flipped byte', async () => {
  const registry = new Registry({ folder: file('registry'), home: file('home'), witness: false });
  const { path: model } = await resolveModel(EMBEDDED_MODEL);
  const ids: string[] = [];
  const replies: string[] = [];
  for (const seed of [1, 2, 3]) {
    const adapter = file(`${seed}.gguf`);
    await using trainer = await createTrainer(
      { path: model },
      { lora: { rank: 2, layers: { top: 1 } }, optimiser: { learningRate: 0.05 }, threads: 1 },
    );
    const tokenIds = Int32Array.from({ length: 24 }, (_, i) => 20 + ((i * 7 * seed) % 60));
    for (let step = 0; step < 4; step++)
      await trainer.step([
        { tokenIds, labelMask: Uint8Array.from(tokenIds, (_, i) => Number(i > 0)) },
      ]);
    await trainer.exportAdapter(adapter);
    ids.push((await publishFile(registry, adapter, { model })).id);
    await using loaded = await loadModel(model, { threads: 1, fixedThreads: true });
    using used = await loaded.loadAdapter(adapter);
    for await (const { text } of loaded.generate({
      prompts: ['Job'],
      adapter: used,
      maxTokens: 12,
      sampling: { temperature: 0 },
    }))
      replies.push(text);
  }
  expect(new Set(replies).size).toBe(3); // or nothing below would tell them apart
  const slot = { scenario: 'sql' };
  await registry.move({ slot, id: ids[0]!, force: true });

  const service = start(registry.paths.folder);
  expect((await service.heard(({ ready }) => ready !== undefined)).ready).toEqual(['sql@champion']);
  expect(await service.ask('a')).toMatchObject({ id: ids[0], text: replies[0] });
  await registry.move({ slot, id: ids[1]!, force: true }); // returns when the process has loaded it
  await service.heard(({ moved, id }) => moved === 'sql@champion' && id === ids[1]);
  expect(await service.ask('b')).toMatchObject({ id: ids[1], text: replies[1] });

  const kept = registry.paths.adapter(
    (await registry.read()).state.entries.get(ids[2]!)!.record.adapter.sha256,
  );
  const bytes = readFileSync(kept);
  const flipped = Buffer.from(bytes);
  flipped[flipped.length - 1]! ^= 1;
  writeFileSync(kept, flipped);
  await expect(registry.move({ slot, id: ids[2]!, force: true })).rejects.toMatchObject({
    code: 'ADAPTER_CORRUPT',
  });
  expect(await service.ask('c')).toMatchObject({ id: ids[1], text: replies[1] });

  await registry.rollback({ slot });
  await service.heard(({ moved, id }) => moved === 'sql@champion' && id === ids[0]);
  expect(await service.ask('d')).toMatchObject({ id: ids[0], text: replies[0] });
  await service.kill();
  writeFileSync(kept, bytes);
  // nobody is there to wait for
  await registry.move({ slot, id: ids[2]!, force: true, patienceMs: 0 });
}, 120_000);
