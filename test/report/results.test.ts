/**
 * README's tables: what an ablation and a comparison of methods leave, and what
 * `npm run docs:results` makes of it.
 */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as figures from '../../src/text/figures.js';
import { readRun, testEvaluation } from '../../src/run-folder/read-run.js';
import type { Ablation } from '../../src/operations/ablation.js';
import { asFlags, runCli } from '../cli/run-cli.js';
import { LEARNS, writeLetterModel, writeLetterTask } from '../models/letters.js';

const project = fileURLToPath(new URL('../..', import.meta.url));
const { PAGES, readResults, resultsText, withResults } = (await import(
  path.join(project, 'scripts', 'document-results.mjs')
)) as {
  readResults: (parent?: string) => Record<string, unknown> | null;
  PAGES: Readonly<Record<string, boolean>>;
  resultsText: (
    folders: Record<string, unknown>,
    figures: object,
    options?: { brief: boolean },
  ) => string;
  withResults: (text: string, content: string) => string;
};

interface Section {
  readonly page: string;
  read(): unknown;
  text(results: unknown): unknown;
  within(page: string, text: unknown): string;
}
/** What `scripts/measure-NAME.mjs` exports for its section of a page. */
async function sectionOf(name: string): Promise<Section> {
  const own = (await import(path.join(project, 'scripts', `measure-${name}.mjs`))) as Record<
    string,
    unknown
  >;
  const of = `${name[0]!.toUpperCase()}${name.slice(1)}`;
  const { PAGE: page, [`read${of}`]: read, [`${name}Text`]: text, [`with${of}`]: within } = own;
  return { page, read, text, within } as Section;
}

test.each(['clients', 'load', 'speed', 'baselines', 'harness'])(
  'what a page says of %s is what its file in results/ says',
  async (name) => {
    const { page, read, text, within } = await sectionOf(name);
    const written = readFileSync(path.join(project, page), 'utf8');
    expect(written).toBe(within(written, text(read())));
  },
);

const committed = readResults();
if (committed === null) console.warn('no folder results/: README has no tables to compare with');
(committed === null ? test.skip : test).each(Object.entries(PAGES))(
  'the tables of %s are what the files in results/ say (npm run docs:results)',
  (page, brief) => {
    const text = readFileSync(path.join(project, page), 'utf8');
    expect(text).toBe(withResults(text, resultsText(committed!, figures, { brief })));
  },
);

test('what stands between the marks is replaced, nothing else', () => {
  const text = 'above\n<!-- results -->\nold\n<!-- end of results -->\nbelow\n';
  expect(withResults(text, 'new')).toBe(
    'above\n<!-- results -->\n\nnew\n\n<!-- end of results -->\nbelow\n',
  );
  expect(withResults(withResults(text, 'other'), 'new')).toBe(withResults(text, 'new'));
  expect(() => withResults('no marks', 'new')).toThrow(/<!-- results -->/);
});

