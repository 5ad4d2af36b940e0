import { readFileSync } from 'node:fs';

/**
 * Tests are TypeScript and import `../../src/…`; they run against what `npm run build:ts` wrote to
 * dist/, so that worker threads, the command line and the addon are tested exactly as they ship.
 */
const common = {
  globalSetup: '<rootDir>/test/build-first.mjs',
  testEnvironment: '<rootDir>/test/vanilla-environment.mjs',
  roots: ['<rootDir>/test'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'es6' } },
    ],
  },
  moduleNameMapper: {
    '^(?:\\.\\./)+(src|bench|examples)/(.*)\\.js$': '<rootDir>/dist/$1/$2.js',
    '^\\./(fixtures|real-model)\\.js$': './$1.ts',
    '^(?:\\.\\./)+models/(.*)\\.js$': '<rootDir>/dist/test/models/$1.js',
    '^(?:\\.\\.?/)+(?:cli/)?run-cli\\.js$': '<rootDir>/test/cli/run-cli.ts',
  },
  testTimeout: 120_000,
  // `npm run coverage`: V8 forgets what a suite ran when its modules are collected
  setupFilesAfterEnv:
    process.env.NODE_V8_COVERAGE === undefined ? [] : ['<rootDir>/test/take-coverage.mjs'],
};

/**
 * test/suites.json says where each suite belongs. `unit`: functions of the project alone, together
 * under a minute; `loop`: the shorter suites that drive the engine, the loop or the command line;
 * `campaign`: the longer ones, those that kill, damage, flood or measure again and again, and the
 * native tests, which are compiled first; `real`: what needs a language model, by `npm run
 * test:real` alone. ISOPRO_FULL=1 lengthens suites of all of them.
 */
const suites = JSON.parse(readFileSync(new URL('test/suites.json', import.meta.url), 'utf8'));
const projects =
  process.env.ISOPRO_REAL_MODEL !== undefined ? ['real'] : ['unit', 'loop', 'campaign'];

export default {
  projects: projects.map((name) => ({
    ...common,
    displayName: name,
    testMatch: suites[name].map((suite) => `<rootDir>/test/${suite}.test.ts`),
  })),
  testSequencer: './test/heaviest-first.mjs',
  maxWorkers: 1,
  testTimeout: common.testTimeout,
};
