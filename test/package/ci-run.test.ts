import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';

/**
 * Stands where npm would be found: ends `ci`, `test` and the `run`s of the others as told, and
 * leaves jest's results as told.
 */
const NPM = `#!/usr/bin/env node
const { writeFileSync } = require('node:fs');
const [command, ...rest] = process.argv.slice(2);
if (command === 'ci') process.exit(Number(process.env.CI_STATUS));
const file = rest.find((argument) => argument.startsWith('--outputFile=')).slice('--outputFile='.length);
const { RESULT, TEST_STATUS, CAMPAIGNS, CAMPAIGNS_STATUS = '0', REAL, REAL_STATUS = '0' } = process.env;
const told = { 'test': [RESULT, TEST_STATUS], 'test:campaigns': [CAMPAIGNS, CAMPAIGNS_STATUS], 'test:real': [REAL, REAL_STATUS] };
const [result, status] = told[command === 'run' ? rest[0] : command];
if (result !== undefined) writeFileSync(file, result);
process.exit(Number(status));
`;

const result = (
  numPassedTests: number,
  numFailedTests: number,
  numRuntimeErrorTestSuites = 0,
): string => JSON.stringify({ numPassedTests, numFailedTests, numRuntimeErrorTestSuites });

let place: string;
beforeAll(() => {
  place = mkdtempSync(path.join(tmpdir(), 'isopro-ci-'));
  mkdirSync(path.join(place, '.ci'));
  cpSync(fileURLToPath(new URL('../../.ci/run', import.meta.url)), path.join(place, '.ci', 'run'));
  writeFileSync(path.join(place, 'npm'), NPM);
  chmodSync(path.join(place, 'npm'), 0o755);
  writeFileSync(path.join(place, 'package.json'), '{}'); // whatever one lies above it
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

(process.platform === 'win32' ? describe.skip : describe)('.ci/run', () => {
  test.each([
    [
      'all passed',
      { CI_STATUS: '0', TEST_STATUS: '0', RESULT: result(12, 0) },
      '12 passed, 0 failed',
      0,
    ],
    [
      'a test failed',
      { CI_STATUS: '0', TEST_STATUS: '1', RESULT: result(11, 1) },
      '11 passed, 1 failed',
      1,
    ],
    [
      'a suite could not run',
      { CI_STATUS: '0', TEST_STATUS: '1', RESULT: result(11, 0, 1) },
      '11 passed, 1 failed',
      1,
    ],
    [
      'a failure that jest did not report by its status',
      { CI_STATUS: '0', TEST_STATUS: '0', RESULT: result(11, 1) },
      '11 passed, 1 failed',
      1,
    ],
    ['no result', { CI_STATUS: '0', TEST_STATUS: '0' }, '0 passed, 1 failed', 1],
    [
      'a result that is no JSON',
      { CI_STATUS: '0', TEST_STATUS: '2', RESULT: '{' },
      '0 passed, 1 failed',
      2,
    ],
    [
      'the installation failed',
      { CI_STATUS: '7', TEST_STATUS: '0', RESULT: result(12, 0) },
      '0 passed, 1 failed',
      7,
    ],
    [
      'passed, but the process around the tests failed',
      { CI_STATUS: '0', TEST_STATUS: '3', RESULT: result(12, 0) },
      '12 passed, 0 failed',
      3,
    ],
    [
      'a campaign failed',
      {
        CI_STATUS: '0',
        TEST_STATUS: '0',
        RESULT: result(12, 0),
        CAMPAIGNS: result(2, 1),
        CAMPAIGNS_STATUS: '1',
      },
      '14 passed, 1 failed',
      1,
    ],
    [
      'jest died before the campaigns',
      {
        CI_STATUS: '0',
        TEST_STATUS: '0',
        RESULT: result(12, 0),
        CAMPAIGNS: '',
        CAMPAIGNS_STATUS: '9',
      },
      '0 passed, 1 failed',
      9,
    ],
    [
      'so did those with a real model',
      { CI_STATUS: '0', TEST_STATUS: '0', RESULT: result(12, 0), REAL: result(5, 0) },
      '17 passed, 0 failed',
      0,
    ],
    [
      'a test with a real model failed',
      {
        CI_STATUS: '0',
        TEST_STATUS: '0',
        RESULT: result(12, 0),
        REAL: result(4, 1),
        REAL_STATUS: '1',
      },
      '16 passed, 1 failed',
      1,
    ],
    [
      'jest died before the tests with a real model',
      { CI_STATUS: '0', TEST_STATUS: '0', RESULT: result(12, 0), REAL_STATUS: '9' },
      '12 passed, 0 failed',
      9,
    ],
  ])('%s', (_title, env, line, status) => {
    const { RESULT: _inherited, ...inherited } = process.env;
    const run = spawnSync('bash', [path.join(place, '.ci', 'run')], {
      encoding: 'utf8',
      env: { ...inherited, CAMPAIGNS: result(0, 0), ...env, PATH: `${place}:${process.env.PATH}` },
    });
    expect(run.stdout.trim().split('\n').at(-1)).toBe(line);
    expect(run.status).toBe(status);
  });

  test('what failed stands just above the last line', () => {
    const failed = [
      { name: 'a.test.ts', status: 'failed', message: 'no such module', assertionResults: [] },
      {
        name: 'b.test.ts',
        status: 'failed',
        assertionResults: [{ status: 'failed', fullName: 'adds', failureMessages: ['3 is not 4'] }],
      },
      {
        name: 'c.test.ts',
        status: 'passed',
        assertionResults: [{ status: 'passed', fullName: 'holds' }],
      },
    ];
    const { stdout } = spawnSync('bash', [path.join(place, '.ci', 'run')], {
      encoding: 'utf8',
      env: {
        ...process.env,
        PATH: `${place}:${process.env.PATH}`,
        CI_STATUS: '0',
        TEST_STATUS: '1',
        RESULT: JSON.stringify({
          numPassedTests: 1,
          numFailedTests: 1,
          numRuntimeErrorTestSuites: 1,
          testResults: failed,
        }),
        CAMPAIGNS: result(0, 0),
      },
    });
    expect(stdout.trim().split('\n').slice(-5)).toEqual([
      'failed: a.test.ts',
      'no such module',
      'failed: b.test.ts: adds',
      '3 is not 4',
      '1 passed, 2 failed',
    ]);
  });
});
