/**
 * A program that a bundler has written into one file: with the package left out it works, with the
 * package in it it says what to do.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { build } from 'esbuild';
import { refuseBundled } from '../../src/bundler-check.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-bundle-'));
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  mkdirSync(file('node_modules'));
  symlinkSync(path.resolve('.'), file('node_modules/isopro-native'), 'junction');
  writeFileSync(
    file('program.mjs'),
    "import { IsoproError } from 'isopro-native';\nconsole.log(typeof IsoproError);\n",
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each([
  [
    'an ES module, with the package in it',
    'esm',
    [],
    /NATIVE_ADDON_MISSING[^]*bundle[^]*--external:isopro-native/,
  ],
  ['CommonJS, with the package in it', 'cjs', [], /NATIVE_ADDON_MISSING[^]*bundle/],
  ['an ES module, with the package left out', 'esm', ['isopro-native'], null],
] as const)('%s', async (_, format, external, refused) => {
  const outfile = file(`out.${format === 'esm' ? 'mjs' : 'cjs'}`);
  await build({
    entryPoints: [file('program.mjs')],
    outfile,
    bundle: true,
    platform: 'node',
    format,
    external: [...external, '*.node'],
    logLevel: 'silent',
    ...(format === 'cjs' && { define: { 'import.meta.url': 'undefined' } }),
  });
  const { status, stdout, stderr } = spawnSync(process.execPath, [outfile], { encoding: 'utf8' });
  if (refused === null) expect([status, stdout, stderr]).toEqual([0, 'function\n', '']);
  else {
    expect(status).not.toBe(0);
    expect(stderr).toMatch(refused);
  }
});

test('a module of another package is none of ours', () => {
  mkdirSync(file('a/b'), { recursive: true });
  writeFileSync(file('package.json'), '{"name": "app"}');
  expect(() => refuseBundled(`file://${file('a/b/out.js')}`)).toThrow(
    expect.objectContaining({ code: 'NATIVE_ADDON_MISSING' }),
  );
  writeFileSync(file('package.json'), '{"name": "isopro-native"}');
  expect(() => refuseBundled(`file://${file('a/b/out.js')}`)).not.toThrow();
});
