/** A process that cannot be begun is an error of whoever wanted it, and of nobody else. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';

const dist = (file: string): string =>
  JSON.stringify(pathToFileURL(path.join(process.cwd(), 'dist/src', file)).href);

(process.platform === 'win32' ? test.skip : test)(
  'where no descriptor is free it is SYSTEM_LIMIT, and the caller goes on',
  () => {
    const script = `
    import { spawn } from 'node:child_process';
    import { closeSync, openSync } from 'node:fs';
    import { startChild } from ${dist('child-process.js')};
    const open = [];
    try {
      for (;;) open.push(openSync('/dev/null'));
    } catch {}
    const said = [];
    try {
      startChild(() => spawn(process.execPath, ['--version']));
    } catch ({ code }) {
      said.push(code);
    }
    await new Promise((next) => setImmediate(next)); // when Node says why
    open.forEach(closeSync);
    const child = startChild(() => spawn(process.execPath, ['--version']));
    said.push(await new Promise((ended) => child.on('close', ended)));
    console.log(JSON.stringify(said));
  `;
    const command = `ulimit -n 200; exec "$0" --input-type=module -e "$1"`;
    const { stdout, stderr } = spawnSync('/bin/sh', ['-c', command, process.execPath, script], {
      encoding: 'utf8',
    });
    expect([stdout, stderr]).toEqual(['["SYSTEM_LIMIT",0]\n', '']);
  },
);
