/**
 * Prompts without end: read as they are needed, answered in order, in memory that does not grow
 * with them.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { generateEach, type NamedRollout } from '../../src/engine/generate-each.js';
import type { Prompt } from '../../src/engine/generate-request.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { MAIN } from '../cli/run-cli.js';
import { writeLetterModel } from '../models/letters.js';

const FULL = process.env.ISOPRO_FULL === '1';
let folder: string;
let model: Model;
const file = (name: string): string => path.join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-each-'));
  writeLetterModel(file('letters.gguf'));
  model = await loadModel(file('letters.gguf'), { threads: 1 });
});
afterAll(async () => {
  await model.dispose();
  rmSync(folder, { recursive: true, force: true });
});

describe('generateEach', () => {
  const request = { samples: 4, maxTokens: 3, sampling: { temperature: 1, seed: 5n } } as const;
  let read = 0;
  function* prompts(count: number): Generator<Prompt> {
    for (let i = 0; i < count; i++) {
      read++;
      yield {
        messages: [{ role: 'user', content: `prompt ${i}` }],
        ...(i % 3 === 0 ? { id: `name ${i}` } : {}),
      };
    }
  }

  test('gives what one request gives, in the order of prompts and samples', async () => {
    const whole = new Map<string, string>();
    for await (const { promptIndex, sampleIndex, text, seed } of model.generate({
      ...request,
      prompts: [...prompts(200)],
    }))
      whole.set(`${promptIndex}/${sampleIndex}`, `${text} ${seed}`);
    const each: NamedRollout[] = [];
    for await (const rollout of generateEach(model, { ...request, prompts: prompts(200) }))
      each.push(rollout);
    expect(each.map(({ promptIndex, sampleIndex }) => `${promptIndex}/${sampleIndex}`)).toEqual(
      Array.from({ length: 800 }, (_, i) => `${Math.floor(i / 4)}/${i % 4}`),
    );
    expect(each.map(({ text, seed }) => `${text} ${seed}`)).toEqual(
      each.map(({ promptIndex, sampleIndex }) => whole.get(`${promptIndex}/${sampleIndex}`)),
    );
    expect(each[12]!.promptId).toBe('name 3');
    expect(each[16]!.promptId).toBeUndefined();
  }, 60_000);

  test('numbers prompts through, seeds them by that number, and reads a window ahead at most', async () => {
    read = 0;
    const seeds = new Map<number, string>();
    let readAtFirst = 0;
    let finished = 0;
    for await (const { promptIndex, seed } of generateEach(model, {
      ...request,
      samples: 64,
      maxTokens: 1,
      prompts: prompts(40),
      onProgress: (progress) => (finished = progress.finished),
    })) {
      if (seeds.size === 0) readAtFirst = read;
      seeds.set(promptIndex, seed);
    }
    expect(readAtFirst).toBe(16);
    expect([...seeds.keys()]).toEqual(Array.from({ length: 40 }, (_, i) => i));
    expect(new Set(seeds.values()).size).toBe(40);
    expect(finished).toBe(40 * 64);
  }, 60_000);

  test('a prompt that cannot be read ends it after the windows before; an abort after what had finished', async () => {
    const broken = function* (): Generator<Prompt> {
      yield* prompts(20);
      throw new Error('no such prompt');
    };
    let count = 0;
    const all = async (): Promise<void> => {
      for await (const _ of generateEach(model, {
        ...request,
        samples: 64,
        maxTokens: 1,
        prompts: broken(),
      }))
        count++;
    };
    await expect(all()).rejects.toThrow('no such prompt');
    expect(count).toBe(16 * 64);
    const controller = new AbortController();
    const places: string[] = [];
    const aborted = async (): Promise<void> => {
      for await (const { promptIndex, sampleIndex } of generateEach(model, {
        ...request,
        maxTokens: 900,
        ignoreEndOfSequence: true,
        prompts: prompts(8),
        signal: controller.signal,
        onProgress: () => controller.abort(),
      }))
        places.push(`${promptIndex}/${sampleIndex}`);
    };
    await expect(aborted()).rejects.toMatchObject({ code: 'ABORTED' });
    expect(places).toEqual([...places].sort());
  }, 60_000);
});

/**
 * Seconds of the processor that a process has had, where the system says so; elsewhere those of the
 * clock.
 */
const spent = (pid: number): number => {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) / 100; // utime and stime, in hundredths
  } catch {
    return performance.now() / 1000;
  }
};
/** Resident bytes of a process; null where the system does not say. */
const resident = (pid: number): number | null => {
  try {
    return (
      1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])
    );
  } catch {
    return null;
  }
};

/** So that no buffer on the way holds all lines. */
const PADDING = ' '.repeat(400);

describe('isopro-native generate --prompts -', () => {
  const total = FULL ? 100_000 : 3_000;
  const name = FULL ? 'tiny' : 'letters.gguf';

  test(
    `${total} prompts: answers come in order while prompts are still being written; ${FULL ? 'memory and ' : ''}time a prompt ` +
      `${FULL ? 'do' : 'does'} not grow`,
    async () => {
      const child = spawn(
        process.execPath,
        [
          MAIN,
          'generate',
          '--model',
          FULL ? name : file(name),
          '--prompts',
          '-',
          '--max-tokens',
          '1',
          '--threads',
          '1',
          '--json',
        ],
        { stdio: ['pipe', 'pipe', 'inherit'] },
      );
      const closed = once(child, 'close');
      let written = 0;
      const writing = (async () => {
        for (; written < total; written++)
          if (!child.stdin.write(`{"prompt":"number ${written}","id":"p${written}"}${PADDING}\n`))
            await once(child.stdin, 'drain');
        child.stdin.end();
      })();
      const marks: {
        readonly done: number;
        readonly seconds: number;
        readonly bytes: number | null;
      }[] = [];
      let done = 0;
      let writtenAtFirst: number | undefined;
      for await (const line of createInterface({ input: child.stdout })) {
        writtenAtFirst ??= written;
        const { promptIndex, id } = JSON.parse(line) as { promptIndex: number; id: string };
        if (promptIndex !== done || id !== `p${done}`)
          throw new Error(`answer ${done} is to prompt ${promptIndex}, ${id}`);
        if (++done === Math.ceil(((marks.length + 1) * total) / 6))
          marks.push({ done, seconds: spent(child.pid!), bytes: resident(child.pid!) });
      }
      await writing;
      expect((await closed)[0]).toBe(0);
      expect(done).toBe(total);
      expect(writtenAtFirst).toBeLessThan(total);
      const at = (part: number): (typeof marks)[number] =>
        marks.find((mark) => mark.done >= (part * total) / 6)!;
      // memory still warms up during the first window or two, so that only the full form can tell
      // growth from that: 60 MB in 50,000 prompts, 1.2 kB each
      if (FULL && at(2).bytes !== null && at(5).bytes !== null)
        expect(at(5).bytes! - at(2).bytes!).toBeLessThan(60e6);
      // prompts a second: its times are uncertain, not by the factor that a quadratic course would
      // have
      const rate = (from: number, until: number): number =>
        (at(until).done - at(from).done) / (at(until).seconds - at(from).seconds);
      expect(rate(4, 5)).toBeGreaterThan(0.3 * rate(1, 2));
    },
    FULL ? 7_200_000 : 240_000,
  );
});