describe('an ablation', () => {
  let root: string;
  let ablation: Ablation;
  let page: string;
  const at = (...names: string[]): string => path.join(root, ...names);
  const SMALL = asFlags({ iterations: 2, ...LEARNS });
  const letters = (...args: string[]): ReturnType<typeof runCli> =>
    runCli(
      [...args, '--model', at('letters.gguf'), '--task', at('letters.mjs'), ...SMALL, '--json'],
      { ISOPRO_HOME: at('home') },
    );
  beforeAll(async () => {
    root = mkdtempSync(path.join(tmpdir(), 'isopro-results-'));
    writeLetterModel(at('letters.gguf'));
    writeLetterTask(at('letters.mjs'));
    const { code, stdout } = await letters(
      'ablate',
      '--out',
      at('runs'),
      '--seeds',
      '1',
      '2',
      '--conditions',
      'failures',
    );
    expect(code).toBe(0);
    ablation = JSON.parse(stdout) as Ablation;
    expect(
      (
        await letters(
          'run',
          '--mode',
          'isopro',
          'zero-shot',
          'best-of-k',
          '--seed',
          '1',
          '--out',
          at('runs', 'full-1'),
        )
      ).code,
    ).toBe(0);
    mkdirSync(at('results', 'letters'), { recursive: true });
    copyFileSync(at('runs', 'ablation.json'), at('results', 'letters', 'ablation.json'));
    copyFileSync(at('runs', 'full-1', 'comparison.json'), at('results', 'letters', 'modes-1.json'));
    page = resultsText(readResults(at('results'))!, figures);
  }, 600_000);
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  /** Cells of the first row that begins so. */
  const cells = (head: string, after = ''): string[] =>
    page
      .slice(page.indexOf(after))
      .split('\n')
      .find((line) => line.startsWith(`| ${head} |`))!
      .split('|')
      .slice(2, -1)
      .map((cell) => cell.trim());
  /** Per cent of a tier's problems that a run's log calls solved after training. */
  const solved = (folder: string, tier: string): string => {
    const { outcomes } = testEvaluation(readRun(at('runs', folder)), 'after')!;
    const own = outcomes.filter(([, of]) => of === tier);
    return ((100 * own.filter(([, , kind]) => kind === 'pass').length) / own.length).toFixed(1);
  };

  test('is written in a form that can be published, and says what its log says', () => {
    expect(JSON.parse(readFileSync(at('runs', 'ablation.json'), 'utf8'))).toEqual(ablation);
    expect(JSON.stringify(ablation)).not.toContain(root);
    expect(
      ablation.conditions.map(({ condition, runs }) => [
        condition,
        runs.map(({ folder }) => folder),
      ]),
    ).toEqual([
      ['full', ['full-1', 'full-2']],
      ['failures', ['failures-1', 'failures-2']],
    ]);
    expect(ablation.untrained).toEqual(['L2']);
    // the loop learns, a control that trains on failures does not
    const [full, failures] = ablation.conditions;
    expect(failures!.mean!).toBeLessThan(full!.mean!);
    expect(failures!.toFull!.difference).toBeCloseTo(failures!.mean! - full!.mean!, 12);
    expect(failures!.toFull!.high).toBeLessThan(0);
  });

  test('gives tables with the figures of the logs', () => {
    for (const seed of ['1', '2']) {
      for (const tier of ['L0', 'L1', 'L2'])
        expect(cells(tier, `Seed ${seed} by tier`)[2]).toMatch(
          new RegExp(`^${solved(`full-${seed}`, tier)} \\(`),
        );
    }
    const [n, , , gained, lost, p] = cells('L0', 'Seed 1 by tier');
    // only gains: exact two-sided p is 2 * 2^-gained
    expect([n, lost, p]).toEqual([
      '20',
      '0',
      figures.pValue(Math.min(1, 2 ** (1 - Number(gained)))),
    ]);
    expect(cells('`failures`')[1]).toMatch(/^\d+\.\d \(\d/);
    expect(cells('`isopro`')[0]!.split(' ')[0]).toBe(cells('seed 1')[1]!.split(' ')[0]);
    expect(Number(cells('`best-of-k`')[1])).toBeGreaterThan(1);
    expect(cells('`always_c`')[1]).toBe('100.0');
    expect(page).toContain('never trained on: L2');
  });

  test('a path of a machine in a file is refused', () => {
    mkdirSync(at('others', 'letters'), { recursive: true });
    writeFileSync(
      at('others', 'letters', 'ablation.json'),
      JSON.stringify({ ...ablation, model: '/somewhere/tiny.gguf' }),
    );
    expect(() => readResults(at('others'))).toThrow(
      /ablation\.json holds a path of a machine: \/somewhere/,
    );
    expect(existsSync(at('nothing')) ? {} : readResults(at('nothing'))).toBeNull();
  });

  test('two conditions that trained alike are an error: this task has one prompt for both styles', async () => {
    const { code, stderr } = await letters(
      'ablate',
      '--out',
      at('runs'),
      '--seeds',
      '1',
      '--conditions',
      'no-cot',
    );
    expect(code).toBe(1);
    expect(stderr).toMatch(/CONDITIONS_EQUAL.*no-cot/s);
  }, 120_000);
});
