/** The README: its commands, and that it stays short. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const readme = readFileSync(path.join(root, 'README.md'), 'utf8');
const blocks = [...readme.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].map(([, language, code]) => ({
  language,
  code: code!.trim(),
}));

const home = mkdtempSync(path.join(tmpdir(), 'isopro-readme-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

test('the install and test commands are the ones that .ci/run uses', () => {
  expect(blocks.map(({ language }) => language)).toEqual(['sh', 'ts']);
  expect(blocks[0]!.code).toBe('npm install\nnpx isopro-native run');
  const ci = readFileSync(path.join(root, '.ci', 'run'), 'utf8');
  expect(ci).toMatch(/^\s*npm (ci|install)\b/m);
  expect(ci).toMatch(/\bnpm test\b/);
  expect(readme).toContain('`npm test`');
});

test('the loop knows what it would take, without a download', async () => {
  const env = { ...process.env, ISOPRO_HOME: home };
  const { stdout } = await promisify(execFile)('bash', ['-c', 'npx isopro-native run --dry-run'], {
    cwd: root,
    env,
  });
  expect(stdout).toMatch(/^predicted: [\d.]+ minutes/m);
}, 120_000);

describe("the library's example", () => {
  const project = path.join(home, 'project');
  const example = blocks.find(({ language }) => language === 'ts')!.code;
  const page = readFileSync(path.join(root, 'docs', 'library.md'), 'utf8');
  const snippets = [...page.matchAll(/^```js run\n([^]*?)^```$/gm)].map(([, code]) => code!);
  beforeAll(() => {
    mkdirSync(path.join(project, 'node_modules', '@types'), { recursive: true });
    symlinkSync(root, path.join(project, 'node_modules', 'isopro-native'), 'junction');
    for (const name of ['ai', 'zod', '@types/node'])
      symlinkSync(
        path.join(root, 'node_modules', name),
        path.join(project, 'node_modules', name),
        'junction',
      );
    writeFileSync(path.join(project, 'package.json'), '{ "type": "module" }');
  });

  test('type-checks under strict as it stands, as those of docs/library.md do', async () => {
    expect(snippets.length).toBeGreaterThan(2);
    const files = [example, ...snippets].map((code, index) => {
      writeFileSync(path.join(project, `example-${index}.ts`), code);
      return `example-${index}.ts`;
    });
    const options = [
      '--strict',
      '--noEmit',
      '--module',
      'nodenext',
      '--target',
      'es2022',
      '--types',
      'node',
    ];
    const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const { stdout } = await promisify(execFile)(process.execPath, [tsc, ...options, ...files], {
      cwd: project,
    }).catch((error: unknown) => error as { stdout: string });
    expect(stdout).toBe('');
  }, 120_000);

  test('runs as the README says, in a folder of no type, with the model that comes with the project', async () => {
    const [, file] = /^\/\/ save as \S+: node (\S+)$/m.exec(example)!;
    writeFileSync(path.join(project, 'package.json'), '{}');
    writeFileSync(path.join(project, file!), example.replace('smollm2-135m', 'tiny'));
    const { stdout } = await promisify(execFile)(process.execPath, [file!], { cwd: project });
    expect(stdout).toMatch(/(river|city)\n$/);
  }, 60_000);
});

test('it can be read in two minutes: one picture, one table of at most eight lines', () => {
  const text = readme.replace(/^```[^]*?^```$/gm, '').replace(/\]\([^)]*\)/g, ']');
  const words = text.match(/[\p{L}\p{N}][\p{L}\p{N}'.-]*/gu)!;
  expect(words.length).toBeLessThan(460); // 230 words a minute
  const pictures = [...readme.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, file]) =>
    readFileSync(path.join(root, file!)),
  );
  expect(pictures.map((picture) => picture.subarray(1, 4).toString())).toEqual(['PNG']);
  const [results] = /<!-- results -->[^]*<!-- end of results -->/.exec(readme)!;
  expect(results.split('\n').filter((line) => line.startsWith('|')).length).toBeLessThanOrEqual(8);
});
