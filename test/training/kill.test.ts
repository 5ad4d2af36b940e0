/**
 * SIGKILL at random moments of training on the command line: resumed as often as needed, it ends
 * with the bytes of an uninterrupted run.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Random } from '../../src/index.js';
import { MAIN } from '../cli/run-cli.js';
import { writeSyntheticModel } from '../models/synthetic.js';

const KILLS = process.env.ISOPRO_FULL === '1' ? 40 : 3;
let folder: string;
const file = (name: string): string => path.join(folder, name);

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-kill-'));
  writeSyntheticModel(file('model.gguf'), { architecture: 'qwen2' });
  writeFileSync(
    file('data.jsonl'),
    Array.from({ length: 16 }, (_, i) =>
      JSON.stringify({ prompt: `say ${i}`, completion: `it is ${i * 7}` }),
    ).join('\n'),
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const flags = (out: string, ...more: string[]): string[] => [
  MAIN,
  'train',
  '--model',
  file('model.gguf'),
  '--data',
  file('data.jsonl'),
  '--out',
  file(out),
  '--batch',
  '2',
  '--epochs',
  String(3 * KILLS),
  '--lr',
  '0.002',
  '--save-every',
  '1',
  '--threads',
  '1',
  '--json',
  ...more,
];

test(
  `${KILLS} kills: the adapter and the state are those of an uninterrupted run`,
  async () => {
    const whole = spawnSync(process.execPath, flags('whole.gguf'), { encoding: 'utf8' });
    expect(whole.status).toBe(0);
    const random = new Random(5n);
    let last = 0;
    for (let kills = 0; kills < KILLS; kills++) {
      const child = spawn(
        process.execPath,
        flags('killed.gguf', ...(existsSync(file('killed.gguf.state')) ? ['--resume'] : [])),
      );
      let errors = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
      // After some steps, and then at any moment of the next: in the step, while the state is
      // written, or between.
      const steps = random.nextInteger(2, 12);
      let seen = '';
      for await (const chunk of child.stdout.setEncoding('utf8')) {
        seen += chunk as string;
        if (seen.split('\n').length > steps) break;
      }
      await new Promise((resolve) => setTimeout(resolve, random.nextInteger(0, 40)));
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      expect(errors).not.toMatch(/"error"/);
      // It goes on where it was saved: at most the step that was running is done again.
      const first = (JSON.parse(seen.slice(0, seen.indexOf('\n'))) as { step: number }).step;
      expect(first).toBeGreaterThan(last);
      last = first;
    }
    const resumed = spawnSync(process.execPath, flags('killed.gguf', '--resume'), {
      encoding: 'utf8',
    });
    expect(resumed.status).toBe(0);
    expect(readFileSync(file('killed.gguf'))).toEqual(readFileSync(file('whole.gguf')));
    expect(readFileSync(file('killed.gguf.state'))).toEqual(readFileSync(file('whole.gguf.state')));
  },
  120_000 + KILLS * 20_000,
);
