/**
 * `npm run build:ts` runs the compiler where something changed, and there alone, whatever was
 * deleted in between.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
let place: string;
const at = (file: string): string => path.join(place, file);

beforeAll(() => {
  place = mkdtempSync(path.join(tmpdir(), 'isopro-build-ts-'));
  for (const folder of ['scripts', 'src/cli', 'src/web', 'test/models'])
    mkdirSync(at(folder), { recursive: true });
  for (const script of ['build-ts.mjs', 'bundle-program.mjs'])
    cpSync(path.join(root, 'scripts', script), at(`scripts/${script}`));
  cpSync(path.join(root, 'tsconfig.json'), at('tsconfig.json'));
  symlinkSync(path.join(root, 'node_modules'), at('node_modules'), 'dir');
  writeFileSync(at('package.json'), '{"type":"module"}');
  writeFileSync(at('src/cli/main.ts'), "import { one } from '../one.js';\nconsole.log(one);\n");
  writeFileSync(at('src/one.ts'), 'export const one = 1;\n');
  writeFileSync(at('test/models/two.ts'), 'export const two = 2;\n');
  writeFileSync(at('src/web/page.ts'), 'not of this build');
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

function build(): { status: number | null; stdout: string } {
  return spawnSync(process.execPath, [at('scripts/build-ts.mjs')], {
    cwd: place,
    encoding: 'utf8',
  });
}
const written = (): string[] =>
  (readdirSync(at('dist'), { recursive: true }) as string[])
    .filter((file) => file.endsWith('.js'))
    .map((file) => file.split(path.sep).join('/'))
    .sort();
const ALL = ['program/main.js', 'src/cli/main.js', 'src/one.js', 'test/models/two.js'];

test('builds once, and again what changed, was deleted or was touched', () => {
  expect(build()).toMatchObject({ status: 0, stdout: '' });
  expect(written()).toEqual(ALL);
  if (process.platform !== 'win32')
    expect(statSync(at('dist/program/main.js')).mode & 0o777).toBe(0o755);

  const recorded = (): number => statSync(at('dist/built.json')).mtimeMs;
  const first = recorded();
  expect(build().status).toBe(0);
  expect(recorded()).toBe(first);

  writeFileSync(at('src/one.ts'), "export const one = 'changed';\n");
  expect(build().status).toBe(0);
  expect(readFileSync(at('dist/src/one.js'), 'utf8')).toContain('changed');

  rmSync(at('dist/src/one.js'));
  writeFileSync(at('dist/test/models/two.js'), 'spoilt');
  expect(build().status).toBe(0);
  expect(written()).toEqual(ALL);
  expect(readFileSync(at('dist/test/models/two.js'), 'utf8')).toContain('two = 2');

  rmSync(at('test/models/two.ts'));
  expect(build().status).toBe(0);
  expect(written()).toEqual(ALL.slice(0, 3));
  expect(existsSync(at('dist/test/models/two.d.ts'))).toBe(false);
});

test('what does not compile fails each time, until it does', () => {
  writeFileSync(at('src/one.ts'), 'export const one: number = true;\n');
  for (let time = 0; time < 2; ++time) {
    const { status, stdout } = build();
    expect(status).not.toBe(0);
    expect(stdout).toContain('src/one.ts');
  }
  writeFileSync(at('src/one.ts'), 'export const one = 3;\n');
  expect(build().status).toBe(0);
  expect(readFileSync(at('dist/src/one.js'), 'utf8')).toContain('one = 3');
});

test('jest builds first, and not at all where dist/ is to be tested as it is', () => {
  const jest = (env: NodeJS.ProcessEnv) =>
    spawnSync(
      process.execPath,
      [
        ...['--experimental-vm-modules', path.join(root, 'node_modules/jest/bin/jest.js')],
        ...['--rootDir', place, '--testMatch', '**/one.check.mjs', '--silent'],
      ],
      { cwd: place, encoding: 'utf8', env: { ...process.env, ...env } },
    );
  cpSync(path.join(root, 'test', 'build-first.mjs'), at('test/build-first.mjs'));
  writeFileSync(
    at('jest.config.mjs'),
    "export default { globalSetup: './test/build-first.mjs', transform: {} };\n",
  );
  writeFileSync(
    at('one.check.mjs'),
    "import { one } from './dist/src/one.js';\ntest('it is 3', () => expect(one).toBe(3));\n",
  );
  writeFileSync(at('src/one.ts'), 'export const one = 2;\n');
  build();
  writeFileSync(at('src/one.ts'), 'export const one = 3;\n');
  expect(jest({ ISOPRO_TESTS_AS_BUILT: '1' }).status).toBe(1);
  expect(jest({}).status).toBe(0);
  writeFileSync(at('src/one.ts'), 'export const one: string = 3;\n');
  const { status, stdout, stderr } = jest({});
  expect([status, `${stdout}${stderr}`]).toEqual([
    1,
    expect.stringMatching(/src\/one\.ts.*error TS2322[^]*the TypeScript does not compile/),
  ]);
}, 60_000);
