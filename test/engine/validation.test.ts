import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import type { MutationKind } from '../models/mutation-runner.js';

// Each mutant is loaded and run in a child process. It must generate, or fail with a typed error; a
// child that dies or stands still is a failure, reported with the mutant's seed: node
// dist/test/models/mutation-runner.js KIND SEED 1

const FULL = process.env.ISOPRO_FULL === '1';
const RUNNER = fileURLToPath(new URL('../../dist/test/models/mutation-runner.js', import.meta.url));
/** A trial may use 60 processor seconds. */
const PATIENCE_MS = 180_000;

const OF_MODELS = [
  'MODEL_CORRUPT',
  'MODEL_UNSUPPORTED',
  'ARCH_UNSUPPORTED',
  'NUMERIC_FAILURE',
  'TEMPLATE_INVALID',
  'CONTEXT_OVERFLOW',
];
/** What a file or a grammar may be refused with; NATIVE_FAILURE is never one of them. */
const TYPED: Readonly<Record<MutationKind, readonly string[]>> = {
  model: OF_MODELS,
  decoder: OF_MODELS,
  adapter: ['ADAPTER_CORRUPT', 'ADAPTER_MISMATCH', 'NUMERIC_FAILURE'],
  grammar: ['GRAMMAR_INVALID'],
};

interface Result {
  readonly seed: number;
  readonly label: string;
  readonly harmless: boolean;
  readonly outcome: string;
}

/**
 * Runs mutants from `first` on until `count` are done or the child ends; the one that ended it gets
 * that as its outcome.
 */
function runChild(kind: MutationKind, first: number, count: number): Promise<Result[]> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [RUNNER, kind, String(first), String(count)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const results: Result[] = [];
    let running: Omit<Result, 'outcome'> | undefined;
    let buffered = '';
    let complaint = '';
    let hung = false;
    let timer: NodeJS.Timeout;
    const rewind = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        hung = true;
        child.kill('SIGKILL');
      }, PATIENCE_MS);
    };
    rewind();
    child.stdout.on('data', (data: Buffer) => {
      rewind();
      buffered += data.toString('utf8');
      const lines = buffered.split('\n');
      buffered = lines.pop()!;
      for (const line of lines) {
        const { outcome, ...rest } = JSON.parse(line) as Result;
        if (outcome === undefined) running = rest;
        else {
          results.push({ ...running!, outcome });
          running = undefined;
        }
      }
    });
    child.stderr.on(
      'data',
      (data: Buffer) => (complaint = (complaint + data.toString('utf8')).slice(-500)),
    );
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (running !== undefined)
        results.push({
          ...running,
          outcome: hung ? 'hang' : `crash: ${signal ?? code} ${complaint}`,
        });
      else if (code !== 0)
        results.push({
          seed: first + results.length,
          label: 'between mutants',
          harmless: false,
          outcome: `crash: ${signal ?? code} ${complaint}`,
        });
      resolve(results);
    });
  });
}

async function campaign(kind: MutationKind, count: number): Promise<Result[]> {
  const results: Result[] = [];
  while (results.length < count)
    results.push(...(await runChild(kind, results.length, count - results.length)));
  return results;
}

const tally = (results: readonly Result[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { outcome } of results) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
};

describe('mutants of files and grammars', () => {
  test.each([
    ['model', FULL ? 12_000 : 480],
    ['decoder', FULL ? 12_000 : 170],
    ['adapter', FULL ? 3000 : 200],
    ['grammar', FULL ? 4000 : 400],
  ] as const)(
    'a %s generates or is a typed error',
    async (kind, count) => {
      const results = await campaign(kind, count);
      expect(results).toHaveLength(count);
      console.log(
        `${kind}: ${JSON.stringify(tally(results))}, harmless: ${results.filter(({ harmless }) => harmless).length}`,
      );
      expect(
        results.filter(({ outcome }) => outcome !== 'ok' && !TYPED[kind].includes(outcome)),
      ).toEqual([]);
      expect(results.filter(({ harmless, outcome }) => harmless && outcome !== 'ok')).toEqual([]);
      // A tenth is harmless; were everything refused, or nothing, the campaign would show nothing.
      expect(results.filter(({ harmless }) => harmless).length).toBeGreaterThan(count / 20);
      expect(results.filter(({ outcome }) => outcome !== 'ok').length).toBeGreaterThan(count / 10);
    },
    FULL ? 14_400_000 : 600_000,
  );
});
