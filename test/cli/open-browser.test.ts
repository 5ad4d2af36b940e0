/** A browser is led to a page by a file that its user alone may read. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { privatePage } from '../../src/cli/serve/browser.js';

const home = mkdtempSync(path.join(tmpdir(), 'isopro-open-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

test('the address is in a file of mode 0600, in a folder of mode 0700, and in no name', () => {
  const key = 'iso-abc"<>&';
  const file = privatePage(`http://127.0.0.1:1/ui/#token=${key}`, home);
  expect([statSync(file).mode & 0o777, statSync(path.dirname(file)).mode & 0o777]).toEqual([
    0o600, 0o700,
  ]);
  expect(file).not.toContain('iso-abc');
  const text = readFileSync(file, 'utf8');
  expect(text).toContain('url=http://127.0.0.1:1/ui/#token=iso-abc&#34;&#60;&#62;&#38;');
});

test('what a killed process has left goes; what another one has just made stays', () => {
  const [old, young] = [
    privatePage('http://127.0.0.1:1/', home),
    privatePage('http://127.0.0.1:2/', home),
  ];
  utimesSync(old, new Date(Date.now() - 120_000), new Date(Date.now() - 120_000));
  const next = privatePage('http://127.0.0.1:3/', home);
  expect([old, young, next].map((file) => existsSync(file))).toEqual([false, true, true]);
});
